//! The journal of one `apply`: what it is about to write, so that a half-written working tree is put back.
//!
//! The journal is written before the first file, and goes with the room of the apply after the last one. A room that still has
//! one belongs to an apply whose host or git was killed. The next apply there, and `reap`, put the files back; nothing else
//! does, because a working tree is never touched unasked. Where the user has committed or staged since, the files are the
//! user's decision and stay.
//!
//! | file, beside both trees | put back to |
//! |---|---|
//! | as it was before | stays |
//! | as merged, missing, or only begun | as it was before |
//! | anything else: somebody changed it since | stays |

use crate::command::CallFault;
use crate::desk::Desk;
use crate::folder::remove_file;
use crate::repository::Repository;
use crate::snapshot::names_of;
use ground::hex::hex;
use ground::os::{on_disk, path_of};
use ground::record::epoch_ms;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use walkdir::WalkDir;

/// Index of the paths that differ, as they were before.
const BEFORE: &str = "index-before";
/// The same as merged.
const MERGED: &str = "index-merged";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// Id of the changes.
    pub id: String,
    /// Top of the working tree.
    pub top: PathBuf,
    pub host_pid: u32,
    pub made_at_ms: u64,
    head: Option<String>,
    /// Digest of what the user has staged.
    staged: String,
    ours: String,
    merged: String,
}

impl Journal {
    pub(crate) async fn new(
        id: &str,
        repository: &Repository,
        ours: &str,
        merged: &str,
    ) -> Result<Journal, CallFault> {
        Ok(Journal {
            id: id.to_owned(),
            host_pid: std::process::id(),
            made_at_ms: epoch_ms(SystemTime::now()),
            top: repository.top.clone(),
            head: repository.head.clone(),
            staged: staged(repository).await?,
            ours: ours.to_owned(),
            merged: merged.to_owned(),
        })
    }

    /// Puts back the files that the merge wrote, unless it wrote all of them, or the user has committed or staged since.
    pub(crate) async fn recover(&self, desk: &Desk, repository: &Repository) -> Result<(), CallFault> {
        if self.head != repository.head || self.staged != staged(repository).await? {
            return Ok(());
        }
        let found = self.compare(desk, repository).await?;
        if found.entries.iter().all(|entry| found.is_merged(entry)) {
            return Ok(());
        }
        self.put_back(desk, found).await
    }

    /// Puts back the files that the merge wrote.
    pub(crate) async fn undo(&self, desk: &Desk, repository: &Repository) -> Result<(), CallFault> {
        let found = self.compare(desk, repository).await?;
        self.put_back(desk, found).await
    }

    async fn compare(&self, desk: &Desk, repository: &Repository) -> Result<Found, CallFault> {
        let (before, merged) = (desk.beside(BEFORE), desk.beside(MERGED));
        let raw = ["diff-tree", "-r", "-z", "--raw", "--no-renames", &self.ours, &self.merged];
        let entries = entries_of(&before.call(raw).run().await?);
        let unlike_before = unlike(&before, &entries, |entry| &entry.before).await?;
        let unlike_merged = unlike(&merged, &entries, |entry| &entry.merged).await?;
        let mut begun = HashSet::new();
        for entry in &entries {
            let path = repository.top.join(path_of(&entry.name));
            if entry.merged.is_none() || !unlike_merged.contains(&entry.name) {
                continue;
            }
            let read = on_disk(move || match path.symlink_metadata()?.is_file() {
                true => std::fs::read(path).map(Some),
                false => Ok(None),
            });
            let Ok(Some(part)) = read.await else { continue };
            let object = format!("{}:{}", self.merged, String::from_utf8_lossy(&entry.name));
            let Ok(whole) = merged.call(["cat-file", "--filters", &object]).run().await else { continue };
            if part.len() < whole.len() && whole.starts_with(&part) {
                begun.insert(entry.name.clone());
            }
        }
        Ok(Found { top: repository.top.clone(), entries, unlike_before, unlike_merged, begun })
    }

    async fn put_back(&self, desk: &Desk, found: Found) -> Result<(), CallFault> {
        let lacking = on_disk(move || found.clear()).await;
        let lacking = lacking.map_err(|error| CallFault::Other(error.to_string()))?;
        let call = desk.beside(BEFORE).call(["checkout-index", "-f", "-z", "--stdin"]);
        call.input(lacking).run().await.map(drop)
    }
}

