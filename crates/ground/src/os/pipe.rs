//! The host's ends of what a program reads and writes, pipes or a terminal: used as tokio says, or as the system says right now.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Not for every pipe from the start: what a user's pipes may hold in all is bounded by the system.
const WIDE_BYTES: usize = 256 << 10;

/// What a program writes to.
pub struct Pipe(AsyncFd<OwnedFd>);

/// What a program reads from.
pub struct PipeWriter(AsyncFd<OwnedFd>);

fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = OFlag::from_bits_retain(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(io::Error::from)
}

impl Pipe {
    pub fn from_owned_fd(descriptor: OwnedFd) -> io::Result<Pipe> {
        watched(descriptor, Interest::READABLE).map(Pipe)
    }

    pub async fn readable(&self) {
        // Dropped without a word: the read that follows says what tokio has to forget.
        let _ = self.0.readable().await;
    }

    /// By tokio's knowledge of the pipe, which may be behind: right after this process was stopped, timers fire before the system was
    /// asked what became readable.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |descriptor| {
            nix::unistd::read(descriptor, &mut *buffer).map_err(io::Error::from)
        })
    }

    /// By the pipe itself. What tokio believes is not touched: at worst it wakes once for nothing.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        nix::unistd::read(self.0.get_ref(), buffer).map_err(io::Error::from)
    }

    /// Whether bytes are waiting in it.
    pub fn has_bytes(&self) -> bool {
        let mut count: libc::c_int = 0;
        // SAFETY: the descriptor lives for the call, which writes one int.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::FIONREAD, &mut count) };
        asked == 0 && count > 0
    }

    /// Its writer is woken less often. That the system refuses is fine: the pipe then stays as it was.
    pub fn widen(&self) {
        widen(self.0.get_ref(), WIDE_BYTES);
    }
}

/// Gives a pipe room for so many bytes, if it has less; for half of it, and half of that, where the system gives no more.
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, reason = "pipes are as wide as they are there")
)]
pub fn widen(pipe: &OwnedFd, bytes: usize) {
    #[cfg(target_os = "linux")]
    if let Ok(narrow) = fcntl(pipe, FcntlArg::F_GETPIPE_SZ) {
        let mut wanted = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
        while wanted > narrow && fcntl(pipe, FcntlArg::F_SETPIPE_SZ(wanted)).is_err() {
            wanted /= 2;
        }
    }
}

impl PipeWriter {
    pub fn from_owned_fd(descriptor: OwnedFd) -> io::Result<PipeWriter> {
        watched(descriptor, Interest::WRITABLE).map(PipeWriter)
    }

    /// Some of the bytes, as soon as they are taken. Cancel safe.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.writable().await?;
            let written = ready.try_io(|descriptor| {
                nix::unistd::write(descriptor.get_ref(), bytes).map_err(io::Error::from)
            });
            match written {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_made_wider_never_narrower() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let reader = OwnedFd::from(reader);
        let bytes = || fcntl(&reader, FcntlArg::F_GETPIPE_SZ).unwrap();
        for (asked, wide) in [(512 << 10, 512 << 10), (256 << 10, 512 << 10)] {
            widen(&reader, asked);
            assert_eq!(bytes(), wide, "{asked}");
        }
        widen(&reader, 1 << 30);
        assert!(bytes() >= 1 << 20, "as wide as the system gives a user");
    }
}
