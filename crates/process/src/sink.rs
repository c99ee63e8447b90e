//! The interface through which a run's owner task passes on output, and learns that the reader is too slow.

use super::stream::Stream;
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use ground::line::LineTooLong;
use ground::lock::lock;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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

/// The output that was passed on and not yet taken by the reader. The limit is soft: one push may exceed it.
#[derive(Debug)]
pub struct Window {
    limit: usize,
    used: AtomicUsize,
    waker: AtomicWaker,
}

impl Window {
    pub fn new(limit: usize) -> Self {
        Window { limit, used: AtomicUsize::new(0), waker: AtomicWaker::new() }
    }

    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The reader has taken so many bytes.
    pub fn release(&self, bytes: usize) {
        // Saturating: a reader that releases too much must not wrap the count.
        let _ = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| Some(used.saturating_sub(bytes)));
        self.waker.wake();
    }

    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.limit
    }

    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.waker.register(context.waker());
        // Checked again: room may have come between the first check and the registration.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }
}

const READER_WINDOW_BYTES: usize = 256 << 10;

/// Raw bytes for a consumer in Rust: the sending side.
pub(super) struct ChunkSink {
    shared: Arc<Chunks>,
    streams: Streams,
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

struct Chunks {
    window: Window,
    state: Mutex<ChunkState>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct ChunkState {
    queue: VecDeque<(Stream, Bytes)>,
    finished: bool,
    reader_gone: bool,
    missed: Option<Missed>,
}

/// The raw output of a run, chunk by chunk, in the order it was read. Bounded: a slow reader slows the program's pipe.
/// Dropping it means that nobody reads any more; the output is drained and kept.
pub struct ChunkReader {
    shared: Arc<Chunks>,
}

pub(super) fn chunk_channel(streams: Streams) -> (ChunkSink, ChunkReader) {
    let shared = Arc::new(Chunks {
        window: Window::new(READER_WINDOW_BYTES),
        state: Mutex::default(),
        waker: AtomicWaker::new(),
    });
    (ChunkSink { shared: shared.clone(), streams }, ChunkReader { shared })
}

impl ChunkSink {
    pub(super) fn has_room(&self) -> bool {
        self.shared.window.has_room()
    }
}

impl Chunks {
    fn state(&self) -> std::sync::MutexGuard<'_, ChunkState> {
        lock(&self.state)
    }
}

impl ChunkReader {
    /// The next chunk, an empty one at the end of its stream; `None` when both streams have ended.
    pub async fn next(&mut self) -> Option<(Stream, Bytes)> {
        poll_fn(|context| {
            self.shared.waker.register(context.waker());
            let mut state = self.shared.state();
            match state.queue.pop_front() {
                Some((stream, bytes)) => {
                    drop(state);
                    self.shared.window.release(bytes.len());
                    Poll::Ready(Some((stream, bytes)))
                }
                None if state.finished => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Why there are no chunks, although there was output. Known when `next` has returned `None`.
    pub fn missed(&self) -> Option<Missed> {
        self.shared.state().missed
    }
}

impl Drop for ChunkReader {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.reader_gone = true;
        state.queue.clear();
        drop(state);
        self.shared.window.release(usize::MAX);
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
        let mut state = self.shared.state();
        if !state.reader_gone {
            self.shared.window.take(bytes.len());
            state.queue.push_back((stream, Bytes::copy_from_slice(bytes)));
            drop(state);
            self.shared.waker.wake();
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong> {
        self.shared.state().queue.push_back((stream, Bytes::new()));
        self.shared.waker.wake();
        Ok(())
    }

    fn refuse(&mut self, why: Missed) {
        self.shared.state().missed = Some(why);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.window.poll_room(context)
    }

    fn finish(&mut self) {
        self.shared.state().finished = true;
        self.shared.waker.wake();
    }
}

impl Drop for ChunkSink {
    fn drop(&mut self) {
        // A run that ends in an unforeseen way must not leave its reader waiting.
        self.finish();
    }
}
