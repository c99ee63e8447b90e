//! How much of unfinished messages the server holds, over all its sockets: large ones are welcome, many at once are not.
//!
//! A socket counts what it reads until a message is whole. What one has beyond [`FREE_BYTES`] is taken from the server's
//! [`Intake`]; when that is used up, the socket that wants more ends, and the others go on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Of one socket, for nothing.
const FREE_BYTES: u64 = 1 << 20;
/// Of all sockets together, beyond what is free: the longest message, and a few of usual length.
pub const INTAKE_BYTES: u64 = 128 << 20;

/// What all sockets of a server share.
#[derive(Debug)]
pub struct Intake {
    left: AtomicU64,
}

impl Intake {
    pub fn new(bytes: u64) -> Arc<Intake> {
        Arc::new(Intake { left: AtomicU64::new(bytes) })
    }

    fn take(&self, bytes: u64) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What one socket has read of a message. Its task alone reads and resets it.
#[derive(Debug)]
pub struct Meter {
    intake: Arc<Intake>,
    read: AtomicU64,
    taken: AtomicU64,
    /// In all, and when it was last asked for.
    total: AtomicU64,
    seen: AtomicU64,
    refused: AtomicBool,
}

impl Meter {
    pub fn new(intake: Arc<Intake>) -> Arc<Meter> {
        Arc::new(Meter {
            intake,
            read: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            total: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            refused: AtomicBool::new(false),
        })
    }

    /// The message is whole.
    pub fn reset(&self) {
        self.read.store(0, Ordering::Relaxed);
        self.intake.give_back(self.taken.swap(0, Ordering::Relaxed));
    }

    /// Whether the socket ended because the server holds too much.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes read since this was asked for.
    pub fn progress(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed);
        total - self.seen.swap(total, Ordering::Relaxed)
    }

    fn count(&self, bytes: u64) -> io::Result<()> {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        let read = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let more = read.saturating_sub(FREE_BYTES).saturating_sub(self.taken.load(Ordering::Relaxed));
        if more > 0 {
            if !self.intake.take(more) {
                self.refused.store(true, Ordering::Relaxed);
                return Err(io::Error::other("too many large messages at once"));
            }
            self.taken.fetch_add(more, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.reset();
    }
}

/// A socket that counts what it reads.
pub struct MeteredStream {
    inner: TcpStream,
    meter: Arc<Meter>,
}

impl MeteredStream {
    pub fn new(inner: TcpStream, meter: Arc<Meter>) -> MeteredStream {
        MeteredStream { inner, meter }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read {
            self.meter.count((buffer.filled().len() - before) as u64)?;
        }
        read
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_large_messages_share_a_budget_and_give_it_back() {
        let intake = Intake::new(10 << 20);
        let (first, second, small) =
            (Meter::new(intake.clone()), Meter::new(intake.clone()), Meter::new(intake.clone()));
        for _ in 0..9 {
            first.count(1 << 20).unwrap();
        }
        small.count(FREE_BYTES).unwrap();
        assert!(second.count(4 << 20).is_err() && second.was_refused());
        assert!(!first.was_refused());
        first.reset();
        let third = Meter::new(intake.clone());
        third.count(11 << 20).unwrap();
        assert!(first.count(FREE_BYTES + 1).is_err(), "all is taken");
        drop(third);
        assert_eq!(
            intake.left.load(Ordering::Relaxed),
            10 << 20,
            "a socket that ends gives back what it had"
        );
    }
}
