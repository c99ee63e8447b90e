//! The room of one `apply`: a folder for its objects and indexes, and a lock, because one apply at a time works on a working tree.

use crate::desk::{Desk, copy_index};
use crate::folder::{digest, lock, make_private};
use crate::journal::Journal;
use crate::place::GitPlace;
use crate::repository::{Repository, failed, refused};
use crate::setting::borrowing;
use ground::error::Error;
use ground::os::{FileLock, on_disk, remove_tree};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) struct Room {
    folder: PathBuf,
    lock_path: PathBuf,
    lock: FileLock,
}

/// The rooms of applies whose hosts are gone. Blocks.
pub(crate) fn left_rooms(place: &GitPlace) -> io::Result<Vec<Room>> {
    let mut rooms = Vec::new();
    for entry in std::fs::read_dir(place.notes()).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "applying")
            && let Some(lock) = FileLock::try_lock(&path)?
        {
            rooms.push(Room { folder: path.with_extension("apply"), lock_path: path, lock });
        }
    }
    Ok(rooms)
}

impl Room {
    pub(crate) async fn open(
        place: &GitPlace,
        repository: &Repository,
        source: &Path,
    ) -> Result<Room, Error> {
        let parent = place.notes();
        let name = digest(&repository.top.to_string_lossy());
        let lock_path = parent.join(format!("{name}.applying"));
        let unusable = |error: io::Error| refused("apply", "the changes cannot be applied", &error);
        let lock = lock(&lock_path).await.map_err(unusable)?;
        let room = Room { folder: parent.join(format!("{name}.apply")), lock_path, lock };
        room.recover().await?;
        let (made, index) = (room.folder.clone(), repository.index());
        let objects = [repository.objects(), source.join("objects")];
        let done = on_disk(move || {
            remove_tree(&made)?;
            make_private(&made.join("objects/info"))?;
            std::fs::write(made.join("objects/info/alternates"), borrowing(&objects))?;
            copy_index(&index, &made.join("index"))
        });
        done.await.map_err(unusable)?;
        Ok(room)
    }

    /// Writes the journal, whole or not at all.
    pub(crate) async fn begin(&self, journal: &Journal) -> io::Result<()> {
        let (text, path) = (serde_json::to_vec(journal)?, self.journal_path());
        let begun = path.with_extension("new");
        on_disk(move || {
            std::fs::write(&begun, text)?;
            std::fs::rename(&begun, &path)
        })
        .await
    }

    /// The journal of an apply that was killed while it wrote files. Blocks.
    pub(crate) fn journal(&self) -> Option<Journal> {
        ground::json::read_own(std::fs::read(self.journal_path()).ok()?).ok()
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.join("journal.json")
    }

    /// Puts back the files of an apply that was killed. A working tree that is gone has none.
    pub(crate) async fn recover(&self) -> Result<(), Error> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let Ok(repository) = Repository::find(&journal.top, "cwd").await else { return Ok(()) };
        journal.recover(&self.desk(&repository, "index"), &repository).await.map_err(|fault| {
            let (top, folder) = (journal.top.display(), self.folder.display());
            let what = format!(
                "an earlier apply to {top} was killed and its files cannot be put back: put them right yourself and remove {folder}"
            );
            failed("apply", &what, &fault)
        })
    }

    pub(crate) fn desk(&self, repository: &Repository, index: &str) -> Desk {
        Desk::user(repository, self.folder.join(index)).writing_to(self.folder.join("objects"))
    }

    /// Removes it. The journal goes first, because the objects that it names are in the folder, and the lock last.
    pub(crate) async fn close(self) -> io::Result<()> {
        let journal = self.journal_path();
        let Room { folder, lock_path, lock } = self;
        on_disk(move || {
            let _ = std::fs::remove_file(journal);
            remove_tree(&folder)?;
            std::fs::remove_file(&lock_path)?;
            drop(lock);
            Ok(())
        })
        .await
    }
}
