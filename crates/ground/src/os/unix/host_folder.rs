//! The working folder of this process, held by a descriptor.
//!
//! The name of a folder can lead elsewhere, or nowhere, by the time it is used: the folder was renamed, deleted or replaced, lies
//! deeper than a path can say, has bytes that are no text, or is below a folder that this user may not pass. And JavaScript may
//! change the working folder of the process at any moment. So relative paths of a call begin in the folder itself.

use crate::lock::lock;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FileStat, Mode, fstat, stat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

#[cfg(target_os = "linux")]
const WAY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
#[cfg(not(target_os = "linux"))]
const WAY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// The working folder of this process at the time of a call. Nothing is held where the system refuses it (a folder that this user
/// may not search), and by default: then it is the folder at the time of the use.
#[derive(Clone, Debug, Default)]
pub struct HostFolder(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    descriptor: OwnedFd,
    identity: Identity,
}

type Identity = (u64, u64);

/// The folder that is held at present: calls from the same folder share its descriptor, however many wait for their start.
static PRESENT: Mutex<Weak<Held>> = Mutex::new(Weak::new());

fn identity_of(facts: &FileStat) -> Identity {
    #[cfg_attr(
        target_os = "linux",
        expect(clippy::unnecessary_cast, reason = "other systems have other types")
    )]
    (facts.st_dev as u64, facts.st_ino as u64)
}

fn present() -> Option<Identity> {
    stat(".").ok().map(|facts| identity_of(&facts))
}

impl HostFolder {
    /// Two system calls at most, which do not wait for a disk.
    pub fn now() -> HostFolder {
        let mut known = lock(&PRESENT);
        let identity = present();
        if let Some(held) = known.upgrade().filter(|held| Some(held.identity) == identity) {
            return HostFolder(Some(held));
        }
        let folder = HostFolder::at(Path::new("."));
        *known = folder.0.as_ref().map(Arc::downgrade).unwrap_or_default();
        folder
    }

    /// This folder in the place of the working folder.
    pub fn at(path: &Path) -> HostFolder {
        let held = open(path, WAY, Mode::empty()).ok().and_then(|descriptor| {
            let identity = identity_of(&fstat(&descriptor).ok()?);
            Some(Arc::new(Held { descriptor, identity }))
        });
        HostFolder(held)
    }

    /// The folder of a descriptor of this process, which the caller holds open: by that name another process reaches another one, or
    /// none. `None` for any other path.
    pub fn of_descriptor(path: &Path) -> Option<HostFolder> {
        let is_descriptor =
            ["/proc/self/fd", "/dev/fd"].iter().any(|place| path.parent() == Some(Path::new(place)));
        is_descriptor.then(|| HostFolder::at(path)).filter(|folder| folder.0.is_some())
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|held| held.descriptor.as_fd())
    }

    /// Whether it is still the working folder of this process.
    pub fn is_present(&self) -> bool {
        self.0.as_ref().is_none_or(|held| present() == Some(held.identity))
    }

    /// A path by which this process, and a child of it before it executes a program, reaches what is relative to the folder.
    pub fn reach(&self, path: &Path) -> PathBuf {
        match &self.0 {
            Some(held) if path.is_relative() => {
                own_way(held).map_or_else(|| path.to_owned(), |way| way.join(path))
            }
            _ => path.to_owned(),
        }
    }

    /// The path to execute for a path that is relative to its own working folder.
    pub fn executed(path: PathBuf) -> PathBuf {
        path
    }

    /// The name that leads to the folder now, for messages, records and searches. Fails when it has none.
    ///
    /// # Errors
    /// The system's, for a folder that was deleted, or that this user does not reach by its name.
    pub fn name(&self) -> io::Result<PathBuf> {
        let name = match &self.0 {
            Some(held) if !self.is_present() => {
                std::fs::read_link(own_way(held).ok_or(io::ErrorKind::NotFound)?)?
            }
            _ => std::env::current_dir()?,
        };
        let facts = stat(&name)?;
        match &self.0 {
            Some(held) if held.identity != identity_of(&facts) => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(name),
        }
    }

    /// The path as people know it: absolute where the folder has a name.
    pub fn named(&self, path: &Path) -> PathBuf {
        if path.is_absolute() {
            return path.to_owned();
        }
        self.name().map_or_else(|_| path.to_owned(), |name| name.join(path).components().collect())
    }
}

/// The folder by its descriptor: no name of it is looked up, and no folder above it is passed. `None` where the system has no such
/// paths.
fn own_way(held: &Held) -> Option<PathBuf> {
    let way = Path::new("/proc/self/fd").join(held.descriptor.as_raw_fd().to_string());
    stat(&way).is_ok_and(|facts| identity_of(&facts) == held.identity).then_some(way)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_stays_the_same_folder_whatever_becomes_of_its_name() {
        let top = tempfile::tempdir().expect("a folder");
        let (old, new) = (top.path().join("old"), top.path().join("new"));
        fs::create_dir(&old).expect("a folder");
        fs::write(old.join("file"), "own").expect("a file");
        let folder = HostFolder::at(&old);
        let read = || fs::read_to_string(folder.reach(Path::new("file"))).ok();
        assert_eq!((folder.name().ok().as_deref(), read().as_deref()), (Some(old.as_path()), Some("own")));
        fs::rename(&old, &new).expect("another name");
        fs::create_dir(&old).expect("another folder");
        fs::write(old.join("file"), "other").expect("a file");
        assert_eq!((folder.name().ok().as_deref(), read().as_deref()), (Some(new.as_path()), Some("own")));
        assert_eq!(folder.named(Path::new("a/./b")), new.join("a/b"));
        fs::remove_dir_all(&new).expect("removed");
        assert_eq!((folder.name().ok(), read()), (None, None));
        assert_eq!(folder.named(Path::new("a")), Path::new("a"));
    }

    #[test]
    fn calls_from_one_folder_share_a_descriptor() {
        let (one, other) = (HostFolder::now(), HostFolder::now());
        let number = |folder: &HostFolder| folder.descriptor().map(|folder| folder.as_raw_fd());
        assert_eq!(number(&one), number(&other));
        assert!(one.is_present());
        assert_eq!(one.reach(Path::new("/x")), Path::new("/x"));
    }
}
