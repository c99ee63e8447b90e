//! The encoding of messages on the wire, PURE: bytes in, whole bodies and noise out; bodies in, bytes out.
//!
//! | [`Framing`] | a message | noise | reading stops at |
//! |---|---|---|---|
//! | `Headers` | `Content-Length: N`, an empty line, N bytes | skipped up to the next header, counted | 1 MiB of noise in a row;
//! a body over the limit |
//! | `Lines` | a line that begins with `{` | any other line, returned unchanged; empty lines are ignored | a line over the limit
//! |

use super::found::{Broken, Found};
use super::headers::{self, HeaderDecoder};
use super::lines::{self, LineDecoder};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Headers,
    Lines,
}

/// The protocol options of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub framing: Framing,
    /// Longest message that is read, in bytes.
    pub max_body: usize,
    /// Name of the notification that cancels a request, and of the parameter that holds the request's id.
    pub cancel: (&'static str, &'static str),
}

impl Wire {
    /// The framing of language servers; 256 MiB, because a resumed session's whole history comes as one body.
    pub const HEADERS: Wire =
        Wire { framing: Framing::Headers, max_body: 256 << 20, cancel: ("$/cancelRequest", "id") };
    /// One JSON text per line, as agents use on their standard streams; 64 MiB.
    pub const LINES: Wire =
        Wire { framing: Framing::Lines, max_body: 64 << 20, cancel: ("$/cancel_request", "requestId") };

    /// Encodes a message for the wire. `body` is JSON text.
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

/// Finds the messages in a stream of bytes. The result does not depend on how the bytes are split.
#[derive(Debug)]
pub struct Decoder(Kind);

#[derive(Debug)]
enum Kind {
    Headers {
        decoder: HeaderDecoder,
        /// The message that was found after skipped bytes. It is returned after them.
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

    /// The next item, or `None` when more bytes are needed.
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
                    // The skipped bytes came before the message, so they are reported first.
                    bytes => {
                        *held = next.transpose();
                        Ok(Some(Found::Garbage(bytes)))
                    }
                }
            }
        }
    }

    /// Takes back a body that is not a message, before the next [`Decoder::next_found`]. Returns what it is instead.
    pub fn reject(&mut self, body: Bytes) -> Found {
        match &mut self.0 {
            Kind::Lines(_) => Found::Line(body),
            Kind::Headers { decoder, .. } => {
                decoder.reject(&body);
                Found::Garbage(decoder.take_noise())
            }
        }
    }

    /// Whether bytes of an unfinished message are buffered.
    pub fn is_torn(&self) -> bool {
        match &self.0 {
            Kind::Headers { decoder, held } => held.is_some() || decoder.is_torn(),
            Kind::Lines(decoder) => decoder.is_torn(),
        }
    }
}
