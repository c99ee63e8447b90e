//! The working folder of this process, by its name: the system neither renames nor deletes a folder that is one.

use std::io;
use std::path::{Path, PathBuf};

/// The working folder of this process at the time of a call; by default, at the time of the use.
#[derive(Clone, Debug, Default)]
pub struct HostFolder(Option<PathBuf>);

impl HostFolder {
    pub fn now() -> HostFolder {
        HostFolder(std::env::current_dir().ok())
    }

    /// A folder that is named by a descriptor: there are none.
    pub fn of_descriptor(_: &Path) -> Option<HostFolder> {
        None
    }

    /// Whether it is still the working folder of this process.
    pub fn is_present(&self) -> bool {
        self.0.as_ref().is_none_or(|held| std::env::current_dir().is_ok_and(|present| present == *held))
    }

    /// A path by which this process reaches what is relative to the folder.
    pub fn reach(&self, path: &Path) -> PathBuf {
        self.0.as_ref().map_or_else(|| path.to_owned(), |held| held.join(path))
    }

    /// The path to execute for a path: the system looks for relative ones elsewhere.
    pub fn executed(path: PathBuf) -> PathBuf {
        std::path::absolute(&path).unwrap_or(path)
    }

    /// The name of the folder.
    ///
    /// # Errors
    /// The system's.
    pub fn name(&self) -> io::Result<PathBuf> {
        self.0.clone().map_or_else(std::env::current_dir, Ok)
    }

    /// The path as people know it: absolute.
    pub fn named(&self, path: &Path) -> PathBuf {
        self.name().map_or_else(|_| path.to_owned(), |name| name.join(path))
    }
}
