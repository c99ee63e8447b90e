//! PURE: joins the pieces of an agent's text into whole messages, each of which is sent once.

use agents::harness::AgentEvent;

/// The pieces of a message that has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct Speech {
    pieces: String,
}

impl Speech {
    /// Takes an event of the agent; returns the messages that it completes, in order.
    pub(crate) fn hear(&mut self, event: &AgentEvent) -> Vec<String> {
        match event {
            AgentEvent::Text { text, delta: true } => {
                self.pieces.push_str(text);
                Vec::new()
            }
            AgentEvent::Text { text, delta: false } => {
                // The whole message usually repeats its pieces. Pieces that it does not contain were a message of their own.
                let before = if text.contains(self.pieces.trim()) { self.forget() } else { self.end() };
                before.into_iter().chain(said(text)).collect()
            }
            // These events occur in the middle of a message.
            AgentEvent::Usage(_) | AgentEvent::Noise { .. } => Vec::new(),
            _ => self.end().into_iter().collect(),
        }
    }

    /// The message ended: its text, if there is any.
    pub(crate) fn end(&mut self) -> Option<String> {
        said(&std::mem::take(&mut self.pieces))
    }

    fn forget(&mut self) -> Option<String> {
        self.pieces.clear();
        None
    }
}

fn said(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agents::harness::Usage;
    use serde_json::Value;

    fn heard(events: &[AgentEvent]) -> Vec<String> {
        let mut speech = Speech::default();
        let mut messages: Vec<String> = events.iter().flat_map(|event| speech.hear(event)).collect();
        messages.extend(speech.end());
        messages
    }

    fn piece(text: &str) -> AgentEvent {
        AgentEvent::Text { text: text.into(), delta: true }
    }

    fn whole(text: &str) -> AgentEvent {
        AgentEvent::Text { text: text.into(), delta: false }
    }

    #[test]
    fn pieces_are_joined_and_end_with_whatever_else_the_agent_does() {
        let tool = AgentEvent::ToolStart { id: "1".into(), name: "shell".into(), input: Value::Null };
        let usage = AgentEvent::Usage(Usage::default());
        let noise = AgentEvent::Noise { line: "warning: x".into() };
        assert_eq!(
            heard(&[piece("Hel"), usage, piece("lo"), noise, tool.clone(), piece("Bye"), tool]),
            ["Hello", "Bye"]
        );
    }

    #[test]
    fn a_message_is_never_told_twice() {
        assert_eq!(heard(&[piece("Hel"), whole("Hello"), whole("Bye")]), ["Hello", "Bye"]);
        assert_eq!(heard(&[piece("one"), whole("two")]), ["one", "two"], "nor is one lost");
    }

    #[test]
    fn nothing_said_is_no_message() {
        assert_eq!(heard(&[piece(" \n"), whole(""), AgentEvent::End { ok: true }]), [""; 0]);
    }
}
