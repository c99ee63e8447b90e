//! One flush for all runs of a JavaScript environment: text crosses in few calls, however many runs print.
//!
//! Blocks are queued by the owner tasks. One task flushes the queue: at once when it was quiet, else [`FLUSH_INTERVAL`] after
//! the last flush, or as soon as [`FLUSH_BYTES`] wait or a channel's window is full. Few flushes are under way at a time; JavaScript acknowledges each
//! from `setImmediate`, so that a flood never starves its loop. A channel's window opens again when its reader has taken the
//! text: a slow reader slows the pipe, not the others.

use super::json_filter::JsonFilter;
use super::line::{LineTooLong, StreamFramers};
use super::sink::{Sink, Window};
use super::spec::Stream;
use super::text::Text;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const FLUSH_INTERVAL: Duration = Duration::from_millis(16);
const FLUSHES_UNDER_WAY: usize = 2;
/// Enough for JavaScript to be busy with while the next comes.
const FLUSH_BYTES: usize = 128 << 10;
/// What is under way, and as much again that is read meanwhile: neither side waits for the other.
const CHANNEL_WINDOW_BYTES: usize = 2 * FLUSHES_UNDER_WAY * FLUSH_BYTES;

/// What crosses: text for a channel, or its end.
#[derive(Debug)]
pub struct Block {
    pub channel: u32,
    /// `None`: the channel ended.
    pub text: Option<(Stream, Text)>,
    /// With the end: a line of this stream was too long to be given.
    pub too_long: Option<Stream>,
    /// To be given back by [`Multiplexer::release`] when the reader has taken the text.
    pub weight: usize,
}

/// One a JavaScript environment. Cloneable handle; the flushing task ends with the last one.
#[derive(Clone)]
pub struct Multiplexer {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
    next_channel: AtomicU32,
}

#[derive(Default)]
struct Queue {
    blocks: Vec<Block>,
    windows: HashMap<u32, Arc<Window>>,
    /// Weight of the blocks.
    weight: usize,
    /// A channel's window is full, or much is waiting: nothing is won by waiting.
    urgent: bool,
    under_way: usize,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Multiplexer {
    /// `flush` hands blocks over to JavaScript. Call it within tokio.
    pub fn new(flush: impl Fn(Vec<Block>) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Notify::new(),
            next_channel: AtomicU32::new(1),
        });
        tokio::spawn(run_flushes(Arc::downgrade(&shared), flush));
        Multiplexer { shared }
    }

    /// A channel for one reader.
    pub fn open(&self) -> Channel {
        let id = self.shared.next_channel.fetch_add(1, Ordering::Relaxed);
        let window = Arc::new(Window::new(CHANNEL_WINDOW_BYTES));
        self.shared.queue().windows.insert(id, window.clone());
        Channel { shared: self.shared.clone(), id, window, ended: false }
    }

    /// JavaScript's loop has turned since a flush.
    pub fn acknowledge_flush(&self) {
        let mut queue = self.shared.queue();
        queue.under_way = queue.under_way.saturating_sub(1);
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// The reader of a channel has taken text of this weight.
    pub fn release(&self, channel: u32, weight: usize) {
        let window = self.shared.queue().windows.get(&channel).cloned();
        if let Some(window) = window {
            window.release(weight);
        }
    }
}

/// The sending side of a channel. Dropping it ends the channel.
pub struct Channel {
    shared: Arc<Shared>,
    id: u32,
    window: Arc<Window>,
    ended: bool,
}

impl Channel {
    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn send(&mut self, stream: Stream, text: Text, weight: usize) {
        self.window.take(weight);
        self.queue(Block { channel: self.id, text: Some((stream, text)), too_long: None, weight });
    }

    /// Whole lines, unless there are none.
    fn send_lines(&mut self, stream: Stream, lines: Vec<u8>) {
        let weight = lines.len();
        if weight > 0 {
            self.send(stream, Text::of_block(lines), weight);
        }
    }

    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.window.poll_room(context)
    }

    pub fn end(&mut self) {
        self.end_with(None);
    }

    fn end_with(&mut self, too_long: Option<Stream>) {
        if !std::mem::replace(&mut self.ended, true) {
            self.queue(Block { channel: self.id, text: None, too_long, weight: 0 });
        }
    }

    fn queue(&mut self, block: Block) {
        let mut queue = self.shared.queue();
        let ended = block.text.is_none();
        // The end is urgent too: somebody waits for it.
        queue.weight += block.weight;
        let urgent = ended || queue.weight >= FLUSH_BYTES || !self.window.has_room();
        let first = queue.blocks.is_empty();
        let more_urgent = urgent && !queue.urgent;
        queue.blocks.push(block);
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

/// What to do with the queue now.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Now,
    In(Duration),
    WhenChanged,
}

/// PURE: when the queue is flushed.
fn due(empty: bool, urgent: bool, under_way: usize, since_last: Duration) -> Due {
    if empty || under_way >= FLUSHES_UNDER_WAY {
        return Due::WhenChanged;
    }
    match FLUSH_INTERVAL.checked_sub(since_last) {
        Some(wait) if !urgent && !wait.is_zero() => Due::In(wait),
        _ => Due::Now,
    }
}

