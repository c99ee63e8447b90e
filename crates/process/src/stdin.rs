//! Feeds the program's stdin. A program may close it early: EPIPE is not an error.

use bytes::{Buf, Bytes};
use ground::error::{Error, ErrorCode, Result};
use ground::mpsc;
use ground::os::{PipeWriter, Terminal};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// The result of one step of the feed.
pub(super) enum Fed {
    /// The program took bytes.
    Wrote,
    /// The end of input was sent to a terminal once more.
    Reminded,
    /// Everything is written, or the program takes no more: the pipe has to be closed.
    Closed,
}

/// Bytes on their way to the program, and who wants to know when it has them.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Bytes,
    /// Dropped without a word when they are never taken.
    taken: Option<oneshot::Sender<()>>,
}

/// Writes to the pipe, then closes it.
pub(super) struct Feed {
    pipe: PipeWriter,
    current: Chunk,
    more: Option<mpsc::Receiver<Chunk>>,
    terminal: Option<Typist>,
    is_held: bool,
}

impl Feed {
    /// Writes `first`, then what `more` gives until its senders are gone.
    pub(super) fn new(
        pipe: PipeWriter,
        first: Bytes,
        more: Option<mpsc::Receiver<Chunk>>,
        terminal: Option<Arc<Terminal>>,
    ) -> Self {
        let current = Chunk { bytes: first, taken: None };
        Feed { pipe, current, more, terminal: terminal.map(Typist::new), is_held: false }
    }

    /// Writes nothing more and keeps the pipe open. A program that is about to be killed must not see an end of input: it would
    /// take a part of the input for the whole.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Cancel safe: bytes leave `current` only when the pipe took them.
    pub(super) async fn step(&mut self) -> Fed {
        while self.current.bytes.is_empty() {
            if let Some(taken) = self.current.taken.take() {
                let _ = taken.send(());
            }
            let next = match &mut self.more {
                Some(more) => more.recv().await,
                None => None,
            };
            match next {
                Some(chunk) => self.current = chunk,
                None => return self.end().await,
            }
        }
        match self.pipe.write(&self.current.bytes).await {
            Ok(written) => {
                if let Some(typist) = &mut self.terminal {
                    typist.is_mid_line = self.current.bytes.get(written.wrapping_sub(1)) != Some(&b'\n');
                }
                self.current.bytes.advance(written);
                if self.current.bytes.is_empty()
                    && let Some(taken) = self.current.taken.take()
                {
                    let _ = taken.send(());
                }
                Fed::Wrote
            }
            Err(_) => Fed::Closed,
        }
    }

    async fn end(&mut self) -> Fed {
        self.more = None;
        let Some(typist) = &mut self.terminal else { return Fed::Closed };
        sleep_until(typist.next).await;
        // The first one of a line that was begun only gives that line to the program.
        let count = 1 + usize::from(typist.is_mid_line);
        if let Some(character) = typist.terminal.end_of_input()
            && self.pipe.write(&[character; 2][..count]).await.is_err()
        {
            return Fed::Closed;
        }
        typist.is_mid_line = false;
        typist.next = Instant::now() + typist.pause;
        typist.pause = (typist.pause * 2).min(Typist::LONGEST_PAUSE);
        Fed::Reminded
    }
}

/// Types the end of input to a terminal: a character that satisfies one read only. It is typed again for a program that discards
/// input typed before its prompt, that reads again, or that has changed the modes of its terminal.
struct Typist {
    terminal: Arc<Terminal>,
    /// Something was typed since the last end of a line.
    is_mid_line: bool,
    next: Instant,
    pause: Duration,
}

impl Typist {
    const FIRST_PAUSE: Duration = Duration::from_millis(100);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    fn new(terminal: Arc<Terminal>) -> Self {
        Typist { terminal, is_mid_line: false, next: Instant::now(), pause: Self::FIRST_PAUSE }
    }
}

/// Writes to a program's stdin while it runs (`Input::Pipe`). Dropping it closes the pipe once everything is written.
#[derive(Clone, Debug)]
pub struct StdinWriter {
    sender: mpsc::Sender<Chunk>,
}

impl StdinWriter {
    /// Chunks that wait for their turn.
    const QUEUE: usize = 4;

    pub(super) fn new() -> (StdinWriter, mpsc::Receiver<Chunk>) {
        let (sender, receiver) = mpsc::channel(Self::QUEUE);
        (StdinWriter { sender }, receiver)
    }

    /// Waits for room, so that a program that does not read slows its writer.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let closed = |_| Error::new(ErrorCode::ConnectionLost, "the program's stdin is closed");
        self.sender.send(Chunk { bytes, taken: None }).await.map_err(closed)
    }

    /// Waits until the pipe has taken all bytes; false when the program takes no more.
    pub async fn deliver(&self, bytes: Bytes) -> bool {
        let (taken, hears) = oneshot::channel();
        let chunk = Chunk { bytes, taken: Some(taken) };
        self.sender.send(chunk).await.is_ok() && hears.await.is_ok()
    }
}

/// The next step of the feed; never resolves without a feed, or while it is held.
pub(super) async fn feed(feed: &mut Option<Feed>) -> Fed {
    match feed {
        Some(feed) if !feed.is_held => feed.step().await,
        _ => pending().await,
    }
}
