//! A run's own temporary folder: the agents litter theirs (5 MB a run), and two of them must not meet in one.

use crate::error::{Error, ErrorCode};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Removed, with all that is in it, when dropped; [`RunFolder::remove`] does it without holding up a thread of tokio's.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes one in `parent`, readable by its owner alone.
    pub fn create(parent: &Path) -> Result<Self, Error> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..8 {
            let path = parent.join(format!("sheepdog-{}", random_name()));
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub async fn remove(self) {
        // Dropping is what removes it.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
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

fn random_name() -> String {
    let mut bytes = [0; 6];
    if getrandom::fill(&mut bytes).is_err() {
        bytes.copy_from_slice(&crate::retry::random_fraction().to_ne_bytes()[..6]);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A session id of our own making: a random UUID.
pub fn new_session_id() -> String {
    let mut bytes = [0u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        bytes[..8].copy_from_slice(&crate::retry::random_fraction().to_ne_bytes());
        bytes[8..].copy_from_slice(&crate::retry::random_fraction().to_ne_bytes());
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
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

    #[test]
    fn a_session_id_is_a_uuid() {
        let id = new_session_id();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert_ne!(id, new_session_id());
    }
}
