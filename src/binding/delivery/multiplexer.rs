//! One queue for all runs of a JavaScript environment, so that text crosses in few calls, however many runs print.
//!
//! The owner tasks queue blocks, and one task flushes the queue. It flushes as soon as JavaScript has handled the flush before,
//! so that the batches grow with JavaScript's load. Where many runs print at once, a [`Pace`] delays the flushes. JavaScript
//! acknowledges a flush from `setImmediate`, so that a flood never starves its event loop; in a flood the next flush is prepared
//! meanwhile. A channel's window opens again when its reader has taken the text: a slow reader slows its own pipe, not the
//! others.

use super::pace::Pace;
use ground::lock::lock;
use ground::text::Text;
use process::{Missed, Stream, Window};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Flushes that may be unacknowledged in a flood. Otherwise the next flush waits for JavaScript.
const FLUSHES_UNDER_WAY: usize = 2;
/// Size of a flush that keeps JavaScript busy while the next one is prepared.
const FLUSH_BYTES: usize = 128 << 10;
/// Room for the flushes under way and as much again that is read meanwhile, so that neither side waits for the other.
const CHANNEL_WINDOW_BYTES: usize = 2 * FLUSHES_UNDER_WAY * FLUSH_BYTES;

/// A block for JavaScript: text for a channel, or the channel's end.
#[derive(Debug)]
pub(crate) struct Block {
    pub channel: u32,
    /// The text. `None`: the channel ended.
    pub text: Option<(Stream, Text)>,
    /// At the channel's end: the reason why the reader could not have the output.
    pub missed: Option<Missed>,
    /// Weight that [`Multiplexer::acknowledge`] gives back when the reader has taken the text.
    pub weight: usize,
}

/// One per JavaScript environment. A cloneable handle; the flushing task ends with the last one.
#[derive(Clone)]
pub(crate) struct Multiplexer {
    shared: Arc<MultiplexerState>,
}

struct MultiplexerState {
    queue: Mutex<Queue>,
    changed: Notify,
    next_channel: AtomicU32,
}

struct Queue {
    blocks: Vec<Block>,
    windows: HashMap<u32, Arc<Window>>,
    /// Sum of the blocks' weights.
    weight: usize,
    /// The flush can't wait: a channel's window is full, or much text is queued.
    urgent: bool,
    under_way: usize,
    pace: Pace,
}

impl Queue {
    fn new() -> Self {
        let pace = Pace::new(Instant::now());
        Queue { blocks: Vec::new(), windows: HashMap::new(), weight: 0, urgent: false, under_way: 0, pace }
    }

    fn next(&mut self) -> Next {
        if !is_due(self.blocks.is_empty(), self.urgent, self.under_way) {
            return Next::Wait(IDLE_PAUSE);
        }
        let now = Instant::now();
        let wait = self.pace.wait(now);
        if !self.urgent && !wait.is_zero() {
            return Next::Wait(wait);
        }
        self.pace.flushed(now);
        self.urgent = false;
        self.weight = 0;
        self.under_way += 1;
        Next::Flush(std::mem::take(&mut self.blocks))
    }
}

/// The next action of the flushing task.
enum Next {
    Flush(Vec<Block>),
    /// Wait for a change, at most this long.
    Wait(Duration),
}

/// Longest wait, so that the task notices when its environment is gone.
const IDLE_PAUSE: Duration = Duration::from_secs(5);

impl MultiplexerState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Multiplexer {
    /// `flush` hands blocks over to JavaScript. Must be called within tokio.
    pub(crate) fn new(flush: impl Fn(Vec<Block>) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(MultiplexerState {
            queue: Mutex::new(Queue::new()),
            changed: Notify::new(),
            next_channel: AtomicU32::new(1),
        });
        ground::task::spawn(run_flushes(Arc::downgrade(&shared), flush));
        Multiplexer { shared }
    }

    /// A channel for one reader.
    pub(crate) fn open(&self) -> Channel {
        let id = self.shared.next_channel.fetch_add(1, Ordering::Relaxed);
        let window = Arc::new(Window::new(CHANNEL_WINDOW_BYTES));
        self.shared.queue().windows.insert(id, window.clone());
        Channel { shared: self.shared.clone(), id, window, ended: false }
    }

    /// JavaScript's event loop has handled this many flushes, and the readers of these channels have taken text of this weight.
    pub(crate) fn acknowledge(&self, flushes: usize, taken: impl Iterator<Item = (u32, usize)>) {
        let mut queue = self.shared.queue();
        queue.under_way = queue.under_way.saturating_sub(flushes);
        let opened: Vec<_> = taken
            .filter_map(|(channel, weight)| Some((queue.windows.get(&channel)?.clone(), weight)))
            .collect();
        drop(queue);
        if flushes > 0 {
            self.shared.changed.notify_one();
        }
        for (window, weight) in opened {
            window.release(weight);
        }
    }
}

/// The sending side of a channel. Dropping it ends the channel.
pub(crate) struct Channel {
    shared: Arc<MultiplexerState>,
    id: u32,
    window: Arc<Window>,
    ended: bool,
}

impl Channel {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn send(&mut self, stream: Stream, text: Text, weight: usize) {
        self.window.take(weight);
        self.queue(Block { channel: self.id, text: Some((stream, text)), missed: None, weight });
    }

