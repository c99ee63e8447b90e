//! Files that a sandboxed program may write and that run later, outside of the sandbox: git hooks, settings of editors and
//! agents, scripts of a package. They are examined before the start and after the end. Differences are reported, and undone on
//! request.
//!
//! The folders are held open from before the start (`os::HeldFolder`), so that the program can't swap them, and nothing is
//! written through a link. Contents are compared by a keyed hash, because the owner of a file can set its times. Files beyond
//! the limits are reported as changed, because they were not examined.

mod git_folders;

use super::sandbox::{Protect, contained_folders};
use super::spec::ProcessSpec;
use git_folders::{GitFolders, ITSELF};
use ground::error::Error;
use ground::os::{ContainedFolders, EntryKind, HeldFolder};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Most files below one name that is a folder; a folder with more is reported as changed.
const MAX_FILES: usize = 2000;
const MAX_DEPTH: usize = 8;
/// Largest file whose content is compared; of a larger one the metadata is compared. A file to be restored may not be larger.
const MAX_BYTES: u64 = 8 << 20;
/// Most bytes read for one folder of `write`; beyond it, metadata is compared.
const MAX_BYTES_OF_ALL: u64 = 64 << 20;
/// Most bytes kept in memory to restore files.
const MAX_KEPT_BYTES: u64 = 16 << 20;
/// Most changed files that are named.
const MAX_CHANGED: usize = 100;
/// The file of which only the member `scripts` is compared.
const PACKAGE: &str = "package.json";
const PACKAGE_SCRIPTS: &str = "package.json scripts";

/// The protected files as they were before the start.
pub(super) struct Protected {
    protect: Protect,
    hasher: RandomState,
    folders: Vec<(HeldFolder, GitFolders, Prints)>,
}

/// Files that were made, changed or removed since the start.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub changed: Vec<String>,
    pub restored: Vec<String>,
}

/// The protected files in one folder, by their paths below it.
#[derive(Default)]
struct Prints {
    entries: BTreeMap<PathBuf, Entry>,
    /// Names with more files than the limit, or with closed folders.
    cut: BTreeSet<PathBuf>,
    read_bytes: u64,
    kept_bytes: u64,
}

struct Entry {
    print: u64,
    /// The content to restore; `None` if it can't be restored.
    kept: Option<Kept>,
}

/// Content to restore.
enum Kept {
    File { bytes: Vec<u8>, mode: u32 },
    Link(OsString),
}

impl Protected {
    /// `None` if there is nothing to protect. Blocks.
    ///
    /// # Errors
    /// `INVALID_OPTION` if the files to restore exceed the limits.
    pub(super) fn before(spec: &ProcessSpec) -> Result<Option<Protected>, Error> {
        let Some(sandbox) = spec.sandbox.as_ref() else { return Ok(None) };
        let protect = sandbox.protect.clone();
        let protect = protect.unwrap_or_else(|| Protect { told: Protect::names(), ..Protect::default() });
        let cwd = spec.named_cwd().unwrap_or_else(|| ".".into());
        let listed = contained_folders(spec.named_cwd().as_deref(), spec.sandbox.as_ref());
        let contained = ContainedFolders::of(listed.iter().map(PathBuf::as_path));
        let hasher = RandomState::new();
        let mut folders = Vec::new();
        for path in &sandbox.write {
            // The start refuses a folder that can't be opened by now.
            let Ok(folder) = HeldFolder::open(&cwd.join(path), &contained) else { continue };
            let git = GitFolders::of(&folder, &contained);
            let names = git.names(&protect);
            let prints = Prints::of(&folder, &names, &hasher);
            if let Some(path) = prints.first_unkept(&names, &git.cut) {
                let problem = format!(
                    "{} can't be kept to be put back after the run (at most {} MB in all, {MAX_FILES} files of a name): use \"report\", or list other `names`",
                    folder.path().join(path).display(),
                    MAX_KEPT_BYTES >> 20
                );
                return Err(Error::invalid_option("sandbox.protect", problem));
            }
            folders.push((folder, git, prints));
        }
        Ok(Some(Protected { protect, hasher, folders }))
    }

