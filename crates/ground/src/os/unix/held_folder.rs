//! Folders that a contained program can write to, and the files in them that this process opens.
//!
//! This process is not in the sandbox, so it opens every file with all of the user's rights. A program in a sandbox may put a
//! link, a FIFO or another folder wherever it may write, at any moment. So all access to such files goes through this module:
//!
//! - A folder is opened once ([`HeldFolder`]) and from then on reached through its descriptor, never by its path again.
//! - Below a folder that a contained program can write to ([`ContainedFolders`]), no link is followed, neither on the way nor at
//!   its end.
//! - Only regular files are opened, and opening one never waits (`O_NONBLOCK`: a FIFO may have no reader).
//! - A new file is created with `O_EXCL`. A file that is opened again has to be the one that was created ([`FileIdentity`]).
//!
//! `tests/layers` keeps `std::fs` out of the modules that touch such folders.

use super::super::entry_kind::EntryKind;
use super::super::file_fault::{fault, no_regular_file};
use super::super::missing::Missing;
use super::regular_file::open_flags;
use super::removal;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Flags for a descriptor that serves only to reach the files below it. Systems without such descriptors use a readable one.
#[cfg(target_os = "linux")]
const WAY: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const WAY: OFlag = OFlag::O_RDONLY;

/// Flags for a folder whose entries are listed.
const LISTED: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// Identifies a file independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        Ok(Self::by(&file.metadata()?))
    }

    /// The file that this path leads to.
    pub fn at(path: &Path) -> io::Result<FileIdentity> {
        Ok(Self::by(&std::fs::metadata(path)?))
    }

    fn by(facts: &Metadata) -> FileIdentity {
        FileIdentity { device: facts.dev(), inode: facts.ino() }
    }

    #[cfg_attr(target_os = "linux", expect(clippy::unnecessary_cast, reason = "macOS has other types"))]
    fn by_stat(facts: &FileStat) -> FileIdentity {
        FileIdentity { device: facts.st_dev as u64, inode: facts.st_ino as u64 }
    }
}

/// The folders that a contained program can write to, by identity: a path may reach one of them in many ways.
#[derive(Clone, Debug, Default)]
pub struct ContainedFolders(HashSet<FileIdentity>);

impl ContainedFolders {
    /// The folders at these paths; missing ones are skipped. Blocks.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> ContainedFolders {
        let facts = paths.into_iter().filter_map(|path| std::fs::metadata(path).ok());
        ContainedFolders(facts.map(|facts| FileIdentity::by(&facts)).collect())
    }

    /// Whether this path leads through or to one of the folders. Blocks.
    pub fn hold(&self, path: &Path) -> bool {
        // A file that does not exist yet will be below an ancestor that does.
        path.ancestors().any(|above| {
            std::fs::metadata(above).is_ok_and(|facts| self.0.contains(&FileIdentity::by(&facts)))
        })
    }
}

/// Opens a file for appending; creates it when it is missing. Where a contained program can write, it has to be a regular file
/// that is reached without links. Elsewhere the user may name any file.
pub fn open_output(path: &Path, contained: &ContainedFolders) -> io::Result<File> {
    match held_by(path, contained)? {
        Some((folder, name)) => folder.append_or_create(name),
        None => std::fs::OpenOptions::new().create(true).append(true).open(path),
    }
}

/// Opens a file for reading, under the same conditions as [`open_output`].
pub fn open_input(path: &Path, contained: &ContainedFolders) -> io::Result<File> {
    match held_by(path, contained)? {
        Some((folder, name)) => folder.open_file(name).map(|(file, _)| file),
        None => File::open(path),
    }
}

/// The real path of a file whose folder a contained program can write to; otherwise `None`. Fails when the path to that folder
/// leads through a link that such a program can have made. The last component itself may be a link. Blocks.
pub fn place_below(path: &Path, contained: &ContainedFolders) -> io::Result<Option<PathBuf>> {
    match held_by(path, contained)? {
        Some((folder, name)) => Ok(Some(folder.real_path()?.join(name))),
        None if path.file_name().is_none() => place_of_folder(path, contained),
        None => Ok(None),
    }
}

/// Does the same as [`place_below`] for a folder, which must not be a link itself.
pub fn place_of_folder(path: &Path, contained: &ContainedFolders) -> io::Result<Option<PathBuf>> {
    let folder = HeldFolder::open(path, contained)?;
    if folder.is_contained { folder.real_path().map(Some) } else { Ok(None) }
}

