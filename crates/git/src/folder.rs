//! The folders of repositories: their names, their locks, their removal.

use ground::error::{Error, ErrorCode};
use ground::hex::hex;
use ground::os::{FileIdentity, private_files, private_folders};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A lock of git for one ref that is older than this belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(2);

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

/// `None`: another process, or another attempt of this one, has it.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
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
            return Ok(Some(file));
        }
    }
}

/// Removes a lock of git that nobody can be using any more. Returns whether there was one.
pub(crate) fn remove_stale(lock: &Path) -> io::Result<bool> {
    let age = match lock.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        facts => facts?.modified()?.elapsed().unwrap_or_default(),
    };
    // git holds it for milliseconds.
    std::thread::sleep(STALE_AFTER.saturating_sub(age));
    match std::fs::remove_file(lock) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
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