    /// Compares, and puts back what is to be. Blocks.
    pub(super) fn after(&self) -> Changes {
        let (mut changed, mut restored) = (BTreeSet::new(), BTreeSet::new());
        for (folder, git, before) in &self.folders {
            let mut git = git.clone();
            git.add_submodules(folder);
            let protect = &git.names(&self.protect);
            open_ways(folder, protect);
            let after = Prints::of(folder, protect, &self.hasher);
            let place = |path: &PathBuf| folder.path().join(path);
            // All of what nobody could look at goes, and what was there before is put back.
            let is_whole = |path: &&PathBuf| restored_by(protect, path).any(|name| path.starts_with(name));
            let gone: Vec<&PathBuf> = after.cut.iter().filter(is_whole).collect();
            let gone: Vec<&PathBuf> =
                gone.into_iter().filter(|path| restore(folder, path, None).is_ok()).collect();
            restored.extend(gone.iter().copied().map(place));
            let paths: BTreeSet<&PathBuf> = before.entries.keys().chain(after.entries.keys()).collect();
            let print = |prints: &Prints, path| prints.entries.get(path).map(|entry| entry.print);
            for path in paths {
                let is_changed = print(before, path) != print(&after, path);
                let is_gone = gone.iter().any(|whole| path.starts_with(whole));
                let is_restored = (is_changed || is_gone)
                    && restored_by(protect, path).next().is_some()
                    && restore(folder, path, before.entries.get(path)).is_ok();
                if is_changed {
                    changed.insert(place(path));
                    restored.extend(is_restored.then(|| place(path)));
                }
            }
            changed.extend(before.cut.union(&after.cut).chain(&git.cut).map(place));
        }
        let told = |paths: BTreeSet<PathBuf>| {
            let paths = paths.into_iter().take(MAX_CHANGED);
            paths.map(|path| path.to_string_lossy().into_owned()).collect()
        };
        Changes { changed: told(changed), restored: told(restored) }
    }
}

/// The names to put back that this lies below, or stands on the way to.
fn restored_by<'a>(protect: &'a Protect, path: &'a Path) -> impl Iterator<Item = &'a Path> {
    let names = protect.restored.iter().map(|name| path_of(name));
    names.filter(move |name| path.starts_with(name) || name.starts_with(path))
}

/// Opens the folders on the way to what is to be put back, which the program may have closed to their owner.
fn open_ways(folder: &HeldFolder, protect: &Protect) {
    for name in &protect.restored {
        let way = path_of(name).parent().unwrap_or(Path::new(""));
        let _ = way.components().try_fold(folder.again(), |held, part| {
            let held = held.ok()?;
            held.open_up(part.as_os_str());
            Some(held.open_below(Path::new(part.as_os_str())))
        });
    }
}

/// Path of a protected name, below the folder.
fn path_of(name: &str) -> &Path {
    Path::new(match name {
        PACKAGE_SCRIPTS => PACKAGE,
        // Everything lies below it.
        ITSELF => "",
        name => name,
    })
}

impl Prints {
    fn of(folder: &HeldFolder, protect: &Protect, hasher: &RandomState) -> Prints {
        let mut prints = Prints::default();
        let told = protect.told.iter().map(|name| (name, false));
        // The names to restore come last, so that the content of a name in both lists is kept.
        for (name, keeps) in told.chain(protect.restored.iter().map(|name| (name, true))) {
            prints.add_name(folder, name, keeps, hasher);
        }
        prints
    }

