//! One answer, read as it passes: how many tokens it used so far. PURE.

use super::usage::{Tokens, Told, told};
use serde_json::Value;
use wires::http::{SseEvent, SseParser};

/// The longest event, or whole answer, that is read.
const MAX_BYTES: usize = 32 << 20;
/// Bytes of text that are taken for one token. English has a little more, code a little less.
const BYTES_A_TOKEN: u64 = 4;

enum Form {
    Events(SseParser),
    Whole(Vec<u8>),
    /// Neither text nor JSON, or too long.
    Unread,
}

/// An answer that passes.
pub(crate) struct Answer {
    form: Form,
    is_model: bool,
    model: Option<String>,
    tokens: Option<Tokens>,
    is_final: bool,
    /// Bytes of the model's text.
    text: u64,
    /// Part of it could not be read.
    is_torn: bool,
}

/// The tokens of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    /// The answer did not say them all.
    pub is_estimated: bool,
}

impl Answer {
    pub(crate) fn new(content_type: &str) -> Answer {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let form = match kind.as_str() {
            "text/event-stream" => Form::Events(SseParser::new(MAX_BYTES)),
            // Some servers name no type at all, or the wrong one.
            "" | "text/plain" | "application/json" => Form::Whole(Vec::new()),
            kind if kind.ends_with("+json") => Form::Whole(Vec::new()),
            _ => Form::Unread,
        };
        Answer { form, is_model: false, model: None, tokens: None, is_final: false, text: 0, is_torn: false }
    }

    /// Whether a piece told something new.
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        match &mut self.form {
            Form::Unread => false,
            Form::Whole(bytes) if bytes.len() + piece.len() <= MAX_BYTES => {
                bytes.extend_from_slice(piece);
                false
            }
            Form::Whole(_) => self.tear(),
            Form::Events(parser) => {
                let mut events = Vec::new();
                let is_torn = parser.push(piece, &mut events).is_err();
                let news = events.iter().filter(|event| self.on_event(event)).count();
                if is_torn { self.tear() } else { news > 0 }
            }
        }
    }

    /// Nothing more comes. `is_whole`: it came to its end.
    pub(crate) fn end(&mut self, is_whole: bool) {
        match std::mem::replace(&mut self.form, Form::Unread) {
            Form::Whole(bytes) => match serde_json::from_slice::<Value>(&bytes) {
                // Gemini streams a list where no events are asked for.
                Ok(Value::Array(all)) => all.iter().for_each(|one| self.on_told(told(one))),
                Ok(value) => self.on_told(told(&value)),
                Err(_) => self.is_torn |= !is_whole && self.is_model,
            },
            Form::Events(mut parser) => {
                if let Some(event) = parser.finish() {
                    self.on_event(&event);
                }
            }
            Form::Unread => {}
        }
    }

    fn tear(&mut self) -> bool {
        self.form = Form::Unread;
        self.is_torn = true;
        true
    }

    fn on_event(&mut self, event: &SseEvent) -> bool {
        match serde_json::from_str::<Value>(&event.data) {
            Ok(value) => {
                let told = told(&value);
                let is_news = told.is_model;
                self.on_told(told);
                is_news
            }
            Err(_) => false,
        }
    }

    fn on_told(&mut self, told: Told) {
        self.is_model |= told.is_model;
        self.model = told.model.or(self.model.take());
        self.text += told.text;
        if let Some(tokens) = told.tokens {
            // The end of a message tells its output alone.
            let before = self.tokens.unwrap_or_default();
            self.tokens = Some(Tokens {
                input: tokens.input.max(before.input),
                cached: tokens.cached.max(before.cached),
                output: tokens.output.max(before.output),
            });
        }
        self.is_final |= told.is_final;
    }

    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether it was too long to be read, or of a form that is not read.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The tokens so far; `None` if it is no model's answer. `asked`: bytes of text in the request, once the answer is over.
    pub(crate) fn spent(&self, asked: Option<u64>) -> Option<Spent> {
        if !self.is_model {
            return None;
        }
        let told = self.tokens.unwrap_or_default();
        if self.is_final && !self.is_torn {
            return Some(Spent {
                input: told.input,
                cached: told.cached,
                output: told.output,
                is_estimated: false,
            });
        }
        // Before its end nothing is guessed about the request: pictures in it are long, and few tokens.
        let guessed = asked.filter(|_| told.input == 0).map_or(0, |asked| asked.div_ceil(BYTES_A_TOKEN));
        Some(Spent {
            input: told.input.max(guessed),
            cached: told.cached,
            output: told.output.max(self.text.div_ceil(BYTES_A_TOKEN)),
            is_estimated: true,
        })
    }
}

