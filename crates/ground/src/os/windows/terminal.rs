//! Pseudo-terminals are not made on Windows yet: nothing of this type can exist.

use super::super::terminal_size::TerminalSize;
use std::io;
use std::os::windows::io::OwnedHandle;

/// The host's end.
#[derive(Debug)]
pub struct Terminal(std::convert::Infallible);

impl Terminal {
    /// # Errors
    /// Always.
    pub fn open(_: TerminalSize) -> io::Result<(Terminal, OwnedHandle)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "`pty` is unsupported on Windows"))
    }

    pub fn expect_end(&self) {
        match self.0 {}
    }

    pub fn resize(&self, _: TerminalSize) -> io::Result<()> {
        match self.0 {}
    }

    pub fn end_of_input(&self) -> Option<u8> {
        match self.0 {}
    }

    pub fn try_clone(&self) -> io::Result<OwnedHandle> {
        match self.0 {}
    }
}
