//! The host's own stdout and stderr, written by threads that may block.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::time::Duration;

/// Most bytes of one write to anything but a file.
const PIECE: usize = 4096;

/// A handle that somebody reads: a console, a pipe, a file.
#[derive(Debug)]
pub struct Screen {
    file: File,
    /// Most bytes of one write.
    piece: usize,
}

impl Screen {
    pub fn new(handle: OwnedHandle) -> Screen {
        let file = File::from(handle);
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Screen { file, piece: if is_file { usize::MAX } else { PIECE } }
    }

    pub fn stdout() -> io::Result<Screen> {
        io::stdout().as_handle().try_clone_to_owned().map(Screen::new)
    }

    pub fn stderr() -> io::Result<Screen> {
        io::stderr().as_handle().try_clone_to_owned().map(Screen::new)
    }

    /// Writes a piece. It waits for room without a limit: the system does not tell whether there is any. Blocks.
    ///
    /// # Errors
    /// The system's, when the reader is gone.
    pub fn write(&self, bytes: &[u8], _: Duration) -> io::Result<usize> {
        loop {
            match (&self.file).write(&bytes[..bytes.len().min(self.piece)]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }
}
