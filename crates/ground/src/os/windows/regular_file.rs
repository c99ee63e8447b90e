//! Opens a file that another program may have placed. Opening never follows a link, and reading is bounded.

use super::super::file_fault::{is_a_link, is_below_a_link, no_regular_file};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

/// Opens what the name itself stands for, not what it leads to.
pub(super) const NO_LINK: u32 = FILE_FLAG_OPEN_REPARSE_POINT;

/// Opens a regular file for reading. Fails at once for a device, a directory or a link.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_symlink() {
        return Err(is_a_link());
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
            return Err(is_below_a_link());
        }
    }
    Ok(opened)
}
