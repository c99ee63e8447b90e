//! The host's ends of a program's stdin and output, pipes or a terminal. Reads use either tokio's readiness or the system's
//! current state.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Capacity of a widened pipe. Pipes are widened only on demand, because the system limits the total of a user's pipes.
const WIDE_BYTES: usize = 256 << 10;

/// The reading end of a program's output.
pub struct Pipe(AsyncFd<OwnedFd>);

/// The writing end of a program's stdin.
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
        // The result is ignored: the read that follows clears tokio's readiness if it was wrong.
        let _ = self.0.readable().await;
    }

    /// Reads according to tokio's readiness, which may be outdated: right after this process was stopped, timers fire before
    /// tokio has asked the system for readable descriptors.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |descriptor| {
            nix::unistd::read(descriptor, &mut *buffer).map_err(io::Error::from)
        })
    }

    /// Reads from the pipe directly. tokio's readiness is left unchanged; at worst it causes one needless wake-up.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        nix::unistd::read(self.0.get_ref(), buffer).map_err(io::Error::from)
    }

    /// Whether bytes are waiting in the pipe.
    pub fn has_bytes(&self) -> bool {
        let mut count: libc::c_int = 0;
        // SAFETY: the descriptor lives for the call, which writes one int.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::FIONREAD, &mut count) };
        asked == 0 && count > 0
    }

    /// Widens the pipe, so that its writer is woken less often. A refusal by the system is ignored: the pipe keeps its size.
    pub fn widen(&self) {
        widen(self.0.get_ref(), WIDE_BYTES);
    }
}

/// Gives a pipe this capacity, if it has less. When the system refuses, tries half of it, then half of that, and so on.
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

    /// Writes some of the bytes as soon as the pipe accepts them. Cancel safe.
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
