//! Files, folders and links, with their permissions.

use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Reads some bytes from this offset.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Modification time and time of the last change to the metadata, in nanoseconds since the epoch, and the inode.
pub(crate) fn change_of(facts: &Metadata) -> (i128, i128, u64) {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    (nanos(facts.mtime(), facts.mtime_nsec()), nanos(facts.ctime(), facts.ctime_nsec()), facts.ino())
}

/// The path with these bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Options to open a file. A file that is created has permissions for its owner only.
pub fn private_files() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes folders with permissions for their owner only.
pub fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Gives the file these permission bits of Unix.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// The path without links, as programs take it. Blocks.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// The place of an existing file, by a descriptor of it. Folders and descriptors of a process (`/proc/self/cwd`) are not
/// followed: another process has others.
#[cfg(target_os = "linux")]
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    use nix::errno::Errno;
    use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
    use std::os::fd::AsRawFd;
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(file) => std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())),
        // A kernel before 5.6, or a filter of system calls.
        Err(Errno::ENOSYS | Errno::EPERM) => path.canonicalize(),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use real_path as resolved;

/// Creates a symbolic link.
pub fn link(target: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

/// Asks whether this user may execute a file, or enter a folder.
///
/// # Errors
/// The system's, when the user may not.
pub fn may_execute(path: &Path) -> io::Result<()> {
    Ok(access(path, AccessFlags::X_OK)?)
}

/// Whether this user may create files in the folder. Asks the system by creating a file without a name, which no other process can
/// see.
#[cfg(target_os = "linux")]
pub fn can_write(folder: &Path) -> bool {
    let unnamed = nix::fcntl::OFlag::O_TMPFILE.bits();
    match OpenOptions::new().write(true).custom_flags(unnamed).open(folder) {
        Ok(_) => true,
        // A file system that can't do this tells nothing.
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn can_write(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| !facts.permissions().readonly())
}

/// This process's stdin. A socket can't be opened by its path, and Node's pipes are sockets.
pub fn own_input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}
