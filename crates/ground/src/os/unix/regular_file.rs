//! Opens a file that another program may have placed. Opening never waits and never follows a link, and reading is bounded.

use super::super::file_fault::{is_a_link, is_below_a_link, no_regular_file};
use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Flags that never open a link, never acquire a controlling terminal and never wait, as opening a FIFO would. `O_NONBLOCK` has
/// no effect on regular files.
pub(super) fn open_flags() -> OFlag {
    OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

/// Opens a regular file for reading. Fails at once for a FIFO, a device, a directory or a symlink.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let opened = OpenOptions::new().read(true).custom_flags(open_flags().bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ELOOP) => is_a_link(),
        // The path names a socket or a FIFO-like file, which can't be read.
        Some(nix::libc::ENXIO) => no_regular_file(),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(no_regular_file());
    }
    Ok((file, metadata))
}

/// Does the same as [`open_regular`], and fails when a symlink has replaced a directory above the file.
pub fn open_in_place(path: &Path) -> io::Result<(File, Metadata)> {
    let (file, metadata) = open_regular(path)?;
    if metadata.nlink() == 0 {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    if !is_at(&file, path)? {
        return Err(is_below_a_link());
    }
    Ok((file, metadata))
}

/// Whether the open file's real path is this path, whatever the path leads to by now.
#[cfg(target_os = "linux")]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    Ok(std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))? == path)
}

#[cfg(not(target_os = "linux"))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    Ok(path.canonicalize()? == path)
}

#[cfg(test)]
mod tests {
    use super::super::super::whole_file::read_short_text;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        symlink(at("directory"), at("way")).unwrap();
        std::fs::write(at("directory/below"), "x").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        assert_eq!(read_short_text(&at("file"), 4).unwrap(), "text");
        for wrong in ["link", "directory", "fifo", "absent"] {
            open_regular(&at(wrong)).expect_err(wrong);
        }
        open_regular(Path::new("/dev/zero")).unwrap_err();
        open_in_place(&at("directory/below")).unwrap();
        open_in_place(&at("way/below")).unwrap_err();
        read_short_text(&at("file"), 3).unwrap_err();
        let sparse = File::create(at("sparse")).unwrap();
        sparse.set_len(20 << 30).unwrap();
        read_short_text(&at("sparse"), 1 << 20).unwrap_err();
    }
}
