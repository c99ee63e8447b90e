//! Limits how much memory unfinished inbound messages take, over all sockets of the server. One large message is accepted, many
//! at once are not.
//!
//! A socket counts the bytes that it reads of a message until the message is complete; pings between its parts do not reset the
//! count. Bytes beyond [`FREE_BYTES`] are taken from the server's [`Intake`]. When that is used up, the socket that needs more is
//! closed, and the others continue. The length that a frame's head announces is counted as well, because memory is reserved for
//! all of it before it arrives.

use super::frame_head::{FrameHeads, Seen};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that each socket may hold without using the server's budget.
const FREE_BYTES: u64 = 1 << 20;
/// Budget of all sockets together, beyond the free bytes: enough for one message of the maximum length and a few of usual length.
pub const INTAKE_BYTES: u64 = 128 << 20;
/// Announced bytes over all sockets, for each byte of the budget. Announced bytes only reserve addresses, but those are limited
/// too.
const ANNOUNCED_PER_BYTE: u64 = 8;

/// The budgets that all sockets of a server share.
#[derive(Debug)]
pub struct Intake {
    read: Budget,
    announced: Budget,
}

impl Intake {
    pub fn new(bytes: u64) -> Arc<Intake> {
        let budget = |bytes| Budget { left: AtomicU64::new(bytes) };
        Arc::new(Intake { read: budget(bytes), announced: budget(bytes.saturating_mul(ANNOUNCED_PER_BYTE)) })
    }
}

#[derive(Debug)]
struct Budget {
    left: AtomicU64,
}

impl Budget {
    fn take(&self, bytes: u64) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The share of a budget that one socket holds.
#[derive(Debug, Default)]
struct Part {
    used: AtomicU64,
    taken: AtomicU64,
}

impl Part {
    /// Adds bytes to this share. False when the budget is used up.
    fn add(&self, bytes: u64, from: &Budget) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let more = used.saturating_sub(FREE_BYTES).saturating_sub(self.taken.load(Ordering::Relaxed));
        let is_there = more == 0 || from.take(more);
        if is_there {
            self.taken.fetch_add(more, Ordering::Relaxed);
        }
        is_there
    }

    fn reset(&self, to: &Budget) {
        self.used.store(0, Ordering::Relaxed);
        to.give_back(self.taken.swap(0, Ordering::Relaxed));
    }
}

/// Counts the unfinished message of one socket. Only the socket's own task reads and resets it.
#[derive(Debug)]
pub struct Meter {
    intake: Arc<Intake>,
    read: Part,
    announced: Part,
    /// All bytes read so far, and that number when `progress` was last called.
    total: AtomicU64,
    seen: AtomicU64,
    refused: AtomicBool,
}

impl Meter {
    pub fn new(intake: Arc<Intake>) -> Arc<Meter> {
        Arc::new(Meter {
            intake,
            read: Part::default(),
            announced: Part::default(),
            total: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            refused: AtomicBool::new(false),
        })
    }

    /// A message is complete. Not to be called for a ping, which may come between the parts of an unfinished message.
    pub fn reset(&self) {
        self.read.reset(&self.intake.read);
        self.announced.reset(&self.intake.announced);
    }

    /// Whether the socket was closed because the server's budget is used up.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes read since the last call.
    pub fn progress(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed);
        total - self.seen.swap(total, Ordering::Relaxed)
    }

    fn count(&self, seen: Seen, bytes: u64) -> io::Result<()> {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        let has_room = self.announced.add(seen.announced, &self.intake.announced)
            && self.read.add(seen.data, &self.intake.read);
        if has_room {
            return Ok(());
        }
        self.refused.store(true, Ordering::Relaxed);
        Err(io::Error::other("too many large messages at once"))
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
    heads: FrameHeads,
}

impl MeteredStream {
    /// `already`: bytes that were read from the stream before.
    pub fn new(inner: TcpStream, meter: Arc<Meter>, already: &[u8]) -> MeteredStream {
        let mut heads = FrameHeads::default();
        let seen = heads.see(already);
        // These bytes are in memory already, so a refusal is ignored. The length that they announce does count.
        let _ = meter.count(seen, already.len() as u64);
        MeteredStream { inner, meter, heads }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.was_refused() {
            return Poll::Ready(Err(io::Error::other("too many large messages at once")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read {
            let new = &buffer.filled()[before..];
            let seen = self.heads.see(new);
            self.meter.count(seen, new.len() as u64)?;
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
        let count = |meter: &Meter, data: u64| meter.count(Seen { announced: 0, data }, data);
        for _ in 0..9 {
            count(&first, 1 << 20).unwrap();
        }
        count(&small, FREE_BYTES).unwrap();
        assert!(count(&second, 4 << 20).is_err() && second.was_refused());
        assert!(!first.was_refused());
        first.reset();
        let third = Meter::new(intake.clone());
        count(&third, 11 << 20).unwrap();
        assert!(count(&first, FREE_BYTES + 1).is_err(), "all is taken");
        drop(third);
        assert_eq!(
            intake.read.left.load(Ordering::Relaxed),
            10 << 20,
            "a socket that ends gives back what it had"
        );
    }

    #[test]
    fn rule_14_what_is_announced_has_an_end_too() {
        let intake = Intake::new(100 << 20);
        let announce = |meter: &Meter| meter.count(Seen { announced: 100 << 20, data: 0 }, 14);
        let meters: Vec<Arc<Meter>> = (0..74).map(|_| Meter::new(intake.clone())).collect();
        let taken = meters.iter().filter(|meter| announce(meter).is_ok()).count();
        assert_eq!(taken, 8);
        meters.iter().for_each(|meter| meter.reset());
        assert!(announce(&Meter::new(intake)).is_ok());
    }
}
