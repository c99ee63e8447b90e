//! One stream of a run: its pipe, and the kept part of its output.

use ground::keep::Keep;
use ground::os::Pipe;
use std::cell::RefCell;
use std::io;

/// A pipe holds 64 KiB; larger reads only wait longer and fall out of the cache.
pub(super) const READ_BYTES: usize = 64 << 10;
/// A program that printed so much may go on so: its pipe is made wider, and it is woken less often.
const FLOOD_BYTES: u64 = 1 << 20;

thread_local! {
    /// The read buffer of a thread. It is never held over an await.
    pub(super) static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// The source of the answer whether there is something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// tokio, which gets readiness events from the system, and clears its flag when a read finds nothing.
    Tokio,
    /// The pipe itself: used before a verdict on silence, and for the last read.
    Pipe,
}

pub(super) struct Output {
    pub pipe: Option<Pipe>,
    pub keep: Keep,
    is_wide: bool,
}

impl Output {
    pub(crate) fn new(pipe: Option<Pipe>, keep: Keep) -> Self {
        Output { pipe, keep, is_wide: false }
    }

    /// Reads what is there, keeps it and gives it. In a flood the kernel writes right into what is kept, which saves a copy.
    pub(crate) fn read<'a>(&'a mut self, buffer: &'a mut [u8], ask: Ask) -> io::Result<&'a [u8]> {
        let Output { pipe: Some(pipe), keep, is_wide } = self else { return Ok(&[]) };
        if keep.total() >= FLOOD_BYTES && !std::mem::replace(is_wide, true) {
            pipe.widen();
        }
        let read = |buffer: &mut [u8]| match ask {
            Ask::Tokio => pipe.try_read(buffer),
            Ask::Pipe => pipe.read_now(buffer),
        };
        if let Some(oldest) = keep.oldest() {
            let most = oldest.len().min(READ_BYTES);
            let length = read(&mut oldest[..most])?;
            return Ok(keep.commit(length));
        }
        let length = read(buffer)?;
        keep.push(&buffer[..length]);
        Ok(&buffer[..length])
    }
}
