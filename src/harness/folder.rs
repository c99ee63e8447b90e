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
            let path = parent.join(folder_owner::name(&random_name()));
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

/// So many bytes that nobody else has: they tell runs apart, they keep no secret.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for few in bytes.chunks_mut(6) {
        let random = ((crate::retry::random_fraction() * (1u64 << 48) as f64) as u64).to_le_bytes();
        few.copy_from_slice(&random[..few.len()]);
    }
    bytes
}

fn random_name() -> String {
    random_bytes::<3>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A session id of our own making: a random UUID.
pub(crate) fn new_session_id() -> String {
    let mut bytes = random_bytes::<16>();
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
