//! The checkouts of this user's agents, so that none is left behind.
//!
//! Each checkout has a lock file in one folder of the user, whatever folder the checkout itself lies in. The file says where the
//! checkout and its repository are. The host of the checkout holds the lock. Locks are the kernel's and end with their process,
//! so a free lock means that the host is gone. Such a checkout is removed with its ref, unless it was kept on purpose.

use crate::folder::make_private;
use crate::place::GitPlace;
use crate::repository::Repository;
use crate::room::{Room, left_rooms};
use ground::error::{Error, ErrorCode};
use ground::os::{FileLock, on_disk, remove_tree};
use ground::record::epoch_ms;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Letters of an id.
const ID_BYTES: usize = 8;

/// Content of a lock file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    pub id: String,
    /// Top of the user's working tree.
    pub repository: PathBuf,
    /// The git directory that has the ref.
    pub git_dir: PathBuf,
    /// The folder in which the checkout's own folder lies.
    pub dir: PathBuf,
    pub name: Option<String>,
    pub host_pid: u32,
    pub made_at_ms: u64,
    /// The user wants to look at it.
    #[serde(default)]
    pub kept: bool,
}

impl Note {
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.join(&self.id)
    }
}

/// The relation of a checkout to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorktreeState {
    /// Its host works in it.
    Running,
    /// It was kept on purpose.
    Kept,
    /// Its host is gone.
    Left,
}

/// A checkout, seen from outside.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeFacts {
    pub id: String,
    pub state: WorktreeState,
    pub name: Option<String>,
    pub repository: String,
    pub path: String,
    #[serde(rename = "ref")]
    pub ref_name: String,
    pub host_pid: u32,
    pub made_at_ms: u64,
}

/// A checkout that was removed, or the reason why it could not be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReapedWorktree {
    pub worktree: WorktreeFacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A claimed place for a checkout; the lock is held as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    pub note: Note,
    lock_path: PathBuf,
    lock: FileLock,
}

impl Claim {
    /// A new place in `dir`, or beside the note. Blocks.
    pub(crate) fn new(
        place: &GitPlace,
        repository: &Repository,
        dir: Option<PathBuf>,
        name: Option<String>,
    ) -> io::Result<Claim> {
        let parent = place.notes();
        make_private(&parent)?;
        let dir = dir.unwrap_or_else(|| parent.clone());
        std::fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let id = ground::random::name::<ID_BYTES>();
        let lock_path = parent.join(format!("{id}.lock"));
        let note = Note {
            id,
            repository: repository.top.clone(),
            git_dir: repository.common.clone(),
            dir,
            name,
            host_pid: std::process::id(),
            made_at_ms: epoch_ms(SystemTime::now()),
            kept: false,
        };
        // Nobody else has this name. One that looks at all locks may hold it for a moment.
        let lock = loop {
            match FileLock::try_lock(&lock_path)? {
                Some(lock) => break lock,
                None => std::thread::yield_now(),
            }
        };
        let claim = Claim { note, lock_path, lock };
        claim.write()?;
        make_private(&claim.note.folder())?;
        Ok(claim)
    }

    /// By one write over what is there, so that a host that is killed leaves one note or the other.
    fn write(&self) -> io::Result<()> {
        let length = usize::try_from(self.lock.metadata()?.len()).unwrap_or_default();
        let text = format!("{:<length$}", serde_json::to_string(&self.note)?);
        let mut file = std::fs::OpenOptions::new().write(true).open(&self.lock_path)?;
        file.write_all(text.as_bytes())
    }

    /// Says that the checkout is kept, and releases it. Blocks.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.note.kept = true;
        self.write()
    }

    /// The folder of the checkout and all that belongs to it.
    pub(crate) fn folder(&self) -> PathBuf {
        self.note.folder()
    }

    /// Removes the checkout and its note. The lock goes last. Blocks.
    pub(crate) fn remove(self) -> io::Result<()> {
        let removed = remove_files(&self.note, &self.lock_path);
        drop(self.lock);
        removed
    }
}

fn remove_files(note: &Note, lock_path: &Path) -> io::Result<()> {
    remove_tree(&note.folder())?;
    std::fs::remove_file(lock_path)
}

/// A note under its own name only: nothing else is removed than a folder that is called by an id of ours.
fn read(lock_path: &Path) -> Option<Note> {
    let text = std::fs::read(lock_path).ok()?;
    let note: Note = ground::json::read_own(&text).ok()?;
    let is_id = !note.id.is_empty() && note.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_id && note.dir.is_absolute() && lock_path.file_stem()?.to_str()? == note.id).then_some(note)
}

fn facts_of(note: &Note, is_held: bool) -> WorktreeFacts {
    let state = match (is_held, note.kept) {
        (_, true) => WorktreeState::Kept,
        (true, false) => WorktreeState::Running,
        (false, false) => WorktreeState::Left,
    };
    WorktreeFacts {
        id: note.id.clone(),
        state,
        name: note.name.clone(),
        repository: note.repository.to_string_lossy().into_owned(),
        path: note.folder().to_string_lossy().into_owned(),
        ref_name: crate::repository::ref_of(&note.id),
        host_pid: note.host_pid,
        made_at_ms: note.made_at_ms,
    }
}

