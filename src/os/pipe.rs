//! The host's end of a pipe that a program writes to: read as tokio says, or as the system says right now.

use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::net::unix::pipe;

/// Not for every pipe from the start: what a user's pipes may hold in all is bounded by the system.
#[cfg(target_os = "linux")]
const WIDE_BYTES: i32 = 256 << 10;

pub(crate) struct Pipe(pipe::Receiver);

impl Pipe {
    pub(crate) fn from_owned_fd(descriptor: OwnedFd) -> io::Result<Pipe> {
        pipe::Receiver::from_owned_fd(descriptor).map(Pipe)
    }

    pub(crate) async fn readable(&self) {
        let _ = self.0.readable().await;
    }

    /// By tokio's knowledge of the pipe, which may be behind: right after this process was stopped, timers fire before the system was
    /// asked what became readable.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// By the pipe itself. What tokio believes is not touched: at worst it wakes once for nothing.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // Non-blocking since tokio owns it.
        nix::unistd::read(&self.0, buffer).map_err(io::Error::from)
    }

    /// Whether bytes are waiting in it.
    pub(crate) fn has_bytes(&self) -> bool {
        let mut count: libc::c_int = 0;
        // SAFETY: the descriptor lives for the call, which writes one int.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::FIONREAD, &mut count) };
        asked == 0 && count > 0
    }

    /// Its writer is woken less often. That the system refuses is fine: the pipe then stays as it was.
    pub(crate) fn widen(&self) {
        #[cfg(target_os = "linux")]
        let _ = nix::fcntl::fcntl(&self.0, nix::fcntl::FcntlArg::F_SETPIPE_SZ(WIDE_BYTES));
    }
}
