//! Writes to the host's own stdout and stderr.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::time::Duration;

pub(crate) fn own_output() -> io::Result<File> {
    let copy: OwnedHandle = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(copy.into())
}

pub(crate) fn own_problems() -> io::Result<File> {
    let copy: OwnedHandle = io::stderr().as_handle().try_clone_to_owned()?;
    Ok(copy.into())
}

/// Writes a piece. The system does not tell whether there is room for it.
pub(crate) fn write_some(mut file: &File, piece: usize, bytes: &[u8], _: Duration) -> io::Result<usize> {
    loop {
        match file.write(&bytes[..bytes.len().min(piece)]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}
