//! A turn's events on their way to JavaScript: one JSON a line, through the multiplexer. lib/harness/event.ts reads them.

use super::multiplexer::Channel;
use agents::harness::{AgentEvent, EventSink};
use process::Stream;
use std::task::{Context, Poll};

/// Events for a channel.
pub(in crate::binding) struct EventLines {
    channel: Channel,
}

impl EventLines {
    pub(in crate::binding) fn new(channel: Channel) -> Self {
        EventLines { channel }
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
}
