//! The replacement on systems without inotify: no directory can be watched, so every tree is scanned.

use super::super::folder_event::FolderEvent;
use crate::mpsc;
use std::io;
use std::path::Path;

pub struct FolderWatch(());

pub fn watch_folder(_: &Path, _: &mpsc::Sender<FolderEvent>) -> io::Result<FolderWatch> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
