//! A run's own temporary folder. Agents leave files in theirs (5 MB a run), and two of them must not share one.
//!
//! It has two parts. Files that this process writes for the CLI (a policy, a schema, settings) lie in the folder itself. A
//! sandbox leaves it read-only, so the program inside can't put a link where the next attempt's policy is written. The
//! program's own part is [`RunFolder::scratch`], a folder in it: `TMPDIR`, and the answer's file. Both are held by descriptors
//! (`os::HeldFolder`).
//!
//! The folder is removed when its owner drops it, or by a later host when this one is killed (`os::own_folder`).

pub(crate) mod sandbox;
pub(crate) mod state_folder;

use ground::error::{Error, ErrorCode};
use ground::os::{ContainedFolders, HeldFolder, own_folder, remove_tree};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The part that the program may write.
const SCRATCH: &str = "tmp";

/// The error of a file or folder that the system refused before an agent was started. The message names it.
pub(crate) fn refused(message: String, syscall: &str, error: &io::Error) -> Error {
    Error::new(ErrorCode::ProcessSpawnFailed, message)
        .with("errno", error.raw_os_error().unwrap_or(0))
        .with("syscall", syscall)
}

/// Removed, with all that is in it, when dropped; [`RunFolder::remove`] does it without holding up a thread of tokio's.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: HeldFolder,
    scratch: HeldFolder,
}

impl RunFolder {
    /// Makes one, readable by its owner alone, in the first of these places that a program in this sandbox can't write; in the first
    /// place where it can write all of them.
    pub(crate) fn create(places: &[PathBuf], contained: &[PathBuf]) -> Result<Self, Error> {
        static SWEPT: Once = Once::new();
        let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
        let safe = places.iter().find(|place| place.is_dir() && !contained.hold(place));
        let parent = safe.or(places.first()).cloned().unwrap_or_else(std::env::temp_dir);
        SWEPT.call_once(|| own_folder::sweep(&parent));
        Self::create_in(&parent, &contained).map_err(|error| {
            let message = format!(
                "cannot create a temporary folder in {}: {error}; set TMPDIR to a folder that you can write to",
                parent.display()
            );
            refused(message, "mkdir", &error)
        })
    }

    fn create_in(parent: &Path, contained: &ContainedFolders) -> io::Result<Self> {
        let parent = HeldFolder::open(parent, contained)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..8 {
            match parent.make_new(&own_folder::name(&ground::random::name::<3>())) {
                Ok(folder) => return Ok(RunFolder { scratch: folder.make_new(SCRATCH)?, folder }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The folder itself: it holds the files that this process writes for the program.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that the program may write.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Duplicates both descriptors, for use on a thread that may block.
    pub(crate) fn again(&self) -> io::Result<HeldRunFolder> {
        Ok(HeldRunFolder { folder: self.folder.again()?, scratch: self.scratch.again()? })
    }

    pub(crate) async fn remove(self) {
        // Dropping is what removes it.
        let _ = ground::os::blocking(move || drop(self)).await;
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // A process that is still ending may write between the listing and the removal; then another round is needed. The removal
        // follows no links.
        for _ in 0..3 {
            if remove_tree(self.folder.path()).is_ok() {
                return;
            }
        }
    }
}

/// Descriptors of a run's folder; dropping them does not remove the folder.
pub(crate) struct HeldRunFolder {
    folder: HeldFolder,
    scratch: HeldFolder,
}

impl HeldRunFolder {
    /// Writes a file for the program, in place of any entry with this name.
    pub(crate) fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let name = path.strip_prefix(self.folder.path()).ok().and_then(Path::to_str);
        let name = name.ok_or_else(|| io::Error::other("it is not in the run's own folder"))?;
        self.folder.put(name, text.as_bytes())
    }

    /// The text that the program wrote into this file, if it is a regular UTF-8 file of at most `most` bytes.
    pub(crate) fn read(&self, name: &str, most: u64) -> Option<String> {
        String::from_utf8(self.scratch.read(name, most).ok()?).ok()
    }

    /// Removes the entry with this name from the program's part.
    pub(crate) fn clear(&self, name: &str) {
        let _ = self.scratch.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_goes_with_all_that_is_in_it() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&[parent.path().to_owned()], &[]).unwrap();
        std::fs::create_dir(folder.path().join("litter")).unwrap();
        std::fs::write(folder.path().join("litter/file"), "x").unwrap();
        let path = folder.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn it_is_made_where_the_program_cannot_write() {
        let places: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
        let places: Vec<PathBuf> = places.iter().map(|place| place.path().canonicalize().unwrap()).collect();
        let made_in = |contained: &[PathBuf]| {
            let folder = RunFolder::create(&places, contained).unwrap();
            folder.path().parent().unwrap().to_owned()
        };
        assert_eq!(made_in(&[]), places[0]);
        assert_eq!(made_in(&places[..1]), places[1]);
        assert_eq!(made_in(&[places[0].parent().unwrap().to_owned()]), places[0], "there is no other");
    }

    #[test]
    fn what_is_written_for_a_program_goes_through_no_link() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("target");
        std::fs::write(&target, "mine").unwrap();
        let folder = RunFolder::create(&[parent.path().to_owned()], &[]).unwrap();
        let held = folder.again().unwrap();
        for (place, name) in [
            (folder.path(), "policy.toml"),
            (folder.path(), ".policy.toml"),
            (folder.scratch(), "answer.json"),
        ] {
            std::os::unix::fs::symlink(&target, place.join(name)).unwrap();
        }
        held.write(&folder.path().join("policy.toml"), "rules").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("policy.toml")).unwrap(), "rules");
        assert_eq!(held.read("answer.json", 100), None, "what a link leads to is nobody's answer");
        held.clear("answer.json");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        std::fs::write(folder.scratch().join("answer.json"), "{}").unwrap();
        assert_eq!(held.read("answer.json", 100).as_deref(), Some("{}"));
        assert_eq!(held.read("answer.json", 1), None);
        held.write(&target, "outside").unwrap_err();
    }
}
