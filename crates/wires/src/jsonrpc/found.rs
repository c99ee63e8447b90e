//! PURE: what is found in a stream of bytes, and why nothing more can be.

use bytes::Bytes;

/// Why the stream can't be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// So many bytes without a header.
    Noise(usize),
    /// A body of so many bytes was announced.
    TooLong(usize),
    /// A line of more than so many bytes came.
    LineTooLong(usize),
}

/// What stands next in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A message, if it is one.
    Body(Bytes),
    /// So many bytes were skipped.
    Garbage(usize),
    /// A line that is no message, without its end.
    Line(Bytes),
}