    fn add_name(&mut self, folder: &HeldFolder, name: &str, keeps: bool, hasher: &RandomState) {
        if name == ITSELF {
            for (name, _) in folder.entries().unwrap_or_default() {
                self.add_name(folder, &name, keeps, hasher);
            }
            return;
        }
        let path = path_of(name);
        let (Some(parent), Some(last)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
            return;
        };
        let is_package = name == PACKAGE_SCRIPTS;
        let mut walk = Walk { hasher, is_package, keeps, name: path, prints: self, left: MAX_FILES };
        match folder.open_below(parent) {
            // Its owner closed it, and may open it again.
            Ok(parent) if parent.kind_of(".").is_none() => walk.cut(),
            Ok(parent) => walk.add(&parent, last, path, MAX_DEPTH),
            // An entry on the way leads elsewhere: a link, or a file ".git" that names another folder.
            Err(_) => walk.add_first_that_is_no_folder(folder, parent),
        }
    }

    /// The first path that is to be restored and can't be. `cut`: folders of submodules that nobody could look at.
    fn first_unkept<'a>(&'a self, protect: &Protect, cut: &'a BTreeSet<PathBuf>) -> Option<&'a Path> {
        let lost = self.entries.iter().filter(|(_, entry)| entry.kept.is_none()).map(|(path, _)| path);
        let mut lost = lost.chain(&self.cut).chain(cut).map(PathBuf::as_path);
        lost.find(|path| restored_by(protect, path).next().is_some())
    }
}

struct Walk<'a> {
    hasher: &'a RandomState,
    is_package: bool,
    keeps: bool,
    name: &'a Path,
    prints: &'a mut Prints,
    left: usize,
}

impl Walk<'_> {
    /// There is something that nobody could look at.
    fn cut(&mut self) {
        self.prints.cut.insert(self.name.to_owned());
    }

    fn add_first_that_is_no_folder(&mut self, folder: &HeldFolder, path: &Path) {
        let Ok(mut held) = folder.again() else { return };
        let mut below = PathBuf::new();
        for part in path.components() {
            let Some(name) = part.as_os_str().to_str() else { return };
            below.push(name);
            if held.kind_of(name) != Some(EntryKind::Folder) {
                return self.add(&held, name, &below, 0);
            }
            match held.open_below(Path::new(name)) {
                Ok(next) => held = next,
                Err(_) => return,
            }
        }
    }

    fn add(&mut self, folder: &HeldFolder, name: &str, path: &Path, depth: usize) {
        let Some(kind) = folder.kind_of(name) else { return };
        let Some(left) = self.left.checked_sub(1) else { return self.cut() };
        self.left = left;
        let (print, kept) = match kind {
            EntryKind::Folder => {
                let Some(depth) = depth.checked_sub(1) else { return self.cut() };
                let Ok(below) = folder.open_below(Path::new(name)) else { return self.cut() };
                // Files in a folder that can't be listed can be run nonetheless.
                let Ok(entries) = below.entries() else { return self.cut() };
                for (name, _) in entries {
                    self.add(&below, &name, &path.join(&name), depth);
                }
                return;
            }
            EntryKind::File { .. } => match self.file(folder, name) {
                Some(printed) => printed,
                None => return,
            },
            EntryKind::Link => {
                let target = folder.link_of(name);
                (self.hasher.hash_one(("link", &target)), target.map(Kept::Link))
            }
            EntryKind::Other => (self.hasher.hash_one("other"), None),
        };
        let kept = kept.filter(|_| self.keeps);
        self.prints.entries.insert(path.to_owned(), Entry { print, kept });
    }

    /// `None`: a package without scripts.
    fn file(&mut self, folder: &HeldFolder, name: &str) -> Option<(u64, Option<Kept>)> {
        let mode = folder.mode_of(name).unwrap_or(0);
        let most = MAX_BYTES.min(MAX_BYTES_OF_ALL - self.prints.read_bytes);
        let Ok(text) = folder.read(name, most) else {
            return Some((self.hasher.hash_one(("long", folder.stamp_of(name))), None));
        };
        let length = text.len() as u64;
        self.prints.read_bytes += length;
        let is_kept = self.keeps && self.prints.kept_bytes + length <= MAX_KEPT_BYTES;
        if is_kept {
            self.prints.kept_bytes += length;
        }
        let print = match scripts_of(&text) {
            Scripts::Absent if self.is_package => return None,
            Scripts::Are(scripts) if self.is_package => self.hasher.hash_one(("scripts", scripts)),
            _ => self.hasher.hash_one(("file", mode & 0o111 != 0, &text)),
        };
        Some((print, is_kept.then_some(Kept::File { bytes: text, mode })))
    }
}

