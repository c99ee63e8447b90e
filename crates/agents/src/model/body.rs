//! Reads the body of a response, in any pieces: server-sent events, or one JSON completion. PURE.

use super::completion::{Assembly, Completion, Malformed, ServerError};
use ground::json;
use wires::http::{SseEvent, SseParser};

/// Longest body. A longer one is treated as malformed.
const MAX_BODY_BYTES: usize = 256 << 20;
const MAX_EVENT_BYTES: usize = 64 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The progress of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Open,
    /// The answer is complete; only its usage may still come.
    Answered,
    /// The server announced the end of the stream.
    Done,
}

#[derive(Debug)]
pub(super) struct BodyReader {
    form: Form,
    bytes: usize,
    assembly: Assembly,
    saw_end: bool,
}

#[derive(Debug)]
enum Form {
    /// Only white space and byte order marks so far.
    Unknown,
    Events(SseParser),
    Json(Vec<u8>),
}

impl BodyReader {
    /// The first byte tells whether the body is events or JSON. The Content-Type is ignored: some servers send events as
    /// `text/plain`, and JSON as `text/event-stream`.
    pub(crate) fn new() -> Self {
        BodyReader { form: Form::Unknown, bytes: 0, assembly: Assembly::default(), saw_end: false }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<Progress, Malformed> {
        self.bytes = self.bytes.saturating_add(chunk.len());
        if self.bytes > MAX_BODY_BYTES {
            return Err(Malformed::Wrong(format!("the body is longer than {MAX_BODY_BYTES} bytes")));
        }
        let mut chunk = chunk;
        if let Form::Unknown = self.form {
            let begins = |byte: &u8| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte);
            chunk = &chunk[chunk.iter().position(begins).unwrap_or(chunk.len())..];
            self.form = match chunk.first() {
                None => Form::Unknown,
                Some(b'{' | b'[') => Form::Json(Vec::new()),
                Some(b'<') => return Err(Malformed::Wrong("the body is a web page".to_owned())),
                Some(_) => Form::Events(SseParser::new(MAX_EVENT_BYTES)),
            };
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Json(bytes) => bytes.extend_from_slice(chunk),
            Form::Events(parser) => {
                let mut events = Vec::new();
                let pushed = parser.push(chunk, &mut events);
                for event in &events {
                    self.on_event(event)?;
                }
                pushed.map_err(|error| Malformed::Wrong(error.to_string()))?;
            }
        }
        Ok(self.progress())
    }

    /// The text of the answer so far. A body in one piece has text only at its end.
    pub(crate) fn text(&self) -> &str {
        self.assembly.text()
    }

    /// Ends the body and returns its completion.
    pub(crate) fn finish(mut self) -> Result<Completion, Malformed> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => return Err(Malformed::Wrong("the body is empty".to_owned())),
            Form::Json(bytes) => {
                let value = json::read(&bytes)
                    .map_err(|error| Malformed::Wrong(format!("the body is not valid JSON: {error}")))?;
                self.assembly.on_whole(&value)?;
            }
            Form::Events(mut parser) => {
                if let Some(event) = parser.finish() {
                    self.on_event(&event)?;
                }
                if !self.saw_end && !self.assembly.has_ended() {
                    return Err(Malformed::Wrong("the stream ended before the answer did".to_owned()));
                }
                if !self.assembly.has_choice() {
                    return Err(Malformed::Wrong("the stream has no choices".to_owned()));
                }
            }
        }
        self.assembly.finish()
    }

    fn on_event(&mut self, event: &SseEvent) -> Result<(), Malformed> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.saw_end = true;
        }
        // Events after the end are ignored, and so are events without data, which servers send to keep the connection alive.
        if self.saw_end || data.is_empty() {
            return Ok(());
        }
        match json::read(json::keep_halves(data.as_bytes())) {
            Ok(value) if event.name.as_deref() != Some("error") => self.assembly.on_chunk(&value),
            // The answer is complete, so malformed data after it does not matter.
            Err(_) if self.assembly.has_ended() => Ok(()),
            _ if event.name.as_deref() == Some("error") => Err(Malformed::Error(ServerError::of_body(data))),
            Ok(_) => Ok(()),
            Err(error) => Err(Malformed::Wrong(format!("an event of the stream is not valid JSON: {error}"))),
        }
    }

    fn progress(&self) -> Progress {
        if self.saw_end {
            Progress::Done
        } else if self.assembly.has_ended() {
            Progress::Answered
        } else {
            Progress::Open
        }
    }
}

#[cfg(test)]
#[path = "tests/body.rs"]
mod tests;