/// The folder of a path and the name in it, if a contained program can write to that folder.
fn held_by<'a>(path: &'a Path, contained: &ContainedFolders) -> io::Result<Option<(HeldFolder, &'a OsStr)>> {
    let (Some(parent), Some(name), false) = (path.parent(), path.file_name(), contained.0.is_empty()) else {
        return Ok(None);
    };
    let folder = HeldFolder::open(parent, contained)?;
    Ok(folder.is_contained.then_some((folder, name)))
}

/// An open folder. Its files are reached through its descriptor.
#[derive(Debug)]
pub struct HeldFolder {
    directory: OwnedFd,
    /// The path by which it was opened, for messages.
    path: PathBuf,
    is_contained: bool,
}

impl HeldFolder {
    /// Opens a folder.
    pub fn open(path: &Path, contained: &ContainedFolders) -> io::Result<HeldFolder> {
        Self::walk(path, contained, Missing::Fails)
    }

    /// Opens a folder; creates its missing parts.
    pub fn make(path: &Path, contained: &ContainedFolders) -> io::Result<HeldFolder> {
        Self::walk(path, contained, Missing::IsMade)
    }

    fn walk(path: &Path, contained: &ContainedFolders, missing: Missing) -> io::Result<HeldFolder> {
        let path = std::path::absolute(path)?;
        let root = nix::fcntl::open("/", WAY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let held = HeldFolder { directory: root, path: PathBuf::from("/"), is_contained: false };
        path.components().try_fold(held, |held, component| {
            let mut held = match component {
                Component::Normal(name) => held.step(name, missing)?,
                Component::ParentDir if held.is_contained => {
                    return Err(fault(
                        &held.path.join(".."),
                        "leads out of what a program in a sandbox can write",
                    ));
                }
                Component::ParentDir => held.step(OsStr::new(".."), Missing::Fails)?,
                Component::RootDir | Component::CurDir | Component::Prefix(_) => held,
            };
            held.is_contained = held.is_contained || held.is_one_of(contained)?;
            Ok(held)
        })
    }

    fn is_one_of(&self, contained: &ContainedFolders) -> io::Result<bool> {
        Ok(!contained.0.is_empty() && contained.0.contains(&FileIdentity::by_stat(&fstat(&self.directory)?)))
    }

    fn step(&self, name: &OsStr, missing: Missing) -> io::Result<HeldFolder> {
        let follows = if self.is_contained { OFlag::O_NOFOLLOW } else { OFlag::empty() };
        let flags = WAY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | follows;
        let opened = match openat(&self.directory, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) if missing == Missing::IsMade => {
                match mkdirat(&self.directory, name, Mode::S_IRWXU) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&self.directory, name, flags | OFlag::O_NOFOLLOW, Mode::empty())
            }
            opened => opened,
        };
        let directory = opened.map_err(|error| self.said(name, error))?;
        Ok(HeldFolder { directory, path: self.path.join(name), is_contained: self.is_contained })
    }

    /// Creates a folder in this one, with permissions for its owner only. Fails when the name exists.
    pub fn make_new(&self, name: &str) -> io::Result<HeldFolder> {
        mkdirat(&self.directory, name, Mode::S_IRWXU)?;
        self.step_strictly(OsStr::new(name), Missing::Fails)
    }

    /// Opens a folder in this one. A link is not followed.
    pub(crate) fn step_strictly(&self, name: &OsStr, missing: Missing) -> io::Result<HeldFolder> {
        HeldFolder { is_contained: true, ..self.again()? }.step(name, missing)
    }

    /// Another handle of the same folder.
    pub fn again(&self) -> io::Result<HeldFolder> {
        Ok(HeldFolder {
            directory: self.directory.try_clone()?,
            path: self.path.clone(),
            is_contained: self.is_contained,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's current path, without links.
    #[cfg(target_os = "linux")]
    fn real_path(&self) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))
    }

    #[cfg(not(target_os = "linux"))]
    fn real_path(&self) -> io::Result<PathBuf> {
        self.path.canonicalize()
    }

    /// Whether this user owns the folder and no other user has permissions on it.
    pub fn is_owned_by(&self, user: u32) -> bool {
        fstat(&self.directory).is_ok_and(|facts| facts.st_uid == user && facts.st_mode & 0o077 == 0)
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<(File, Metadata)> {
        self.opened(name.as_ref(), OFlag::O_RDONLY)
    }

    /// Creates a file with permissions for its owner only. Fails when the name exists, whatever it names.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.opened(name.as_ref(), OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_EXCL)
            .map(|(file, _)| file)
    }

    /// Opens a file that was created here earlier, for appending.
    pub(crate) fn append_to(&self, name: &str, identity: FileIdentity) -> io::Result<File> {
        let (file, facts) = self.opened(OsStr::new(name), OFlag::O_WRONLY | OFlag::O_APPEND)?;
        if FileIdentity::by(&facts) == identity {
            return Ok(file);
        }
        Err(fault(&self.path.join(name), "was replaced by another file"))
    }

    /// Opens a regular file for appending; creates it when it is missing, with permissions as the umask has them: the file is the
    /// user's.
    pub(crate) fn append_or_create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT;
        self.opened_with(name.as_ref(), flags, Mode::from_bits_retain(0o666)).map(|(file, _)| file)
    }

    fn opened(&self, name: &OsStr, flags: OFlag) -> io::Result<(File, Metadata)> {
        self.opened_with(name, flags, Mode::S_IRUSR | Mode::S_IWUSR)
    }

    /// `mode`: of a file that is created.
    fn opened_with(&self, name: &OsStr, flags: OFlag, mode: Mode) -> io::Result<(File, Metadata)> {
        let opened = openat(&self.directory, name, flags | open_flags(), mode);
        let file = File::from(opened.map_err(|error| self.said(name, error))?);
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(no_regular_file());
        }
        Ok((file, facts))
    }

    /// Renames an entry; one that has the new name is replaced.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.directory, from, &self.directory, to)?)
    }

    /// Removes a file or a link. Succeeds when there is none.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match unlinkat(&self.directory, name.as_ref(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the entry of this name; a folder is removed with all its content, also where its owner may not write. No link is followed.
    /// Blocks.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(removal::remove_all(self.directory.as_fd(), name.as_ref())?)
    }

    /// Gives the owner of a folder in this one all rights to it, if it is one.
    pub fn open_up(&self, name: impl AsRef<OsStr>) {
        removal::open_up(&self.directory, name.as_ref());
    }

    /// Creates a link of this name. Fails when the name exists.
    pub fn make_link(&self, name: &str, target: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.directory, name)?)
    }

    /// The entries of this folder: their names, and for each whether it is a folder, a regular file, or something else.
    pub fn entries(&self) -> io::Result<Vec<(String, EntryKind)>> {
        let directory = openat(&self.directory, ".", LISTED, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(directory)?.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // Names that are not UTF-8 are skipped: the callers look for names that are.
            if let Some(name) = name.to_str().filter(|name| !matches!(*name, "." | ".."))
                && let Ok(facts) = fstatat(self.directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)
            {
                names.push((name.to_owned(), kind_of(&facts)));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The kind of the entry with this name. A link is not followed.
    pub fn kind_of(&self, name: impl AsRef<OsStr>) -> Option<EntryKind> {
        Some(kind_of(&self.facts_of(name.as_ref())?))
    }

    /// The permission bits of the entry with this name.
    #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "macOS has other types"))]
    pub fn mode_of(&self, name: &str) -> Option<u32> {
        Some(u32::from(self.facts_of(OsStr::new(name))?.st_mode & 0o7777))
    }

    /// Numbers that change whenever the file does. They include the change time: a file's owner can set its other times at will.
    pub fn stamp_of(&self, name: &str) -> Option<impl std::hash::Hash> {
        let facts = self.facts_of(OsStr::new(name))?;
        Some((facts.st_ino, facts.st_size, facts.st_ctime, facts.st_ctime_nsec))
    }

    /// The target of a link.
    pub fn link_of(&self, name: &str) -> Option<OsString> {
        readlinkat(&self.directory, name).ok()
    }

    fn facts_of(&self, name: &OsStr) -> Option<FileStat> {
        fstatat(self.directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    fn said(&self, name: &OsStr, error: Errno) -> io::Error {
        // For a link the error is ENOTDIR where a folder is expected, EEXIST where the name must be free, otherwise ELOOP.
        let facts = fstatat(self.directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
        match error {
            Errno::ENOTDIR | Errno::ELOOP | Errno::EEXIST
                if facts.is_ok_and(|facts| kind_of(&facts) == EntryKind::Link) =>
            {
                fault(
                    &self.path.join(name),
                    "is a symbolic link, where a program in a sandbox can make links: name the target of the link",
                )
            }
            // The entry is a socket, or a FIFO without a reader.
            Errno::ENXIO => no_regular_file(),
            _ => error.into(),
        }
    }
}

fn kind_of(facts: &FileStat) -> EntryKind {
    let kind = SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT;
    match kind {
        SFlag::S_IFDIR => EntryKind::Folder,
        SFlag::S_IFREG => EntryKind::File { bytes: u64::try_from(facts.st_size).unwrap_or(0) },
        SFlag::S_IFLNK => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    struct Ground {
        _folder: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
    }

    fn ground() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| top.join(name));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "content").unwrap();
        Ground { _folder: folder, inside, outside }
    }

    fn contained(ground: &Ground) -> ContainedFolders {
        ContainedFolders::of([ground.inside.as_path()])
    }

    #[test]
    fn no_link_below_a_contained_folder_is_followed_and_others_are() {
        let ground = ground();
        symlink(&ground.outside, ground.inside.join("link")).unwrap();
        symlink(&ground.inside, ground.outside.join("way")).unwrap();
        let contained = contained(&ground);
        for (path, is_followed) in [
            ("inside/link", false),
            ("inside/link/new", false),
            ("outside/way", true),
            ("outside/way/link", false),
            ("outside/way/new/deep", true),
            ("inside/../outside", false),
            ("outside/../inside", true),
        ] {
            let path = ground.inside.parent().unwrap().join(path);
            let made = HeldFolder::make(&path, &contained);
            assert_eq!(made.is_ok(), is_followed, "{}: {made:?}", path.display());
        }
        let error = HeldFolder::open(&ground.inside.join("link"), &contained).unwrap_err().to_string();
        assert!(error.contains("inside/link is a symbolic link"), "{error}");
        assert!(!ground.outside.join("new").exists());
        assert!(ground.inside.join("new/deep").is_dir());
        assert!(contained.hold(&ground.outside.join("way/any/where")) && !contained.hold(&ground.outside));
    }

    #[test]
    fn a_held_folder_is_the_same_wherever_its_name_leads() {
        let ground = ground();
        let held = HeldFolder::make(&ground.inside.join("a/b"), &contained(&ground)).unwrap();
        fs::rename(ground.inside.join("a"), ground.inside.join("moved")).unwrap();
        symlink(&ground.outside, ground.inside.join("a")).unwrap();
        held.put("name", b"text").unwrap();
        held.make_below(Path::new("c/d")).unwrap().create("deep").unwrap();
        assert_eq!(fs::read(ground.inside.join("moved/b/name")).unwrap(), b"text");
        assert!(ground.inside.join("moved/b/c/d/deep").exists());
        assert_eq!(fs::read_dir(&ground.outside).unwrap().count(), 1);
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let ground = ground();
        let held = HeldFolder::open(&ground.inside, &ContainedFolders::default()).unwrap();
        symlink(ground.outside.join("file"), ground.inside.join("link")).unwrap();
        symlink(ground.outside.join("new"), ground.inside.join("nowhere")).unwrap();
        fs::create_dir(ground.inside.join("folder")).unwrap();
        let fifo = ground.inside.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let made = held.create("file").unwrap();
        let identity = FileIdentity::of(&made).unwrap();
        for wrong in ["link", "nowhere", "folder", "fifo"] {
            held.open_file(wrong).expect_err(wrong);
            held.create(wrong).expect_err(wrong);
            held.append_or_create(wrong).expect_err(wrong);
            held.append_to(wrong, identity).expect_err(wrong);
        }
        held.append_to("file", identity).unwrap().write_all(b"12345").unwrap();
        assert_eq!(held.read("file", 5).unwrap(), b"12345");
        held.read("file", 4).unwrap_err();
        fs::remove_file(ground.inside.join("file")).unwrap();
        fs::write(ground.inside.join("file"), "other").unwrap();
        let error = held.append_to("file", identity).unwrap_err().to_string();
        assert!(error.contains("was replaced"), "{error}");
        assert!(!ground.outside.join("new").exists());
        let entries = held.entries().unwrap();
        let kinds: Vec<_> = entries.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        use EntryKind::{File, Folder, Link, Other};
        let file = ("file", File { bytes: 5 });
        assert_eq!(kinds, [("fifo", Other), file, ("folder", Folder), ("link", Link), ("nowhere", Link)]);
    }

    #[test]
    fn what_is_put_replaces_a_link_and_never_what_it_leads_to() {
        let ground = ground();
        let held = HeldFolder::open(&ground.inside, &ContainedFolders::default()).unwrap();
        let planted = ".name.unfinished";
        for planted in ["name", planted] {
            symlink(ground.outside.join("file"), ground.inside.join(planted)).unwrap();
        }
        held.put("name", b"text").unwrap();
        assert_eq!(fs::read(ground.inside.join("name")).unwrap(), b"text");
        assert_eq!(fs::read(ground.outside.join("file")).unwrap(), b"content");
        assert!(fs::symlink_metadata(ground.inside.join("name")).unwrap().is_file());
        // A folder in its place holds nothing up, and a file of another name stays.
        fs::create_dir_all(ground.inside.join(planted).join("deep")).unwrap();
        fs::write(ground.inside.join(".name"), "another's").unwrap();
        held.put("name", b"other").unwrap();
        assert_eq!(fs::read(ground.inside.join("name")).unwrap(), b"other");
        assert_eq!(fs::read(ground.inside.join(".name")).unwrap(), b"another's");
    }
}