/// Counts bytes of text in a request, without files in it.
#[derive(Debug, Default)]
pub(crate) struct AskedText {
    bytes: u64,
    /// Characters of base64 one after another.
    run: u64,
}

/// A word that is longer than this is a file.
const LONGEST_WORD: u64 = 512;

impl AskedText {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') {
                self.run += 1;
            } else {
                self.close();
                self.bytes += 1;
            }
        }
    }

    fn close(&mut self) {
        if self.run <= LONGEST_WORD {
            self.bytes += self.run;
        }
        self.run = 0;
    }

    pub(crate) fn end(&mut self) -> u64 {
        self.close();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(events: &[&str]) -> Answer {
        let mut answer = Answer::new("text/event-stream; charset=utf-8");
        for event in events {
            answer.push(format!("data: {event}\n\n").as_bytes());
        }
        answer
    }

    fn spent(input: u64, cached: u64, output: u64, is_estimated: bool) -> Option<Spent> {
        Some(Spent { input, cached, output, is_estimated })
    }

    const START: &str = r#"{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":100,"cache_read_input_tokens":20,"output_tokens":1}}}"#;
    const DELTA: &str = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"eight by"}}"#;
    const END: &str = r#"{"type":"message_delta","usage":{"output_tokens":42}}"#;

    #[test]
    fn a_stream_is_exact_at_its_end_and_estimated_before() {
        let mut answer = stream(&[START]);
        assert_eq!(answer.spent(None), spent(120, 20, 1, true));
        for _ in 0..3 {
            answer.push(format!("data: {DELTA}\n\n").as_bytes());
        }
        assert_eq!(answer.spent(None), spent(120, 20, 6, true));
        assert!(answer.push(format!("data: {END}\n\n").as_bytes()));
        assert_eq!(answer.spent(None), spent(120, 20, 42, false));
        assert_eq!(answer.model(), Some("claude-x"));
    }

    #[test]
    fn a_stream_that_says_nothing_of_tokens_is_estimated_at_its_end() {
        let chunk = r#"{"object":"chat.completion.chunk","model":"m","choices":[{"delta":{"content":"twelve bytes"}}]}"#;
        let mut answer = stream(&[chunk, chunk, "[DONE]"]);
        assert_eq!(answer.spent(None), spent(0, 0, 6, true));
        answer.end(true);
        assert_eq!(answer.spent(Some(40)), spent(10, 0, 6, true));
    }

    #[test]
    fn a_whole_answer_is_read_at_its_end() {
        let text =
            r#"{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        let mut answer = Answer::new("application/json");
        for piece in text.as_bytes().chunks(7) {
            assert!(!answer.push(piece));
        }
        assert_eq!(answer.spent(None), None);
        answer.end(true);
        assert_eq!(answer.spent(Some(1000)), spent(3, 0, 2, false));
        let mut list = Answer::new("application/json");
        list.push(
            br#"[{"candidates":[{}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}},"#,
        );
        list.push(br#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}]"#);
        list.end(true);
        assert_eq!(list.spent(None), spent(3, 0, 9, false));
    }

    #[test]
    fn what_is_no_model_s_answer_counts_nothing() {
        for (kind, text) in [
            ("application/json", r#"{"error":{"message":"no"}}"#),
            ("application/json", "torn {"),
            ("text/html", "<html>"),
            ("text/event-stream", "data: {\"type\":\"ping\"}\n\n"),
        ] {
            let mut answer = Answer::new(kind);
            answer.push(text.as_bytes());
            answer.end(true);
            assert_eq!(answer.spent(Some(1000)), None, "{kind} {text}");
        }
    }

    #[test]
    fn files_in_a_request_are_no_text() {
        let mut text = AskedText::default();
        text.push(b"{\"a\":\"");
        for _ in 0..100 {
            text.push(&[b'A'; 1000]);
        }
        text.push(b"\",\"b\":\"words here\"}");
        assert_eq!(text.end(), 25);
    }
}
