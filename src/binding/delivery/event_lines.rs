//! Delivers a turn's events to JavaScript through the multiplexer, one JSON text per line. lib/harness/event.ts reads them.

use super::multiplexer::Channel;
use agents::harness::{AgentEvent, EventSink};
use process::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Sends events to a channel.
pub(in crate::binding) struct EventLines {
    channel: Channel,
    /// Becomes true when the channel's reader has left.
    is_left: Option<Arc<AtomicBool>>,
}

impl EventLines {
    pub(in crate::binding) fn new(channel: Channel) -> Self {
        EventLines { channel, is_left: None }
    }

    /// Adds a flag for a reader that may leave before the end.
    pub(in crate::binding) fn until(self, is_left: Arc<AtomicBool>) -> Self {
        EventLines { is_left: Some(is_left), ..self }
    }
}

impl EventSink for EventLines {
    fn tell(&mut self, events: Vec<AgentEvent>) {
        let lines: Vec<String> =
            events.iter().filter_map(|event| serde_json::to_string(event).ok()).collect();
        let text = lines.join("\n");
        let weight = text.len();
        if weight > 0 {
            self.channel.send(Stream::Stdout, text.into(), weight);
        }
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.channel.poll_room(context)
    }

    fn end(&mut self) {
        self.channel.end();
    }

    fn is_gone(&self) -> bool {
        self.is_left.as_ref().is_some_and(|is_left| is_left.load(Ordering::Relaxed))
    }
}
