//! What the program's stdin is fed with. A program that closes it early is no error: EPIPE is data.

use crate::error::{Error, ErrorCode, Result};
use bytes::{Buf, Bytes};
use std::io;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// What a step of the feed did.
pub(super) enum Fed {
    /// The program took bytes.
    Wrote,
    /// Everything is written, or the program takes no more: the pipe is to be closed.
    Closed,
}

/// Writes to the pipe, then closes it.
pub(super) struct Feed {
    pipe: pipe::Sender,
    current: Bytes,
    more: Option<mpsc::Receiver<Bytes>>,
}

impl Feed {
    /// Writes `first`, then what `more` gives until its senders are gone.
    pub(super) fn new(pipe: pipe::Sender, first: Bytes, more: Option<mpsc::Receiver<Bytes>>) -> Self {
        Feed { pipe, current: first, more }
    }

    /// Cancel safe: bytes leave `current` only when the pipe took them.
    pub(super) async fn step(&mut self) -> Fed {
        while self.current.is_empty() {
            match &mut self.more {
                Some(more) => match more.recv().await {
                    Some(bytes) => self.current = bytes,
                    None => return Fed::Closed,
                },
                None => return Fed::Closed,
            }
        }
        loop {
            if self.pipe.writable().await.is_err() {
                return Fed::Closed;
            }
            match self.pipe.try_write(&self.current) {
                Ok(written) => {
                    self.current.advance(written);
                    return Fed::Wrote;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Fed::Closed,
            }
        }
    }
}

/// Writes to a program's stdin while it runs (`Input::Pipe`). Dropping it closes the pipe once everything is written.
#[derive(Clone, Debug)]
pub struct StdinWriter {
    pub(super) sender: mpsc::Sender<Bytes>,
}

impl StdinWriter {
    /// Waits for room: a program that does not read slows its writer.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let closed = |_| Error::new(ErrorCode::ConnectionLost, "the program's stdin is closed");
        self.sender.send(bytes).await.map_err(closed)
    }
}
