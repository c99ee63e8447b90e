//! A run's own temporary folder: the agents litter theirs (5 MB a run), and two of them must not meet in one.
//!
//! It goes when its owner drops it. A host that was killed drops nothing, so the folder's name says whose it is, and the next
//! host that makes one in the same place removes those whose host is gone.

use super::folder_owner;
use crate::error::{Error, ErrorCode};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Removed, with all that is in it, when dropped; [`RunFolder::remove`] does it without holding up a thread of tokio's.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes one in `parent`, readable by its owner alone.
    pub(crate) fn create(parent: &Path) -> Result<Self, Error> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| folder_owner::sweep(parent));
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..8 {
            let path = parent.join(folder_owner::name(&crate::random::name::<3>()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(RunFolder { path }),
                Err(error) => last = error,
            }
        }
        let message = format!(
            "no temporary folder could be made in {}: {last}; set TMPDIR to one that can be written to",
            parent.display()
        );
        Err(Error::new(ErrorCode::ProcessSpawnFailed, message))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn remove(self) {
        // Dropping is what removes it.
        let _ = crate::os::blocking(move || drop(self)).await;
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What a straggler writes between the listing and the removal needs another round.
        for _ in 0..3 {
            match std::fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_goes_with_all_that_is_in_it() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path()).unwrap();
        std::fs::create_dir(folder.path().join("litter")).unwrap();
        std::fs::write(folder.path().join("litter/file"), "x").unwrap();
        let path = folder.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }
}
