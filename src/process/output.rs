//! One stream of a run: its pipe, and what is kept of it.

use super::keep::Keep;
use std::cell::RefCell;
use std::future::pending;
use std::io;
use tokio::net::unix::pipe;

/// A pipe holds 64 KiB; larger reads only wait longer and fall out of the cache.
pub(super) const READ_BYTES: usize = 64 << 10;
/// A program that printed so much may go on so: its pipe is made wider, and it is woken less often.
const FLOOD_BYTES: u64 = 1 << 20;
/// Not for every run from the start: what a user's pipes may hold in all is bounded by the system.
const FLOOD_PIPE_BYTES: i32 = 256 << 10;

thread_local! {
    /// One a thread: it is never held over an await.
    pub(super) static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

pub(super) struct Output {
    pub pipe: Option<pipe::Receiver>,
    pub keep: Keep,
    is_wide: bool,
}

impl Output {
    pub(crate) fn new(pipe: pipe::Receiver, keep: Keep) -> Self {
        Output { pipe: Some(pipe), keep, is_wide: false }
    }

    /// Reads what is there, keeps it and gives it. In a flood the kernel writes right into what is kept, which saves a copy.
    pub(crate) fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let Output { pipe: Some(pipe), keep, is_wide } = self else { return Ok(&[]) };
        if keep.total() >= FLOOD_BYTES && !std::mem::replace(is_wide, true) {
            widen(pipe);
        }
        if let Some(oldest) = keep.oldest() {
            let most = oldest.len().min(READ_BYTES);
            let length = pipe.try_read(&mut oldest[..most])?;
            return Ok(keep.commit(length));
        }
        let length = pipe.try_read(buffer)?;
        keep.push(&buffer[..length]);
        Ok(&buffer[..length])
    }
}

/// That the system refuses is fine: the pipe then stays as it was.
fn widen(pipe: &pipe::Receiver) {
    #[cfg(target_os = "linux")]
    let _ = nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(FLOOD_PIPE_BYTES));
    #[cfg(not(target_os = "linux"))]
    let _ = (pipe, FLOOD_PIPE_BYTES);
}

/// One of the streams that may be read has something, or has ended.
pub(super) async fn readable([stdout, stderr]: [&Output; 2], open: [bool; 2]) {
    let ready = async |output: &Output, open: bool| match &output.pipe {
        Some(pipe) if open => {
            let _ = pipe.readable().await;
        }
        _ => pending().await,
    };
    tokio::select! {
        () = ready(stdout, open[0]) => {}
        () = ready(stderr, open[1]) => {}
    }
}
