//! PURE: what an agent says in pieces becomes whole messages, each told once.

use serde_json::Value;

/// The pieces of a message that has not ended yet.
#[derive(Debug, Default)]
pub struct Speech {
    pieces: String,
}

impl Speech {
    /// Hears an event of the agent (a JSON line); the messages that it completes, in order.
    pub fn hear(&mut self, event: &Value) -> Vec<String> {
        let text = event.get("text").and_then(Value::as_str).unwrap_or_default();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" if event.get("delta").and_then(Value::as_bool) == Some(true) => {
                self.pieces.push_str(text);
                Vec::new()
            }
            "text" => {
                // The whole mostly says what its pieces said. What it does not say was a message of its own.
                let before = if text.contains(self.pieces.trim()) { self.forget() } else { self.end() };
                before.into_iter().chain(said(text)).collect()
            }
            // They come in the middle of a message.
            "usage" | "noise" => Vec::new(),
            _ => self.end().into_iter().collect(),
        }
    }

    /// The message ended: its text, if there is any.
    pub fn end(&mut self) -> Option<String> {
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
    use serde_json::json;

    fn heard(events: &[Value]) -> Vec<String> {
        let mut speech = Speech::default();
        let mut messages: Vec<String> = events.iter().flat_map(|event| speech.hear(event)).collect();
        messages.extend(speech.end());
        messages
    }

    fn piece(text: &str) -> Value {
        json!({"type": "text", "text": text, "delta": true})
    }

    fn whole(text: &str) -> Value {
        json!({"type": "text", "text": text, "delta": false})
    }

    #[test]
    fn pieces_are_joined_and_end_with_whatever_else_the_agent_does() {
        let tool = json!({"type": "tool_start", "id": "1", "name": "shell", "input": {}});
        let usage = json!({"type": "usage", "inputTokens": 1, "outputTokens": 1, "cachedInputTokens": 0});
        let noise = json!({"type": "noise", "line": "warning: x"});
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
        assert_eq!(heard(&[piece(" \n"), whole(""), json!({"type": "end", "ok": true}), json!(5)]), [""; 0]);
    }
}
