//! The folders of repositories: their names, their locks, their removal.

use ground::error::{Error, ErrorCode};
use ground::hex::hex;
use ground::os::{FileIdentity, private_files, private_folders};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A lock of git that is older than this, and that is proved to be of a call of ours, belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// git takes all locks of a call within this time: it waits one second for a lock that another one has.
const LOCKED_WITHIN: Duration = Duration::from_millis(1500);
/// Times of files are those of the last tick.
const TICK: Duration = Duration::from_millis(20);

pub(crate) fn checkouts(folder: &Path) -> PathBuf {
    folder.join("checkouts")
}

/// Short, whatever the id is: programs put sockets below it.
pub(crate) fn name_of(job: &str, copy: u32) -> String {
    let name = digest(job);
    if copy == 1 { name } else { format!("{name}-{copy}") }
}

pub(crate) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..10])
}

pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    private_folders().recursive(true).create(folder)
}

/// A lock that is held until this is dropped. Closing its file is not enough: a child that has not yet become another program has a
/// copy of it.
#[derive(Debug)]
pub(crate) struct Held(File);

impl std::ops::Deref for Held {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // An error is ignored here: the lock then ends with the last copy of the file.
        let _ = self.0.unlock();
    }
}

/// `None`: another process, or another attempt of this one, has it.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<Held>> {
    loop {
        let file = private_files().create(true).truncate(false).read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        // One that was removed since it was opened locks nothing.
        let is_there =
            FileIdentity::at(path).is_ok_and(|found| FileIdentity::of(&file).is_ok_and(|own| own == found));
        if is_there {
            return Ok(Some(Held(file)));
        }
    }
}

/// Removes the locks of a git that was killed while it wrote this ref of ours. Returns whether there were any. Blocks.
///
/// The name of the ref is ours alone, so its lock that stays is that of a git of ours that is dead. Removing a ref locks all packed
/// refs as well, in the user's name. That lock is ours when git took it right behind the lock of the ref, or, where that one is
/// gone already, during a call that began at `killed` and was killed. The user's git would have to take it in the same
/// milliseconds and hold it for two seconds.
pub(crate) fn remove_ref_locks(common: &Path, name: &str, killed: Option<SystemTime>) -> io::Result<bool> {
    let lock = common.join(format!("{name}.lock"));
    let made = modified(&lock)?;
    let Some(since) = made.or(killed.map(|began| began - TICK)) else { return Ok(false) };
    let packed = ["packed-refs.lock", "packed-refs.new"].map(|name| common.join(name));
    let first = modified(&packed[0])?.filter(|time| (since..=since + LOCKED_WITHIN).contains(time));
    let [_, written] = &packed;
    let last =
        [made, first, if first.is_some() { modified(written)? } else { None }].into_iter().flatten().max();
    let Some(last) = last else { return Ok(false) };
    // git holds them for milliseconds.
    std::thread::sleep(STALE_AFTER.saturating_sub(last.elapsed().unwrap_or_default()));
    if first.is_some() && modified(&packed[0])? == first && modified(written)?.is_none_or(|time| time <= last)
    {
        remove_file(written)?;
        remove_file(&packed[0])?;
    }
    remove_file(&lock)?;
    Ok(true)
}

/// When a file was written last; `None` where there is none.
fn modified(path: &Path) -> io::Result<Option<SystemTime>> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        facts => facts?.modified().map(Some),
    }
}

/// A file that is gone counts as removed.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// With all that is in it, folders that were made read-only included.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    for _ in 0..2 {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Ok(()) => return Ok(()),
            Err(_) => make_writable(path),
        }
    }
    std::fs::remove_dir_all(path)
}

fn make_writable(folder: &Path) {
    // An error is ignored here: the removal that follows fails and reports it.
    let _ = ground::os::make_writable(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

pub(crate) fn unusable(folder: &Path, error: &io::Error) -> Error {
    let message = format!(
        "{} can't be used for checkouts: {error}; give the worker another one with `git: {{ dir }}`",
        folder.display()
    );
    Error::new(ErrorCode::JobCheckoutFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_released_though_a_child_has_a_copy_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let held = try_lock(&path).unwrap().unwrap();
        let copy = held.try_clone().unwrap();
        assert!(try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
        drop(copy);
    }
}
