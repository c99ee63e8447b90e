//! A job's own copy of a repository.
//!
//! ```text
//! mirrors/<address>.git    bare, fetched into; one per repository, its lock held during a fetch
//! checkouts/<job>          a clone that borrows the mirror's objects; its lock is held as long as an attempt works in it
//! ```
//!
//! A checkout is a repository of its own, not one of `git worktree`. Worktrees share configuration, hooks and refs with the
//! mirror, and the next git of this worker would run what an agent wrote there, outside of any sandbox. An agent that may write
//! only in its checkout can commit in it, and changes nothing that another job sees. Objects of the mirror are never pruned,
//! because checkouts borrow them.
//!
//! Locks are the kernel's, so they end with their process. A lock file describes its checkout, so that an attempt that
//! continues a lost one finds its files. A checkout that no attempt continues is removed a day later.

use crate::folder::{checkouts, make_private, name_of, unusable};
use crate::mirror::Mirror;
use crate::place::GitPlace;
use crate::remote::Git;
use crate::source::GitSource;
use ground::error::Error;
#[cfg(test)]
use ground::error::ErrorCode;
use ground::lock::lock;
use ground::os::{FileLock, on_disk, remove_tree};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Time for which the checkout of a lost attempt is kept for the attempt that continues in it.
const LEFT_FOR: Duration = Duration::from_secs(24 * 3600);
/// Most copies of one job on one machine. There is more than one only until a fenced worker has noticed, or when one was kept.
const MAX_COPIES: u32 = 100;

/// The further use of a checkout after its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The checkout is not needed any more.
    Over,
    /// The next attempt may continue in the checkout.
    GoesOn,
    /// The user wants to look at the checkout.
    Kept,
}

/// A repository's files, for one attempt.
pub struct Checkout {
    path: PathBuf,
    lock_path: PathBuf,
    commit: String,
    /// Whether the checkout has the files of the previous attempt.
    goes_on: bool,
    /// The lock, until the attempt has left the checkout.
    lock: Mutex<Option<FileLock>>,
}

/// Content of the lock file of a complete checkout.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    source: String,
    commit: String,
    #[serde(default)]
    kept: bool,
}

impl Checkout {
    /// Fetches and checks out. `goes_on`: in the files that the attempt before left here, if they are here.
    pub async fn make(
        place: &GitPlace,
        job: &str,
        source: &GitSource,
        goes_on: bool,
    ) -> Result<Checkout, Error> {
        source.check()?;
        let address = source.address();
        let claimed = claim(place.folder.clone(), job.to_owned(), address.url.clone(), goes_on).await;
        let mut checkout = claimed.map_err(|error| unusable(&place.folder, &error))?;
        if checkout.goes_on {
            return Ok(checkout);
        }
        let git = Git::new(place.idle_timeout, &address, source.wanted());
        let mirror = Mirror::open(&place.folder, &git).await?;
        checkout.commit = mirror.commit(source).await?;
        let from = mirror.path();
        // The next one may fetch: what is borrowed from a mirror stays in it.
        drop(mirror);
        if let Err(error) = fill(&git, &from, &checkout.path, &checkout.commit).await {
            checkout.leave(Leaving::Over).await;
            return Err(error);
        }
        let note = Note { source: address.url.clone(), commit: checkout.commit.clone(), kept: false };
        checkout.note(&note).await.map_err(|error| unusable(&place.folder, &error))?;
        Ok(checkout)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    pub fn commit(&self) -> &str {
        &self.commit
    }

    async fn note(&self, note: &Note) -> io::Result<()> {
        let (path, text) = (self.lock_path.clone(), serde_json::to_string(note)?);
        on_disk(move || std::fs::write(path, text)).await
    }

    /// The attempt is over; resolves when what is to go is gone. The lock goes with the checkout's last word.
    pub async fn leave(&self, leaving: Leaving) {
        let Some(lock) = lock(&self.lock).take() else { return };
        let (path, lock_path, commit) = (self.path.clone(), self.lock_path.clone(), self.commit.clone());
        let _ = on_disk(move || {
            match leaving {
                Leaving::Over => {
                    remove_tree(&path)?;
                    // Before the lock is let go of: whoever waits for it makes it anew.
                    std::fs::remove_file(&lock_path)?;
                }
                Leaving::Kept => {
                    let note = Note { source: String::new(), commit, kept: true };
                    std::fs::write(&lock_path, serde_json::to_string(&note)?)?;
                }
                Leaving::GoesOn => {}
            }
            drop(lock);
            Ok(())
        })
        .await;
    }
}

/// Removes what attempts left that nobody came back for. For the start of a worker.
pub async fn sweep(folder: PathBuf) {
    let _ = on_disk(move || {
        for entry in std::fs::read_dir(checkouts(&folder))?.flatten() {
            let lock_path = entry.path();
            let is_old = || {
                let age = entry.metadata().ok()?.modified().ok()?.elapsed().ok()?;
                Some(age > LEFT_FOR)
            };
            if lock_path.extension().is_none_or(|end| end != "lock") || is_old() != Some(true) {
                continue;
            }
            if let Ok(Some(_lock)) = FileLock::try_lock(&lock_path)
                && noted(&lock_path).is_none_or(|note| !note.kept)
                && remove_tree(&lock_path.with_extension("")).is_ok()
            {
                let _ = std::fs::remove_file(&lock_path);
            }
        }
        Ok(())
    })
    .await;
}

/// A place for the job's files that no other attempt is in: with those of the previous attempt, or empty and without a commit.
async fn claim(folder: PathBuf, job: String, url: String, goes_on: bool) -> io::Result<Checkout> {
    on_disk(move || {
        let parent = checkouts(&folder);
        make_private(&parent)?;
        for copy in 1..=MAX_COPIES {
            let path = parent.join(name_of(&job, copy));
            let lock_path = PathBuf::from(format!("{}.lock", path.display()));
            let Some(lock) = FileLock::try_lock(&lock_path)? else { continue };
            let note = noted(&lock_path);
            if note.as_ref().is_some_and(|note| note.kept) {
                continue;
            }
            let left = note
                .filter(|note| goes_on && note.source == url && path.join(".git").is_dir())
                .map(|note| note.commit);
            if left.is_none() {
                remove_tree(&path)?;
                // Clear the note, because the checkout that it describes was removed.
                lock.set_len(0)?;
            }
            let (goes_on, lock) = (left.is_some(), Mutex::new(Some(lock)));
            return Ok(Checkout { path, lock_path, commit: left.unwrap_or_default(), goes_on, lock });
        }
        Err(io::Error::other(format!("there are {MAX_COPIES} checkouts of this job: remove some")))
    })
    .await
}

async fn fill(git: &Git<'_>, from: &str, path: &Path, commit: &str) -> Result<(), Error> {
    let folder = path.to_string_lossy();
    let clone = ["clone", "--quiet", "--shared", "--no-checkout", "--template=", "--", from, &*folder];
    git.run(None, &clone).await?;
    git.run(Some(path), &["config", "remote.origin.url", &git.address.url]).await?;
    git.run(Some(path), &["checkout", "--progress", "--detach", "--force", commit, "--"]).await.map(drop)
}

fn noted(lock_path: &Path) -> Option<Note> {
    ground::json::read_own(&std::fs::read(lock_path).ok()?).ok()
}

#[cfg(test)]
mod tests;
