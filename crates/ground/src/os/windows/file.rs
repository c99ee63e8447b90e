//! Files, folders and links. Permissions are those of the folder above: Windows has no bits of an owner.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt};
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::path::{Path, PathBuf};

/// A longer path needs the prefix `\\?\`.
const LONGEST_PATH: usize = 260;

/// Reads some bytes from this offset.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Modification time in nanoseconds, twice, and no inode: the time of the last change to the metadata is unknown.
pub(crate) fn change_of(facts: &Metadata) -> (i128, i128, u64) {
    let modified = i128::from(facts.last_write_time()) * 100;
    (modified, modified, 0)
}

/// The path with these bytes, which are UTF-8 here.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Options to open a file.
pub fn private_files() -> OpenOptions {
    OpenOptions::new()
}

/// Makes folders.
pub fn private_folders() -> DirBuilder {
    DirBuilder::new()
}

/// Permission bits of Unix mean nothing here.
pub fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// The path without links, as programs take it: many can't read one that begins with `\\?\`. Blocks.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    let short = real.to_str().and_then(|text| text.strip_prefix(r"\\?\"));
    let is_of_drive = |text: &&str| text.as_bytes().get(1) == Some(&b':') && text.len() < LONGEST_PATH;
    Ok(short.filter(is_of_drive).map(PathBuf::from).unwrap_or(real))
}

pub(crate) use real_path as resolved;

/// Creates a symbolic link. Most users may not.
pub fn link(target: &Path, place: &Path) -> io::Result<()> {
    if target.is_dir() {
        std::os::windows::fs::symlink_dir(target, place)
    } else {
        std::os::windows::fs::symlink_file(target, place)
    }
}

/// Asks whether this user may execute a file, or enter a folder: the start of the program tells it.
///
/// # Errors
/// The system's, when there is no such entry.
pub fn may_execute(path: &Path) -> io::Result<()> {
    std::fs::metadata(path).map(drop)
}

/// Whether this user may create files in the folder, as far as its attributes tell.
pub fn can_write(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| !facts.permissions().readonly())
}

/// This process's stdin.
pub fn own_input() -> io::Result<File> {
    let copy: OwnedHandle = io::stdin().as_handle().try_clone_to_owned()?;
    Ok(copy.into())
}
