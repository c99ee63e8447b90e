//! Consumers of a turn's events, and the signal that a consumer is behind.
//!
//! [`EventSink`] is the interface. The napi edge implements it to pass events to JavaScript; [`EventReader`] is for Rust. Both
//! pause the reading of the agent's pipe when they are full.

use super::AgentEvent;
use futures_util::task::AtomicWaker;
use ground::lock::lock;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

/// A consumer of a turn's events. `tell` never blocks and never refuses: the turn asks [`EventSink::poll_room`] first.
/// Dropping it without [`EventSink::end`] means that the turn was over before it came: it is an end as well.
pub trait EventSink: Send {
    /// The next events, never none, in their order. Secrets are taken out of them.
    fn tell(&mut self, events: Vec<AgentEvent>);
    /// Ready when there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;
    /// The last event was told.
    fn end(&mut self);
    /// Whether nobody takes the events any more. Such a sink can be dropped.
    fn is_gone(&self) -> bool {
        false
    }
}

/// Bytes, about, that wait for a reader before the agent's pipe is held back. Soft: one telling may overshoot it.
const READER_WINDOW_BYTES: usize = 256 << 10;

/// The events of a turn for a consumer in Rust, see [`Turn::events`](super::Turn::events). Bounded: a slow reader slows the
/// agent. Dropping it means that nobody reads any more; the agent goes on unheard.
pub struct EventReader {
    shared: Arc<EventQueue>,
}

/// The turn's side of an [`EventReader`].
pub(crate) struct ReaderSink {
    shared: Arc<EventQueue>,
}

#[derive(Default)]
struct EventQueue {
    waiting: Mutex<Events>,
    reader: AtomicWaker,
    turn: AtomicWaker,
}

#[derive(Default)]
struct Events {
    events: Vec<AgentEvent>,
    weight: usize,
    has_ended: bool,
    is_reader_gone: bool,
}

impl EventQueue {
    fn waiting(&self) -> MutexGuard<'_, Events> {
        lock(&self.waiting)
    }
}

pub(crate) fn event_channel() -> (ReaderSink, EventReader) {
    let shared = Arc::new(EventQueue::default());
    (ReaderSink { shared: shared.clone() }, EventReader { shared })
}

impl EventReader {
    /// All events that came since the last call, at least one; `None` after the last. Taking them makes room.
    pub async fn next(&mut self) -> Option<Vec<AgentEvent>> {
        poll_fn(|context| {
            // Before the look: what comes between the two must wake.
            self.shared.reader.register(context.waker());
            let mut waiting = self.shared.waiting();
            if !waiting.events.is_empty() {
                let events = std::mem::take(&mut waiting.events);
                waiting.weight = 0;
                drop(waiting);
                self.shared.turn.wake();
                return Poll::Ready(Some(events));
            }
            if waiting.has_ended { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.is_reader_gone = true;
        waiting.events = Vec::new();
        waiting.weight = 0;
        drop(waiting);
        self.shared.turn.wake();
    }
}

impl EventSink for ReaderSink {
    fn tell(&mut self, events: Vec<AgentEvent>) {
        let mut waiting = self.shared.waiting();
        if waiting.is_reader_gone {
            return;
        }
        waiting.weight += events.iter().map(AgentEvent::weight).sum::<usize>();
        waiting.events.extend(events);
        drop(waiting);
        self.shared.reader.wake();
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.turn.register(context.waker());
        if self.shared.waiting().weight < READER_WINDOW_BYTES { Poll::Ready(()) } else { Poll::Pending }
    }

    fn end(&mut self) {
        self.shared.waiting().has_ended = true;
        self.shared.reader.wake();
    }

    fn is_gone(&self) -> bool {
        self.shared.waiting().is_reader_gone
    }
}

impl Drop for ReaderSink {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn text(bytes: usize) -> AgentEvent {
        AgentEvent::Text { text: "x".repeat(bytes), delta: true }
    }

    fn has_room(sink: &mut ReaderSink) -> bool {
        sink.poll_room(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn events_come_in_order_and_the_end_after_the_last() {
        let (mut sink, mut reader) = event_channel();
        sink.tell(vec![text(1), text(2)]);
        sink.tell(vec![text(3)]);
        drop(sink);
        assert_eq!(reader.next().await, Some(vec![text(1), text(2), text(3)]));
        assert_eq!(reader.next().await, None);
        assert_eq!(reader.next().await, None, "and it stays so");
    }

    #[tokio::test]
    async fn a_reader_that_is_behind_has_no_room_until_it_takes() {
        let (mut sink, mut reader) = event_channel();
        assert!(has_room(&mut sink));
        sink.tell(vec![text(READER_WINDOW_BYTES)]);
        assert!(!has_room(&mut sink));
        let waiting = ground::task::spawn(async move {
            poll_fn(|context| sink.poll_room(context)).await;
            sink
        });
        tokio::task::yield_now().await;
        assert!(reader.next().await.is_some());
        assert!(has_room(&mut waiting.await.unwrap()));
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_holds_nothing_and_nobody_back() {
        let (mut sink, reader) = event_channel();
        sink.tell(vec![text(READER_WINDOW_BYTES)]);
        drop(reader);
        sink.tell(vec![text(READER_WINDOW_BYTES)]);
        assert!(has_room(&mut sink));
        assert_eq!(sink.shared.waiting().weight, 0);
    }
}
