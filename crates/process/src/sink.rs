//! The interface through which a run's owner task passes on output, and learns that the reader is too slow.

use super::stream::Stream;
use bytes::Bytes;
use ground::line::LineTooLong;
pub use ground::window::Window;
use ground::window::{WeighedReceiver, WeighedSender, weighed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// The reason why a reader that comes late cannot have the output of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// A line of this stream is longer than the reader takes.
    LineTooLong(Stream),
    /// So many bytes of this stream were dropped before the reader came: they were more than `max_output_bytes`.
    Dropped { stream: Stream, bytes: u64 },
}

/// A consumer of a run's output. `push` never blocks and never refuses: the owner asks [`Sink::poll_room`] first.
pub trait Sink: Send {
    /// Streams that are not taken are drained and kept.
    fn takes(&self, stream: Stream) -> bool;
    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong>;
    /// The stream ended; called once for each.
    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong>;
    /// The reader cannot have the whole output, and the outcome of the run does not say so: the reader has to. Only `finish` is
    /// called after it.
    fn refuse(&mut self, why: Missed);
    /// Ready when there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;
    /// Called once, last: both streams have ended and nothing more comes.
    fn finish(&mut self);
}

const READER_WINDOW_BYTES: usize = 256 << 10;

/// Raw bytes for a consumer in Rust: the sending side.
pub(super) struct ChunkSink {
    chunks: WeighedSender<(Stream, Bytes)>,
    streams: Streams,
    missed: Arc<OnceLock<Missed>>,
}

/// The streams that a reader takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub stdout: bool,
    pub stderr: bool,
}

impl Streams {
    pub(super) const BOTH: Streams = Streams { stdout: true, stderr: true };
}

/// The raw output of a run, chunk by chunk, in the order it was read. Bounded: a slow reader slows the program's pipe.
/// Dropping it means that nobody reads any more; the output is drained and kept.
pub struct ChunkReader {
    chunks: WeighedReceiver<(Stream, Bytes)>,
    missed: Arc<OnceLock<Missed>>,
}

pub(super) fn chunk_channel(streams: Streams) -> (ChunkSink, ChunkReader) {
    let (sender, chunks) = weighed(READER_WINDOW_BYTES);
    let missed = Arc::default();
    (ChunkSink { chunks: sender, streams, missed: Arc::clone(&missed) }, ChunkReader { chunks, missed })
}

impl ChunkSink {
    pub(super) fn has_room(&self) -> bool {
        self.chunks.window.has_room()
    }
}

impl ChunkReader {
    /// The next chunk, an empty one at the end of its stream; `None` when both streams have ended.
    pub async fn next(&mut self) -> Option<(Stream, Bytes)> {
        self.chunks.next().await
    }

    /// Why there are no chunks, although there was output. Known when `next` has returned `None`.
    pub fn missed(&self) -> Option<Missed> {
        self.missed.get().copied()
    }
}

impl Sink for ChunkSink {
    fn takes(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.streams.stdout,
            Stream::Stderr => self.streams.stderr,
        }
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        if !self.chunks.is_gone() {
            self.chunks.send((stream, Bytes::copy_from_slice(bytes)), bytes.len());
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong> {
        self.chunks.send((stream, Bytes::new()), 0);
        Ok(())
    }

    fn refuse(&mut self, why: Missed) {
        let _ = self.missed.set(why);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.chunks.window.poll_room(context)
    }

    fn finish(&mut self) {
        self.chunks.end();
    }
}