    /// Sends whole lines; does nothing when there are none.
    pub(super) fn send_lines(&mut self, stream: Stream, lines: Vec<u8>) {
        let weight = lines.len();
        if weight > 0 {
            self.send(stream, Text::of_block(lines), weight);
        }
    }

    /// Sends bytes that are not decoded; does nothing when there are none.
    pub(in crate::binding) fn send_bytes(&mut self, stream: Stream, bytes: Vec<u8>) {
        let weight = bytes.len();
        if weight > 0 {
            self.send(stream, Text::Raw(bytes), weight);
        }
    }

    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.window.poll_room(context)
    }

    pub(crate) fn end(&mut self) {
        self.end_with(None);
    }

    pub(super) fn end_with(&mut self, missed: Option<Missed>) {
        if !std::mem::replace(&mut self.ended, true) {
            self.queue(Block { channel: self.id, text: None, missed, weight: 0 });
        }
    }

    fn queue(&mut self, block: Block) {
        let mut queue = self.shared.queue();
        let ended = block.text.is_none();
        // The end is urgent too, because its reader waits for it.
        queue.weight += block.weight;
        let urgent = ended || queue.weight >= FLUSH_BYTES || !self.window.has_room();
        let first = queue.blocks.is_empty();
        let more_urgent = urgent && !queue.urgent;
        queue.blocks.push(block);
        queue.pace.arrived(Instant::now());
        queue.urgent |= urgent;
        if ended {
            queue.windows.remove(&self.id);
        }
        drop(queue);
        if first || more_urgent {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether the queue may be flushed now.
fn is_due(empty: bool, urgent: bool, under_way: usize) -> bool {
    !empty && under_way < if urgent { FLUSHES_UNDER_WAY } else { 1 }
}

async fn run_flushes(shared: Weak<MultiplexerState>, flush: impl Fn(Vec<Block>)) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let next = strong.queue().next();
        match next {
            Next::Flush(blocks) => flush(blocks),
            Next::Wait(longest) => drop(tokio::time::timeout(longest, strong.changed.notified()).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::mpsc;

    #[test]
    fn flushes_when_javascript_is_back_and_in_a_flood_one_ahead() {
        for (empty, urgent, under_way, due) in [
            (true, true, 0, false),
            (false, false, 0, true),
            (false, false, 1, false),
            (false, true, 1, true),
            (false, true, FLUSHES_UNDER_WAY, false),
        ] {
            assert_eq!(is_due(empty, urgent, under_way), due, "{empty} {urgent} {under_way}");
        }
    }

    fn text(text: &str) -> Text {
        Text::of_block(text.into())
    }

    fn multiplexer() -> (Multiplexer, mpsc::UnboundedReceiver<Vec<Block>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let multiplexer = Multiplexer::new(move |blocks| {
            let _ = sender.send(blocks);
        });
        (multiplexer, receiver)
    }

    #[tokio::test]
    async fn blocks_arrive_in_order_and_the_end_last() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        channel.send(Stream::Stdout, text("a"), 1);
        channel.send(Stream::Stderr, text("b"), 1);
        drop(channel);
        let mut texts = Vec::new();
        while texts.last() != Some(&None) {
            for block in flushed.recv().await.expect("a flush") {
                texts.push(block.text.map(|(_, text)| text));
            }
            multiplexer.acknowledge(1, std::iter::empty());
        }
        assert_eq!(texts, [Some(text("a")), Some(text("b")), None]);
    }

    #[tokio::test]
    async fn a_full_window_has_room_again_when_the_reader_has_taken_its_text() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        channel.send(Stream::Stdout, text("x"), CHANNEL_WINDOW_BYTES);
        flushed.recv().await.expect("a flush");
        multiplexer.acknowledge(1, std::iter::empty());
        assert!(!channel.window.has_room());
        multiplexer.acknowledge(0, [(channel.id(), CHANNEL_WINDOW_BYTES)].into_iter());
        std::future::poll_fn(|context| channel.poll_room(context)).await;
    }

    #[tokio::test]
    async fn what_comes_while_javascript_is_busy_comes_together() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        channel.send(Stream::Stdout, text("first"), 1);
        assert_eq!(flushed.recv().await.expect("a flush").len(), 1);
        channel.send(Stream::Stdout, text("second"), 1);
        channel.send(Stream::Stdout, text("third"), 1);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(flushed.try_recv().is_err(), "one flush is under way");
        multiplexer.acknowledge(1, std::iter::empty());
        assert_eq!(flushed.recv().await.expect("a flush").len(), 2);
        channel.send(Stream::Stdout, text("flood"), FLUSH_BYTES);
        assert_eq!(flushed.recv().await.expect("one ahead in a flood").len(), 1);
    }

    #[tokio::test]
    async fn never_more_flushes_under_way_than_allowed() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        for _ in 0..FLUSHES_UNDER_WAY {
            channel.send(Stream::Stdout, text("x"), CHANNEL_WINDOW_BYTES);
            flushed.recv().await.expect("a flush");
        }
        channel.send(Stream::Stdout, text("late"), CHANNEL_WINDOW_BYTES);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(flushed.try_recv().is_err());
        multiplexer.acknowledge(1, std::iter::empty());
        assert_eq!(flushed.recv().await.expect("a flush").len(), 1);
    }
}