/// All notes, each with the lock where nobody holds it. Blocks.
fn look(place: &GitPlace) -> io::Result<Vec<(Note, PathBuf, Option<FileLock>)>> {
    let entries = match std::fs::read_dir(place.notes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "lock")) {
        let lock = FileLock::try_lock(&path)?;
        match read(&path) {
            Some(note) => found.push((note, path, lock)),
            // Its host was killed before it wrote, or it was removed since and the lock has made it again.
            None if lock.is_some() => std::fs::remove_file(&path)?,
            // It is made at this moment.
            None => {}
        }
    }
    found.sort_by_key(|(note, ..)| note.made_at_ms);
    Ok(found)
}

fn unusable(place: &GitPlace, error: &io::Error) -> Error {
    let message = format!("cannot use {}, the folder for checkouts: {error}", place.folder.display());
    Error::new(ErrorCode::WorktreeFailed, message).with("step", "checkout")
}

/// An apply that was killed while it wrote files.
fn facts_of_room(room: &Room) -> Option<WorktreeFacts> {
    let journal = room.journal()?;
    Some(WorktreeFacts {
        ref_name: crate::repository::ref_of(&journal.id),
        id: journal.id,
        state: WorktreeState::Left,
        name: Some("half-written apply".to_owned()),
        repository: journal.top.to_string_lossy().into_owned(),
        path: journal.top.to_string_lossy().into_owned(),
        host_pid: journal.host_pid,
        made_at_ms: journal.made_at_ms,
    })
}

/// All checkouts of this user's agents, the oldest first, and the applies that were killed while they wrote files.
pub async fn list_worktrees(place: &GitPlace) -> Result<Vec<WorktreeFacts>, Error> {
    let at = place.clone();
    let found = on_disk(move || {
        let rooms = left_rooms(&at)?;
        Ok((look(&at)?, rooms.iter().filter_map(facts_of_room).collect::<Vec<_>>()))
    });
    let (found, applies) = found.await.map_err(|error| unusable(place, &error))?;
    Ok(found.iter().map(|(note, _, lock)| facts_of(note, lock.is_none())).chain(applies).collect())
}

/// Removes the checkouts whose host is gone, with their refs: all, or those with these ids. Of a kept one the id has to be
/// named. Files of an apply that was killed are put back.
pub async fn reap_worktrees(place: &GitPlace, ids: Option<&[String]>) -> Result<Vec<ReapedWorktree>, Error> {
    let mut reaped = remove_left(place, ids).await?;
    let at = place.clone();
    let rooms = on_disk(move || left_rooms(&at)).await.map_err(|error| unusable(place, &error))?;
    for room in rooms {
        let Some(worktree) = facts_of_room(&room) else { continue };
        if ids.is_some_and(|ids| !ids.contains(&worktree.id)) {
            continue;
        }
        let problem = match room.recover().await {
            Ok(()) => room.close().await.err().map(|error| error.to_string()),
            Err(error) => Some(error.message().to_owned()),
        };
        reaped.push(ReapedWorktree { worktree, problem });
    }
    Ok(reaped)
}

/// The same without a change to any working tree.
pub(crate) async fn remove_left(
    place: &GitPlace,
    ids: Option<&[String]>,
) -> Result<Vec<ReapedWorktree>, Error> {
    let at = place.clone();
    let looked = on_disk(move || Ok((look(&at)?, left_rooms(&at)?)));
    let (found, rooms) = looked.await.map_err(|error| unusable(place, &error))?;
    for room in rooms {
        // The next one that looks tries again.
        if room.journal().is_none() {
            let _ = room.close().await;
        }
    }
    let mut reaped = Vec::new();
    for (note, path, lock) in found {
        let is_meant = match ids {
            Some(ids) => ids.contains(&note.id),
            None => !note.kept,
        };
        let Some(lock) = lock.filter(|_| is_meant) else { continue };
        let worktree = facts_of(&note, false);
        // A repository that is gone has no ref either.
        let refs = Repository::set_ref(&note.git_dir, &note.id, None).await;
        let has_repository = note.git_dir.clone();
        let removed = on_disk(move || {
            let is_there = has_repository.is_dir();
            let removed = remove_files(&note, &path).map(|()| is_there);
            drop(lock);
            removed
        });
        let problem = match (removed.await, refs) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(true), Err(fault)) => Some(fault.words()),
            _ => None,
        };
        reaped.push(ReapedWorktree { worktree, problem });
    }
    Ok(reaped)
}

/// Forgets a kept checkout: removes its files and its note. One that an agent works in stays.
pub(crate) async fn forget(place: &GitPlace, id: &str) -> io::Result<()> {
    let lock_path = place.notes().join(format!("{id}.lock"));
    on_disk(move || {
        let Some(note) = read(&lock_path) else { return Ok(()) };
        let lock = FileLock::try_lock(&lock_path)?;
        if lock.is_some() { remove_files(&note, &lock_path) } else { Ok(()) }
    })
    .await
}
