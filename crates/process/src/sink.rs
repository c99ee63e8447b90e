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

/// A consumer of a run's output. `push` never blocks and never refuses: the owner asks [`Sink::poll_room`] first.
pub trait Sink: Send {
    /// Streams that are not taken are drained and kept.
    fn takes(&self, stream: Stream) -> bool;
    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong>;
    /// The stream ended; called once for each.
    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong>;
    /// `push` or `end` refused a line of an ended run, whose outcome can't say so any more: the reader has to.
    fn fail(&mut self, stream: Stream);
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
}

/// The raw output of a run, chunk by chunk, in the order it was read. Bounded: a slow reader slows the program's pipe.
/// Dropping it means that nobody reads any more; the output is drained and kept.
pub struct ChunkReader {
    shared: Arc<Chunks>,
}

pub(super) fn chunk_channel() -> (ChunkSink, ChunkReader) {
    let shared = Arc::new(Chunks {
        window: Window::new(READER_WINDOW_BYTES),
        state: Mutex::default(),
        waker: AtomicWaker::new(),
    });
    (ChunkSink { shared: shared.clone() }, ChunkReader { shared })
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
    fn takes(&self, _: Stream) -> bool {
        true
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

    fn fail(&mut self, _: Stream) {}

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
