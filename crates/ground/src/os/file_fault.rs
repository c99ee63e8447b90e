//! Why a file is not opened: errors that the system has no number for.

use std::io;
use std::path::Path;

pub(super) fn no_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

pub(super) fn is_a_link() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a symlink has taken its place")
}

pub(super) fn is_below_a_link() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a symlink has taken the place of a directory above it")
}

/// `problem` is said of `path`.
pub(super) fn fault(path: &Path, problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} {problem}", path.display()))
}
