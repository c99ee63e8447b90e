//! The folders of repositories: their names, their locks, their removal.

use ground::error::{Error, ErrorCode};
use ground::hex::hex;
use ground::os::{FileLock, on_disk, private_folders};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A lock of git that is older than this, and that is proved to be of a call of ours, belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// git takes all locks of a call within this time: it waits one second for a lock that another one has.
const LOCKED_WITHIN: Duration = Duration::from_millis(1500);
/// Times of files are those of the last tick.
const TICK: Duration = Duration::from_millis(20);
/// Pause between two tries for a lock that another worker has. That worker's work has a time limit, and the lock ends with it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

/// Waits until nobody else has the lock.
pub(crate) async fn lock(path: &Path) -> io::Result<FileLock> {
    loop {
        let path = path.to_owned();
        let tried = on_disk(move || {
            path.parent().map_or(Ok(()), make_private)?;
            FileLock::try_lock(&path)
        });
        match tried.await? {
            Some(lock) => return Ok(lock),
            None => tokio::time::sleep(LOOK_EVERY).await,
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

pub(crate) fn unusable(folder: &Path, error: &io::Error) -> Error {
    let message = format!(
        "{} can't be used for checkouts: {error}; give the worker another one with `git: {{ dir }}`",
        folder.display()
    );
    Error::new(ErrorCode::JobCheckoutFailed, message)
}