async fn run_flushes(shared: Weak<Shared>, flush: impl Fn(Vec<Block>)) {
    let mut last = Instant::now().checked_sub(FLUSH_INTERVAL).unwrap_or_else(Instant::now);
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let decision = {
            let queue = strong.queue();
            due(queue.blocks.is_empty(), queue.urgent, queue.under_way, last.elapsed())
        };
        match decision {
            Due::Now => {
                let blocks = {
                    let mut queue = strong.queue();
                    queue.urgent = false;
                    queue.weight = 0;
                    queue.under_way += 1;
                    std::mem::take(&mut queue.blocks)
                };
                last = Instant::now();
                flush(blocks);
            }
            Due::In(wait) => {
                let _ = tokio::time::timeout(wait, strong.changed.notified()).await;
            }
            Due::WhenChanged => {
                // Bounded, so that the task notices that its environment is gone.
                let _ = tokio::time::timeout(Duration::from_secs(5), strong.changed.notified()).await;
            }
        }
    }
}

/// Which lines a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All lines of both streams.
    Lines,
    /// The JSON objects of stdout, of these types when given.
    Json { types: Option<Vec<String>> },
}

/// Lines of a run for a channel.
pub(super) struct LineSink {
    framers: StreamFramers,
    filter: Option<JsonFilter>,
    channel: Channel,
}

impl LineSink {
    pub(super) fn new(selection: Selection, max_line_bytes: usize, channel: Channel) -> Self {
        let filter = match selection {
            Selection::Lines => None,
            Selection::Json { types } => Some(JsonFilter::new(types)),
        };
        LineSink { framers: StreamFramers::new(max_line_bytes), filter, channel }
    }
}

/// Adds whole lines, or what the filter leaves of them.
fn select(filter: Option<&JsonFilter>, block: &[u8], text: &mut Vec<u8>) {
    match filter {
        None => text.extend_from_slice(block),
        Some(filter) => filter.select(block, text),
    }
}

impl Sink for LineSink {
    fn takes(&self, stream: Stream) -> bool {
        self.filter.is_none() || stream == Stream::Stdout
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        let LineSink { framers, filter, channel } = self;
        let mut text = Vec::new();
        let pushed = framers.of(stream).push(bytes, |block| select(filter.as_ref(), block, &mut text));
        channel.send_lines(stream, text);
        pushed
    }

    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong> {
        let LineSink { framers, filter, channel } = self;
        let mut text = Vec::new();
        let ended = framers.of(stream).end(|block| select(filter.as_ref(), block, &mut text));
        channel.send_lines(stream, text);
        ended
    }

    fn fail(&mut self, stream: Stream) {
        self.channel.end_with(Some(stream));
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.channel.poll_room(context)
    }

    fn finish(&mut self) {
        self.channel.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn flushes_at_once_when_quiet_and_otherwise_at_the_beat() {
        let quiet = Duration::from_secs(1);
        let busy = Duration::from_millis(6);
        assert_eq!(due(true, false, 0, quiet), Due::WhenChanged);
        assert_eq!(due(false, false, 0, quiet), Due::Now);
        assert_eq!(due(false, false, 0, busy), Due::In(Duration::from_millis(10)));
        assert_eq!(due(false, true, 0, busy), Due::Now);
        assert_eq!(
            due(false, true, FLUSHES_UNDER_WAY, quiet),
            Due::WhenChanged,
            "JavaScript has not turned its loop"
        );
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
            multiplexer.acknowledge_flush();
        }
        assert_eq!(texts, [Some(text("a")), Some(text("b")), None]);
    }

    #[tokio::test]
    async fn a_full_window_has_room_again_when_the_reader_has_taken_its_text() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        channel.send(Stream::Stdout, text("x"), CHANNEL_WINDOW_BYTES);
        flushed.recv().await.expect("a flush");
        multiplexer.acknowledge_flush();
        assert!(!channel.window.has_room());
        multiplexer.release(channel.id(), CHANNEL_WINDOW_BYTES);
        std::future::poll_fn(|context| channel.poll_room(context)).await;
    }

    #[tokio::test]
    async fn much_text_does_not_wait_for_the_beat() {
        let (multiplexer, mut flushed) = multiplexer();
        let mut channel = multiplexer.open();
        channel.send(Stream::Stdout, text("first"), 1);
        flushed.recv().await.expect("a flush");
        multiplexer.acknowledge_flush();
        let before = Instant::now();
        channel.send(Stream::Stdout, text("half"), FLUSH_BYTES / 2);
        channel.send(Stream::Stdout, text("half"), FLUSH_BYTES / 2);
        let blocks = flushed.recv().await.expect("a flush");
        assert!(blocks.len() == 2 || before.elapsed() >= FLUSH_INTERVAL / 2, "{} blocks", blocks.len());
        assert!(channel.window.has_room());
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
        tokio::time::sleep(FLUSH_INTERVAL * 2).await;
        assert!(flushed.try_recv().is_err());
        multiplexer.acknowledge_flush();
        assert_eq!(flushed.recv().await.expect("a flush").len(), 1);
    }
}
