//! The room of one `apply`: a folder for its objects and indexes, and a lock, because one apply at a time works on a working tree.

use crate::desk::{Desk, copy_index};
use crate::folder::{digest, make_private, remove, try_lock};
use crate::place::GitPlace;
use crate::repository::{Repository, refused};
use ground::error::Error;
use ground::os::on_disk;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Room {
    folder: PathBuf,
    lock_path: PathBuf,
    lock: File,
}

/// Removes what applies of hosts that were killed left: each folder, then its lock. Blocks.
pub(crate) fn sweep(place: &GitPlace) -> io::Result<()> {
    for entry in std::fs::read_dir(place.notes()).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "applying")
            && let Some(lock) = try_lock(&path)?
        {
            remove_room(&path.with_extension("apply"), &path, lock)?;
        }
    }
    Ok(())
}

/// The lock goes last.
fn remove_room(folder: &Path, lock_path: &Path, lock: File) -> io::Result<()> {
    remove(folder)?;
    std::fs::remove_file(lock_path)?;
    drop(lock);
    Ok(())
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
        let lock = loop {
            let (parent, lock_path) = (parent.clone(), lock_path.clone());
            let tried = on_disk(move || {
                make_private(&parent)?;
                try_lock(&lock_path)
            });
            match tried.await.map_err(unusable)? {
                Some(lock) => break lock,
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let folder = parent.join(format!("{name}.apply"));
        let (made, index) = (folder.clone(), repository.own.join("index"));
        let objects = [repository.objects(), source.join("objects")];
        let done = on_disk(move || {
            // An apply of a host that was killed leaves its folder.
            remove(&made)?;
            make_private(&made.join("objects/info"))?;
            let lines: Vec<String> = objects.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            std::fs::write(made.join("objects/info/alternates"), lines.join("\n") + "\n")?;
            copy_index(&index, &made.join("index"))
        });
        done.await.map_err(unusable)?;
        Ok(Room { folder, lock_path, lock })
    }

    pub(crate) fn desk(&self, repository: &Repository, index: &str) -> Desk {
        Desk::user(repository, self.folder.join(index)).writing_to(self.folder.join("objects"))
    }

    pub(crate) async fn close(self) {
        let Room { folder, lock_path, lock } = self;
        let _ = on_disk(move || remove_room(&folder, &lock_path, lock)).await;
    }
}
