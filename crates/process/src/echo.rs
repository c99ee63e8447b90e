//! Writes a run's output to the host's own stdout and stderr too, as it is read.
//!
//! The owner task pushes what it reads into a bounded queue, beside the reader's and the record's. A task takes it out and writes
//! it on a thread that may block ([`Screen`]). So a slow screen slows the program, as with `Stdio::Inherit`, but holds no thread of
//! tokio. A screen that is gone, or that takes nothing for [`Echo::PATIENCE`], is given up: the run goes on without it.
//!
//! The end of the run waits for the rest, so that what the host prints next comes after it: [`Echo::PATIENCE`] at most, and
//! [`STOPPED_WITHIN`] if the run was stopped.

use super::sink::{ChunkReader, ChunkSink, Sink, Streams, chunk_channel};
use super::stream::Stream;
use bytes::{Buf, Bytes};
use ground::os::{Screen, blocking};
use std::fs::File;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for the screen at the end of a run that was stopped.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);
/// A write that takes longer than the patience by this is stuck in the system.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The descriptors to which the output of a run is also written.
#[derive(Clone, Debug)]
pub struct Echo {
    pub stdout: Option<EchoTarget>,
    pub stderr: Option<EchoTarget>,
    /// A screen that takes nothing for this long is given up.
    pub patience: Duration,
}

#[derive(Clone, Debug)]
pub enum EchoTarget {
    /// The host's own descriptor of the same stream.
    Host,
    File(Arc<File>),
}

impl Echo {
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// Echoes these streams to the host's own.
    pub fn to_host(streams: &[Stream]) -> Echo {
        let target = |stream| streams.contains(&stream).then_some(EchoTarget::Host);
        Echo { stdout: target(Stream::Stdout), stderr: target(Stream::Stderr), patience: Self::PATIENCE }
    }

    fn of(&self, stream: Stream) -> Option<&EchoTarget> {
        match stream {
            Stream::Stdout => self.stdout.as_ref(),
            Stream::Stderr => self.stderr.as_ref(),
        }
    }

    fn open(&self, stream: Stream) -> Option<Arc<Screen>> {
        let screen = match (self.of(stream)?, stream) {
            (EchoTarget::File(file), _) => Screen::new(file.try_clone().ok()?),
            (EchoTarget::Host, Stream::Stdout) => Screen::stdout().ok()?,
            (EchoTarget::Host, Stream::Stderr) => Screen::stderr().ok()?,
        };
        Some(Arc::new(screen))
    }
}

/// An echo under way.
pub(super) struct Echoing {
    takes: [bool; 2],
    patience: Duration,
    sink: ChunkSink,
    task: JoinHandle<()>,
}

impl Echoing {
    /// Must be called within tokio.
    pub(super) fn begin(echo: Echo) -> Echoing {
        let (sink, chunks) = chunk_channel(Streams::BOTH);
        let takes = Stream::BOTH.map(|stream| echo.of(stream).is_some());
        let patience = echo.patience;
        Echoing { takes, patience, sink, task: ground::task::spawn(show(chunks, echo)) }
    }

    fn takes(&self, stream: Stream) -> bool {
        self.takes[usize::from(stream == Stream::Stderr)]
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        if self.takes(stream) {
            // This sink refuses nothing: it has no lines.
            let _ = self.sink.push(stream, bytes);
        }
    }

    /// Whether this stream must not be read now.
    pub(super) fn holds(&self, stream: Stream) -> bool {
        self.takes(stream) && !self.sink.has_room()
    }

    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_room(context)
    }

    /// Waits until everything is written, as long as it may. What is left is written later if this process lives on.
    pub(super) async fn finish(mut self, was_stopped: bool) {
        self.sink.finish();
        let most = if was_stopped { STOPPED_WITHIN.min(self.patience) } else { self.patience };
        let _ = timeout(most, self.task).await;
    }
}

async fn show(mut chunks: ChunkReader, echo: Echo) {
    let patience = echo.patience;
    let opened = blocking(move || Stream::BOTH.map(|stream| echo.open(stream))).await;
    let mut screens = opened.unwrap_or_default();
    // Returning drops the reader: nothing waits for it any more.
    while screens.iter().any(Option::is_some) {
        let Some((stream, bytes)) = chunks.next().await else { return };
        let screen = &mut screens[usize::from(stream == Stream::Stderr)];
        if let Some(open) = screen
            && !write_all(open, bytes, patience).await
        {
            *screen = None;
        }
    }
}

/// False when the screen is gone, or takes nothing more.
async fn write_all(screen: &Arc<Screen>, mut bytes: Bytes, patience: Duration) -> bool {
    while !bytes.is_empty() {
        let (lent, piece) = (screen.clone(), bytes.clone());
        let writing = blocking(move || lent.write(&piece, patience));
        match timeout(patience + STUCK_AFTER, writing).await {
            Ok(Ok(Ok(written))) if written > 0 => bytes.advance(written),
            _ => return false,
        }
    }
    true
}
