//! The host's own stdout and stderr, written by threads that may block.

use super::system::screen::{own_output, own_problems, write_some};
use std::fs::File;
use std::io;
use std::time::Duration;

/// A pipe with room takes this much without blocking (PIPE_BUF of Linux; other systems round up to a page).
const PIECE: usize = 4096;

/// An end that somebody reads: a terminal, a pipe, a file.
#[derive(Debug)]
pub struct Screen {
    file: File,
    /// Most bytes of one write.
    piece: usize,
}

impl Screen {
    pub fn new(file: File) -> Screen {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Screen { file, piece: if is_file { usize::MAX } else { PIECE } }
    }

    pub fn stdout() -> io::Result<Screen> {
        own_output().map(Screen::new)
    }

    pub fn stderr() -> io::Result<Screen> {
        own_problems().map(Screen::new)
    }

    /// Writes what there is room for, at least one byte: waits this long for the room. 0: there was none. Where the system does not
    /// tell whether there is room, it waits without a limit. Blocks.
    ///
    /// # Errors
    /// The system's, when the reader is gone.
    pub fn write(&self, bytes: &[u8], patience: Duration) -> io::Result<usize> {
        write_some(&self.file, self.piece, bytes, patience)
    }
}
