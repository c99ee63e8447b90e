//! Folders by their paths. There is no sandbox on Windows, so no program is held in a folder in which it could replace what is opened
//! here: a link is refused where it is seen, and no handle keeps the folders above.

use super::super::entry_kind::EntryKind;
use super::super::file_fault::{fault, no_regular_file};
use super::super::missing::Missing;
use super::file::link;
use super::regular_file::NO_LINK;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, GetFileInformationByHandle,
};

/// A file, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    volume: u32,
    index: u64,
}

impl FileIdentity {
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        let mut facts = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the handle and the structure live for the call.
        if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut facts) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let index = u64::from(facts.nFileIndexHigh) << 32 | u64::from(facts.nFileIndexLow);
        Ok(FileIdentity { volume: facts.dwVolumeSerialNumber, index })
    }

    pub fn at(path: &Path) -> io::Result<FileIdentity> {
        // A folder is opened with this flag only.
        let file = OpenOptions::new().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
        Self::of(&file)
    }
}

/// Folders that a contained program can write to.
#[derive(Clone, Debug, Default)]
pub struct ContainedFolders(Vec<FileIdentity>);

impl ContainedFolders {
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> ContainedFolders {
        ContainedFolders(paths.into_iter().filter_map(|path| FileIdentity::at(path).ok()).collect())
    }

    /// Whether the path is one of them, or below one.
    pub fn hold(&self, path: &Path) -> bool {
        !self.0.is_empty()
            && path
                .ancestors()
                .any(|above| FileIdentity::at(above).is_ok_and(|found| self.0.contains(&found)))
    }
}

/// Opens a file for appending; creates it when it is missing.
pub fn open_output(path: &Path, _: &ContainedFolders) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Opens a file for reading.
pub fn open_input(path: &Path, _: &ContainedFolders) -> io::Result<File> {
    File::open(path)
}

/// The real path of a new entry, if it is in a contained folder.
pub fn place_below(path: &Path, contained: &ContainedFolders) -> io::Result<Option<PathBuf>> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(place_of_folder(parent, contained)?.map(|folder| folder.join(name))),
        _ => place_of_folder(path, contained),
    }
}

/// The real path of a folder, if it is a contained one.
pub fn place_of_folder(path: &Path, contained: &ContainedFolders) -> io::Result<Option<PathBuf>> {
    let real = path.canonicalize()?;
    Ok(contained.hold(&real).then_some(real))
}

/// A folder.
#[derive(Debug)]
pub struct HeldFolder {
    path: PathBuf,
}

impl HeldFolder {
    /// The folder of this path, which must exist.
    pub fn open(path: &Path, _: &ContainedFolders) -> io::Result<HeldFolder> {
        let path = std::path::absolute(path)?;
        if !std::fs::metadata(&path)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(HeldFolder { path })
    }

    /// The folder of this path; it and those above it are made when they are missing.
    pub fn make(path: &Path, contained: &ContainedFolders) -> io::Result<HeldFolder> {
        std::fs::create_dir_all(path)?;
        HeldFolder::open(path, contained)
    }

    /// Makes a folder. Fails when the name exists, whatever it names.
    pub fn make_new(&self, name: &str) -> io::Result<HeldFolder> {
        let path = self.path.join(name);
        std::fs::create_dir(&path)?;
        Ok(HeldFolder { path })
    }

    /// Opens a folder in this one. A link is not followed.
    pub(crate) fn step_strictly(&self, name: &OsStr, missing: Missing) -> io::Result<HeldFolder> {
        let path = self.path.join(name);
        if missing == Missing::IsMade {
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let facts = std::fs::symlink_metadata(&path)?;
        if facts.is_symlink() {
            return Err(fault(&path, "is a symbolic link"));
        }
        if !facts.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(HeldFolder { path })
    }

    /// The same folder once more.
    pub fn again(&self) -> io::Result<HeldFolder> {
        Ok(HeldFolder { path: self.path.clone() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder below this user's profile is this user's.
    pub fn is_owned_by(&self, _: u32) -> bool {
        true
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<(File, Metadata)> {
        self.opened(name.as_ref(), OpenOptions::new().read(true))
    }

    /// Creates a file. Fails when the name exists, whatever it names.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.opened(name.as_ref(), OpenOptions::new().append(true).create_new(true)).map(|(file, _)| file)
    }

    /// Opens a file that was created here earlier, for appending.
    pub(crate) fn append_to(&self, name: &str, identity: FileIdentity) -> io::Result<File> {
        let (file, _) = self.opened(OsStr::new(name), OpenOptions::new().append(true))?;
        if FileIdentity::of(&file)? == identity {
            return Ok(file);
        }
        Err(fault(&self.path.join(name), "was replaced by another file"))
    }

    fn opened(&self, name: &OsStr, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
        let file = options.custom_flags(NO_LINK).open(self.path.join(name))?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(no_regular_file());
        }
        Ok((file, facts))
    }

    /// Renames an entry; one that has the new name is replaced.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Removes a file or a link. Succeeds when there is none.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name.as_ref())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the entry of this name; a folder is removed with all its content. No link is followed. Blocks.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        match self.kind_of(name) {
            Some(EntryKind::Folder) => std::fs::remove_dir_all(self.path.join(name)),
            _ => self.remove(name),
        }
    }

    /// An entry's own attributes decide what may be done with it, not those of its folder.
    pub fn open_up(&self, _: impl AsRef<OsStr>) {}

    /// Creates a link of this name. Fails when the name exists.
    pub fn make_link(&self, name: &str, target: &OsStr) -> io::Result<()> {
        link(Path::new(target), &self.path.join(name))
    }

    /// The entries of this folder: their names, and for each whether it is a folder, a regular file, or something else.
    pub fn entries(&self) -> io::Result<Vec<(String, EntryKind)>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            // Names that are not UTF-16 as it should be are skipped: the callers look for names that are.
            if let Ok(name) = entry.file_name().into_string()
                && let Ok(facts) = entry.metadata()
            {
                names.push((name, kind_of(&facts)));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The kind of the entry with this name. A link is not followed.
    pub fn kind_of(&self, name: impl AsRef<OsStr>) -> Option<EntryKind> {
        Some(kind_of(&self.facts_of(name.as_ref())?))
    }

    /// The permission bits that the entry would have on Unix, as far as its attributes tell.
    pub fn mode_of(&self, name: &str) -> Option<u32> {
        let is_fixed = self.facts_of(OsStr::new(name))?.permissions().readonly();
        Some(if is_fixed { 0o400 } else { 0o600 })
    }

    /// Numbers that change whenever the file does, unless its owner sets its time back.
    pub fn stamp_of(&self, name: &str) -> Option<impl std::hash::Hash> {
        let facts = self.facts_of(OsStr::new(name))?;
        Some((facts.file_size(), facts.last_write_time(), facts.creation_time()))
    }

    /// The target of a link.
    pub fn link_of(&self, name: &str) -> Option<OsString> {
        std::fs::read_link(self.path.join(name)).ok().map(PathBuf::into_os_string)
    }

    fn facts_of(&self, name: &OsStr) -> Option<Metadata> {
        std::fs::symlink_metadata(self.path.join(name)).ok()
    }
}

fn kind_of(facts: &Metadata) -> EntryKind {
    if facts.is_symlink() {
        EntryKind::Link
    } else if facts.is_dir() {
        EntryKind::Folder
    } else if facts.is_file() {
        EntryKind::File { bytes: facts.len() }
    } else {
        EntryKind::Other
    }
}