/// The member of a package that others run.
enum Scripts {
    Are(String),
    Absent,
    /// The file is no JSON for our parser; other programs may read it.
    Unread,
}

fn scripts_of(package: &[u8]) -> Scripts {
    let package: Result<Value, _> = ground::json::read(package);
    match package.as_ref().map(|package| package.get("scripts")) {
        Ok(Some(scripts)) => Scripts::Are(scripts.to_string()),
        Ok(None) => Scripts::Absent,
        Err(_) => Scripts::Unread,
    }
}

#[derive(Deserialize)]
struct Package<'a> {
    #[serde(borrow)]
    scripts: Option<&'a RawValue>,
}

/// A package as it is by now, with the scripts that it had. `None`: its parts can't be told apart.
fn with_scripts_of(before: Option<&[u8]>, now: &[u8]) -> Option<Vec<u8>> {
    fn package(text: &[u8]) -> Option<Package<'_>> {
        // A list would be read as the members of a package in their order.
        let is_object = text.trim_ascii_start().starts_with(b"{");
        ground::json::read_borrowed(text).ok().filter(|_| is_object)
    }
    let wanted = match before {
        Some(before) => package(before)?.scripts?.get(),
        None => "{}",
    };
    let (at, rest, wanted) = match package(now)?.scripts.map(RawValue::get) {
        Some(found) => {
            let at = (found.as_ptr() as usize).checked_sub(now.as_ptr() as usize)?;
            (at, now.get(at + found.len()..)?, wanted.to_owned())
        }
        // They come first in the object, whose bracket is the first one of the text.
        None => {
            let at = now.iter().position(|byte| *byte == b'{')? + 1;
            let rest = now.get(at..)?;
            let comma = if rest.trim_ascii_start().starts_with(b"}") { "" } else { "," };
            (at, rest, format!("\"scripts\":{wanted}{comma}"))
        }
    };
    Some([now.get(..at)?, wanted.as_bytes(), rest].concat())
}

/// Puts back what was there before, or takes away what was not.
fn restore(folder: &HeldFolder, path: &Path, before: Option<&Entry>) -> io::Result<()> {
    let lost = || io::Error::other("it was not kept");
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(lost)?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let kept = match before {
        Some(entry) => Some(entry.kept.as_ref().ok_or_else(lost)?),
        None => None,
    };
    if kept.is_none() && folder.open_below(parent).is_err() {
        // It went with what stood above it.
        return Ok(());
    }
    let parent = folder_in_place(folder, parent)?;
    if path == Path::new(PACKAGE) {
        let before = match kept {
            Some(Kept::File { bytes, .. }) => Some(bytes.as_slice()),
            _ => None,
        };
        let now = parent.read(name, MAX_BYTES).unwrap_or_default();
        if let Some(text) = with_scripts_of(before, &now) {
            return parent.put_with_mode(name, &text, parent.mode_of(name).unwrap_or(0o644));
        }
    }
    if matches!(kept, None | Some(Kept::Link(_))) || parent.kind_of(name) == Some(EntryKind::Folder) {
        parent.remove_all(name)?;
    }
    match kept {
        None => Ok(()),
        Some(Kept::Link(target)) => parent.make_link(name, target),
        Some(Kept::File { bytes, mode }) => parent.put_with_mode(name, bytes, *mode),
    }
}

/// The folder at a path below, made where something else, or nothing, has its name.
fn folder_in_place(folder: &HeldFolder, path: &Path) -> io::Result<HeldFolder> {
    let mut held = folder.again()?;
    for part in path.components() {
        let name = part.as_os_str();
        if held.kind_of(name) != Some(EntryKind::Folder) {
            held.remove(name)?;
        }
        held = held.make_below(Path::new(name))?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests;
