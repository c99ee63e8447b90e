//! Opens a file that another program may have placed. Opening never follows a link, and reading is bounded.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

/// Opens what the name itself stands for, not what it leads to.
pub(super) const NO_LINK: u32 = FILE_FLAG_OPEN_REPARSE_POINT;

pub(super) fn no_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Opens a regular file for reading. Fails at once for a device, a directory or a link.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a symlink has taken its place"));
    }
    if !metadata.is_file() {
        return Err(no_regular_file());
    }
    Ok((file, metadata))
}

/// Does the same as [`open_regular`], and fails when a link has replaced a directory above the file.
pub fn open_in_place(path: &Path) -> io::Result<(File, Metadata)> {
    let opened = open_regular(path)?;
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    for folder in above {
        if std::fs::symlink_metadata(folder)?.is_symlink() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a symlink has taken the place of a directory above it",
            ));
        }
    }
    Ok(opened)
}

/// Reads a short text file. A longer file is an error rather than cut, because half of it would mean something else.
pub fn read_short_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let (file, metadata) = open_regular(path)?;
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "it is too long");
    if metadata.len() > max_bytes {
        return Err(too_long());
    }
    let mut text = String::new();
    // The file may grow while it is read.
    if file.take(max_bytes + 1).read_to_string(&mut text)? as u64 > max_bytes {
        return Err(too_long());
    }
    Ok(text)
}
