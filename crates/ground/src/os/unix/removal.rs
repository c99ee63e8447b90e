//! The removal of a folder with all that is in it, however a program left it.
//!
//! A program may have made more levels than a thread has stack, or this process descriptors, and closed folders to their owner. So there
//! is no recursion: two descriptors are open at any time, and the way back up is checked.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NOFOLLOW);

/// Removes the entry of this name. No link is followed. Blocks.
pub(super) fn remove_all(folder: BorrowedFd, name: &OsStr) -> nix::Result<()> {
    if is_removed(folder, name)? {
        return Ok(());
    }
    let mut held = openat(folder, ".", FOLDER, Mode::empty())?;
    let mut name = name.to_owned();
    // The folders above, each with the name that is being emptied in it.
    let mut above: Vec<(FileStat, OsString)> = Vec::new();
    loop {
        open_up(&held, &name);
        let below = openat(&held, name.as_os_str(), FOLDER, Mode::empty())?;
        if let Some(next) = first_left(&below)? {
            above.push((fstat(&held)?, std::mem::replace(&mut name, next)));
            held = below;
            continue;
        }
        unlinkat(&held, name.as_os_str(), UnlinkatFlags::RemoveDir)?;
        let Some((facts, last)) = above.pop() else { return Ok(()) };
        let up = openat(&held, "..", FOLDER, Mode::empty())?;
        let found = fstat(&up)?;
        // It was moved meanwhile, and what is above it by now is another's.
        if (found.st_dev, found.st_ino) != (facts.st_dev, facts.st_ino) {
            return Err(Errno::ESTALE);
        }
        (held, name) = (up, last);
    }
}

/// Removes a file, a link or an empty folder. False: there is something in it.
fn is_removed(folder: impl AsFd, name: &OsStr) -> nix::Result<bool> {
    let removed = match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
        // The second one is that of systems other than Linux.
        Err(Errno::EISDIR | Errno::EPERM) => unlinkat(&folder, name, UnlinkatFlags::RemoveDir),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Removes entries until one is met that has something in it.
fn first_left(folder: &OwnedFd) -> nix::Result<Option<OsString>> {
    for entry in Dir::from_fd(openat(folder, ".", FOLDER, Mode::empty())?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && !is_removed(folder, name)? {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Gives the owner of a folder all rights to it, if some are missing. Where this fails, so does what follows, and says so.
pub(super) fn open_up(folder: impl AsFd, name: &OsStr) {
    let Ok(facts) = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return };
    let (kind, mode) = (facts.st_mode & SFlag::S_IFMT.bits(), Mode::from_bits_truncate(facts.st_mode));
    if kind == SFlag::S_IFDIR.bits() && !mode.contains(Mode::S_IRWXU) {
        let _ = fchmodat(folder, name, mode | Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::remove_tree;
    use nix::sys::stat::mkdirat;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// More levels than a thread of this size could visit by recursion.
    const LEVELS: usize = 1000;

    fn make_deep(top: &Path) {
        let mut held = nix::fcntl::open(top, FOLDER, Mode::empty()).unwrap();
        for _ in 0..LEVELS {
            mkdirat(&held, "deep", Mode::S_IRWXU).unwrap();
            held = openat(&held, "deep", FOLDER, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn whatever_a_program_left_is_removed_and_nothing_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (top, kept) = (folder.path().join("top"), folder.path().join("kept"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        for place in ["link", "a/link", "a/b/link"] {
            symlink(&kept, top.join(place)).unwrap();
        }
        // More entries than the kernel lists at once.
        for number in 0..2000 {
            fs::write(top.join(format!("a/{number}")), "").unwrap();
        }
        for name in [&b"\xff"[..], b"line\nfeed"] {
            let name = top.join("a").join(OsStr::from_bytes(name));
            fs::create_dir(&name).unwrap();
            fs::write(name.join("file"), "").unwrap();
        }
        make_deep(&top);
        let remove = || remove_tree(&folder.path().join("top"));
        std::thread::scope(|scope| {
            let small = std::thread::Builder::new().stack_size(16 * 1024);
            small.spawn_scoped(scope, remove).unwrap().join().unwrap().unwrap();
        });
        assert!(!top.exists() && kept.join("file").exists());
        // A file, a link, and nothing.
        symlink(&kept, &top).unwrap();
        remove_tree(&top).unwrap();
        remove_tree(&top).unwrap();
        remove_tree(&top.join("below/nothing")).unwrap();
        assert!(kept.join("file").exists());
    }

    #[test]
    fn folders_that_are_closed_to_their_owner_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        // As an ordinary user, who is this thread alone.
        std::thread::scope(|scope| {
            let ordinary = scope.spawn(|| {
                if nix::unistd::geteuid().is_root() {
                    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
                    nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
                }
                fs::create_dir_all(top.join("a/b")).unwrap();
                fs::write(top.join("a/b/file"), "").unwrap();
                for (place, mode) in [("a/b", 0o000), ("a", 0o311), ("", 0o500)] {
                    fs::set_permissions(top.join(place), Permissions::from_mode(mode)).unwrap();
                }
                fs::remove_dir_all(&top).unwrap_err();
                remove_tree(&top)
            });
            ordinary.join().unwrap().unwrap();
        });
        assert!(!top.exists());
    }
}
