//! PURE: the results of searching a stream of bytes for messages.

use bytes::Bytes;

/// The reason why the stream can't be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// This many bytes contained no header.
    Noise(usize),
    /// A body of this many bytes was announced.
    TooLong(usize),
    /// A line of more than this many bytes came.
    LineTooLong(usize),
}

/// The next item in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The bytes of a message, not yet parsed.
    Body(Bytes),
    /// This many bytes were skipped.
    Garbage(usize),
    /// A line that is not a message, without its end.
    Line(Bytes),
}
