//! How messages lie on the wire, PURE: bytes in, whole bodies and noise out; bodies in, bytes out.
//!
//! | [`Framing`] | a message | noise | given up at |
//! |---|---|---|---|
//! | `Headers` | `Content-Length: N`, an empty line, N bytes | skipped up to the next header, counted | 1 MiB of noise in a row; a body over the bound |
//! | `Lines` | a line that begins with `{` | any other line, handed out as it is; empty lines are nothing | a line over the bound |

use super::found::{Broken, Found};
use super::headers::{self, HeaderDecoder};
use super::lines::{self, LineDecoder};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Headers,
    Lines,
}

/// How both ends speak.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub framing: Framing,
    /// Longest message that is read, in bytes.
    pub max_body: usize,
    /// The notification that gives a request up, and the name of the parameter that holds its id.
    pub cancel: (&'static str, &'static str),
}

impl Wire {
    /// As language servers speak; 256 MiB, for a resumed session's whole history comes as one body.
    pub const HEADERS: Wire =
        Wire { framing: Framing::Headers, max_body: 256 << 20, cancel: ("$/cancelRequest", "id") };
    /// A JSON text a line, as agents speak over their standard streams; 64 MiB.
    pub const LINES: Wire =
        Wire { framing: Framing::Lines, max_body: 64 << 20, cancel: ("$/cancel_request", "requestId") };

    /// A whole message, ready to be written. `body` is JSON text.
    pub fn encode(&self, body: &str) -> Bytes {
        match self.framing {
            Framing::Headers => headers::encode(body),
            Framing::Lines => lines::encode(body),
        }
    }

    pub fn decoder(&self) -> Decoder {
        match self.framing {
            Framing::Headers => {
                Decoder(Kind::Headers { decoder: HeaderDecoder::new(self.max_body), held: None })
            }
            Framing::Lines => Decoder(Kind::Lines(LineDecoder::new(self.max_body))),
        }
    }
}

/// Finds the messages in a stream of bytes; any split of the bytes gives the same messages.
#[derive(Debug)]
pub struct Decoder(Kind);

#[derive(Debug)]
enum Kind {
    Headers {
        decoder: HeaderDecoder,
        /// Found behind the garbage that was told first.
        held: Option<Result<Bytes, Broken>>,
    },
    Lines(LineDecoder),
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Headers { decoder, .. } => decoder.push(bytes),
            Kind::Lines(decoder) => decoder.push(bytes),
        }
    }

    /// What comes next, or `None` when more bytes are needed.
    pub fn next_found(&mut self) -> Result<Option<Found>, Broken> {
        match &mut self.0 {
            Kind::Lines(decoder) => decoder.next_found(),
            Kind::Headers { decoder, held } => {
                if let Some(body) = held.take() {
                    return body.map(|body| Some(Found::Body(body)));
                }
                let next = decoder.next_frame();
                match decoder.take_noise() {
                    0 => Ok(next?.map(Found::Body)),
                    // What was skipped came first.
                    bytes => {
                        *held = next.transpose();
                        Ok(Some(Found::Garbage(bytes)))
                    }
                }
            }
        }
    }

    /// Gives back a body that turned out to be no message, before the next [`Decoder::next_found`]; says what it is instead.
    pub fn reject(&mut self, body: Bytes) -> Found {
        match &mut self.0 {
            Kind::Lines(_) => Found::Line(body),
            Kind::Headers { decoder, .. } => {
                decoder.reject(&body);
                Found::Garbage(decoder.take_noise())
            }
        }
    }

    /// Whether bytes of an unfinished message are held.
    pub fn is_torn(&self) -> bool {
        match &self.0 {
            Kind::Headers { decoder, held } => held.is_some() || decoder.is_torn(),
            Kind::Lines(decoder) => decoder.is_torn(),
        }
    }
}
