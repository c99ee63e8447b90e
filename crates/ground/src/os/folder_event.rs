//! PURE. Changes of the entries of a watched directory.

use std::path::PathBuf;

/// A change of an entry of a watched directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// A writer closed it, or it was renamed into place.
    FileClosed,
    /// It was created. A writer will close it; a hard link is never closed.
    FileMade,
    /// A directory was made or moved here.
    DirectoryCame,
    /// It was deleted or moved away.
    Gone,
    /// The directory itself is gone, and its watch with it. Another directory may have taken its place.
    Unwatched,
    /// Events were lost, so the directory has to be scanned.
    Lost,
}

/// A change, and the entry that changed.
#[derive(Clone, Debug)]
pub struct FolderEvent {
    pub change: FolderChange,
    pub path: PathBuf,
    pub is_dir: bool,
}
