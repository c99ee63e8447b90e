//! The facts that distinguish one content of a file from the next.

use super::system::file::change_of;
use std::fs::Metadata;

/// Facts of one content of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    pub bytes: u64,
    /// Modification time since the epoch.
    pub modified_nanos: i128,
    /// Time since the epoch of the last change to the file's metadata. It changes even when a program sets the modification time
    /// back (`cp -p`).
    pub changed_nanos: i128,
    /// The inode: another file may have the same size and times (`mv` of a reproducible build).
    pub inode: u64,
}

impl FileStamp {
    pub fn of(metadata: &Metadata) -> FileStamp {
        let (modified_nanos, changed_nanos, inode) = change_of(metadata);
        FileStamp { bytes: metadata.len(), modified_nanos, changed_nanos, inode }
    }
}