/// The paths that differ between both trees, and their files beside each.
struct Found {
    top: PathBuf,
    entries: Vec<Entry>,
    unlike_before: HashSet<Vec<u8>>,
    unlike_merged: HashSet<Vec<u8>>,
    /// Files with a first part of the merged content.
    begun: HashSet<Vec<u8>>,
}

impl Found {
    fn is_merged(&self, entry: &Entry) -> bool {
        match entry.merged {
            Some(_) => !self.unlike_merged.contains(&entry.name),
            None => self.top.join(path_of(&entry.name)).symlink_metadata().is_err(),
        }
    }

    fn is_of_merge(&self, entry: &Entry) -> bool {
        self.begun.contains(&entry.name) || (entry.merged.is_some() && self.is_merged(entry))
    }

    /// Removes the files that the merge added. Returns the names of files to write as they were, each with a NUL. Blocks.
    fn clear(&self) -> io::Result<Vec<u8>> {
        for entry in self.entries.iter().filter(|entry| entry.before.is_none() && self.is_of_merge(entry)) {
            remove_file(&self.top.join(path_of(&entry.name)))?;
        }
        let mut lacking = Vec::new();
        for entry in self.entries.iter().filter(|entry| self.unlike_before.contains(&entry.name)) {
            let path = self.top.join(path_of(&entry.name));
            // The folder of files that the merge added in place of a file.
            remove_empty(&path);
            if self.is_of_merge(entry) || path.symlink_metadata().is_err() {
                lacking.extend_from_slice(&entry.name);
                lacking.push(0);
            }
        }
        Ok(lacking)
    }
}

/// Digest of the user's index, times of files left out.
async fn staged(repository: &Repository) -> Result<String, CallFault> {
    let listed = Desk::user(repository, repository.index()).call(["ls-files", "--stage", "-z"]).run().await?;
    Ok(hex(&Sha256::digest(&listed)))
}

/// A path that differs between both trees: its mode and object in each.
#[derive(Debug, PartialEq)]
struct Entry {
    name: Vec<u8>,
    before: Option<String>,
    merged: Option<String>,
}

/// Reads `--raw -z`.
fn entries_of(told: &[u8]) -> Vec<Entry> {
    let parts = names_of(told);
    let pairs = parts.chunks_exact(2);
    let read = |pair: &[Vec<u8>]| {
        let facts = std::str::from_utf8(pair.first()?).ok()?.strip_prefix(':')?;
        let mut words = facts.split(' ');
        let mut next = || words.next();
        let (from_mode, to_mode, from, to) = (next()?, next()?, next()?, next()?);
        let object = |mode: &str, id: &str| (mode != "000000").then(|| format!("{mode} {id}"));
        Some(Entry {
            name: pair.get(1)?.clone(),
            before: object(from_mode, from),
            merged: object(to_mode, to),
        })
    };
    pairs.filter_map(read).collect()
}

/// The entries of one tree whose file is missing or has another content. The desk's index has them alone afterwards.
async fn unlike(
    desk: &Desk,
    entries: &[Entry],
    side: impl Fn(&Entry) -> &Option<String>,
) -> Result<HashSet<Vec<u8>>, CallFault> {
    let mut lines = Vec::new();
    for entry in entries {
        if let Some(object) = side(entry) {
            lines.extend([object.as_bytes(), b"\t", &entry.name, b"\0"].concat());
        }
    }
    desk.call(["read-tree", "--empty"]).run().await?;
    desk.call(["update-index", "-z", "--index-info"]).input(lines).run().await?;
    // Its status says that files differ, which the next command lists.
    match desk.call(["update-index", "-q", "--refresh"]).run().await {
        Ok(_) | Err(CallFault::Said { code: Some(1), .. }) => {}
        Err(fault) => return Err(fault),
    }
    let listed = desk.call(["diff-files", "--ignore-submodules=all", "--name-only", "-z"]).run().await?;
    Ok(names_of(&listed).into_iter().collect())
}

/// Removes folders that have nothing but folders in them. What has a file stays.
fn remove_empty(path: &Path) {
    let entries = WalkDir::new(path).follow_root_links(false).contents_first(true).into_iter().flatten();
    for folder in entries.filter(|entry| entry.file_type().is_dir()) {
        // A folder with a file cannot be removed, which is right.
        let _ = std::fs::remove_dir(folder.path());
    }
}
