//! A lock between processes, by a file.

use super::system::file::private_files;
use super::system::held_folder::FileIdentity;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A file whose lock ends when this is dropped. Closing the file is not enough: a child that has not yet become another program has
/// a copy of it.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Opens the file, and makes it if it is missing. It is not locked yet.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: &Path) -> io::Result<FileLock> {
        private_files().create(true).truncate(false).read(true).write(true).open(path).map(FileLock)
    }

    /// `None`: another process, or another holder in this one, has the lock.
    ///
    /// # Errors
    /// The file can't be opened or locked.
    pub fn try_lock(path: &Path) -> io::Result<Option<FileLock>> {
        loop {
            let lock = FileLock::open(path)?;
            match lock.0.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // A file that was removed since it was opened locks nothing.
            let is_there = FileIdentity::at(path)
                .is_ok_and(|found| FileIdentity::of(&lock.0).is_ok_and(|own| own == found));
            if is_there {
                return Ok(Some(lock));
            }
        }
    }
}

impl std::ops::Deref for FileLock {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // An error is ignored here: the lock then ends with the last copy of the file.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_released_though_a_child_has_a_copy_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let held = FileLock::try_lock(&path).unwrap().unwrap();
        let copy = held.try_clone().unwrap();
        assert!(FileLock::try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(FileLock::try_lock(&path).unwrap().is_some());
        drop(copy);
    }
}
