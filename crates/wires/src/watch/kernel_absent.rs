//! The replacement on systems without inotify: no directory can be watched, so every tree is scanned.

use std::io;
use std::path::Path;
use tokio::sync::mpsc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    FileClosed,
    FileMade,
    DirectoryCame,
    Gone,
    Unwatched,
    Lost,
}

#[derive(Clone, Debug)]
pub struct KernelEvent {
    pub change: Change,
    pub path: std::path::PathBuf,
    pub is_dir: bool,
}

pub struct Watch;

pub fn watch(_: &Path, _: &mpsc::Sender<KernelEvent>) -> io::Result<Watch> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
