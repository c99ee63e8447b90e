//! Consumers of a turn's events, and the signal that a consumer is behind.
//!
//! [`EventSink`] is the interface. The napi edge implements it to pass events to JavaScript; [`EventReader`] is for Rust. Both
//! pause the reading of the agent's pipe when they are full.

use super::AgentEvent;
use ground::window::{WeighedReceiver, WeighedSender, weighed};
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
pub struct EventReader(WeighedReceiver<Vec<AgentEvent>>);

/// The turn's side of an [`EventReader`].
pub(crate) struct ReaderSink(WeighedSender<Vec<AgentEvent>>);

pub(crate) fn event_channel() -> (ReaderSink, EventReader) {
    let (sender, receiver) = weighed(READER_WINDOW_BYTES);
    (ReaderSink(sender), EventReader(receiver))
}

impl EventReader {
    /// All events that came since the last call, at least one; `None` after the last. Taking them makes room.
    pub async fn next(&mut self) -> Option<Vec<AgentEvent>> {
        let mut events = self.0.next().await?;
        while let Some(more) = self.0.next_now() {
            events.extend(more);
        }
        Some(events)
    }
}

impl EventSink for ReaderSink {
    fn tell(&mut self, events: Vec<AgentEvent>) {
        let weight = events.iter().map(AgentEvent::weight).sum();
        self.0.send(events, weight);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.window.poll_room(context)
    }

    fn end(&mut self) {
        self.0.end();
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
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
        assert_eq!(sink.0.window.used(), 0);
    }
}
