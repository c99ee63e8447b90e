//! The watched directories with everything below them: which to watch, which to read, and which files are finished.
//!
//! The functions may block on the file system: [`super::TreeWatch`] calls them on blocking threads.

use super::file_book::FileBook;
use super::ignore_rules::{IGNORE_FILE, IgnoreRules};
use ground::mpsc;
use ground::os::{
    FileStamp, FolderChange, FolderEvent, FolderWatch, held_for_writing, read_short_text, watch_folder,
};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Without a report of open files from the system, a file that was not changed for this long counts as finished.
const SETTLED: Duration = Duration::from_secs(1);

/// Longest file of rules.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// A file whose content is finished. In [`Sweep::writing`], a file that a process still writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The number under which its directory was registered.
    pub root: usize,
    /// Path relative to that directory.
    pub relative: PathBuf,
    /// Absolute path without symlinks.
    pub path: PathBuf,
    pub stamp: FileStamp,
}

/// The result of a sweep over all directories.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Finished files that were not reported before.
    pub finished: Vec<FoundFile>,
    /// Files that are not reported, because a process has them open for writing.
    pub writing: Vec<FoundFile>,
}

struct Root {
    number: usize,
    path: PathBuf,
    rules: IgnoreRules,
    /// The rules were passed by the caller and take precedence over the directory's own.
    pinned: bool,
}

pub(crate) struct Tree {
    roots: Vec<Root>,
    watches: HashMap<PathBuf, FolderWatch>,
    events: mpsc::Sender<FolderEvent>,
    book: FileBook,
    /// Files that were created but not closed: hard links, and files that are being written.
    unclosed: HashSet<PathBuf>,
    /// Some directory is not watched, so only scans find everything.
    scanning: bool,
    watch_limit: usize,
}

impl Tree {
    pub(crate) fn new(events: mpsc::Sender<FolderEvent>, watch_limit: usize) -> Tree {
        Tree {
            roots: Vec::new(),
            watches: HashMap::new(),
            events,
            book: FileBook::default(),
            unclosed: HashSet::new(),
            scanning: false,
            watch_limit,
        }
    }

    pub(crate) fn needs_scanning(&self) -> bool {
        self.scanning
    }

    pub(crate) fn has_unclosed(&self) -> bool {
        !self.unclosed.is_empty()
    }

    /// Registers a directory (created when missing), watches and reads it. Returns the files that were in it.
    pub(crate) fn add_root(
        &mut self,
        number: usize,
        directory: &Path,
        pinned: Option<&str>,
    ) -> io::Result<Vec<FoundFile>> {
        std::fs::create_dir_all(directory)?;
        let path = directory.canonicalize()?;
        if !path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        let rules = match pinned {
            Some(text) => IgnoreRules::parse(text),
            None => own_rules(&path),
        };
        self.roots.push(Root { number, path: path.clone(), rules, pinned: pinned.is_some() });
        let seen = self.walk(&path);
        Ok(self.sort(seen).finished)
    }

    /// Reads all directories, independently of events.
    pub(crate) fn sweep(&mut self) -> Sweep {
        let mut seen = HashMap::new();
        for index in 0..self.roots.len() {
            let path = self.roots[index].path.clone();
            self.reload_rules(index);
            seen.extend(self.walk(&path));
        }
        let mut sweep = self.sort(seen);
        // The order of a directory's entries is arbitrary; sorting makes the result easier to read.
        sweep.finished.sort_by(|left, right| left.path.cmp(&right.path));
        sweep
    }

    /// The files that are finished according to these events of the kernel.
    pub(crate) fn on_events(&mut self, events: Vec<FolderEvent>) -> Vec<FoundFile> {
        let mut seen = HashMap::new();
        let mut finished = Vec::new();
        for event in events {
            match event.change {
                FolderChange::Lost => return self.sweep().finished,
                FolderChange::DirectoryCame => seen.extend(self.walk(&event.path)),
                FolderChange::Unwatched => {
                    self.watches.remove(&event.path);
                    seen.extend(self.walk(&event.path));
                }
                FolderChange::Gone if event.is_dir => {
                    // The watches would follow the directory to its new place. If that place is watched, it gets new watches.
                    self.watches.retain(|watched, _| !watched.starts_with(&event.path));
                }
                FolderChange::Gone => {
                    self.book.forget(&event.path);
                    self.unclosed.remove(&event.path);
                    seen.remove(&event.path);
                    self.on_rules_touched(&event.path, &mut seen);
                }
                FolderChange::FileMade => {
                    self.unclosed.insert(event.path);
                }
                FolderChange::FileClosed => {
                    self.unclosed.remove(&event.path);
                    if self.on_rules_touched(&event.path, &mut seen) {
                        continue;
                    }
                    if let Some(file) = self.look_at(&event.path)
                        && self.book.report(&file.path, file.stamp)
                    {
                        seen.remove(&file.path);
                        finished.push(file);
                    }
                }
            }
        }
        finished.extend(self.sort(seen).finished);
        finished
    }

    /// Checks again whether files that were created but not closed are finished.
    pub(crate) fn check_unclosed(&mut self) -> Vec<FoundFile> {
        let paths: Vec<PathBuf> = self.unclosed.drain().collect();
        let seen = paths.into_iter().filter_map(|path| Some((path.clone(), self.look_at(&path)?))).collect();
        // The files that are being written will be closed, and the kernel will report that.
        self.sort(seen).finished
    }

    /// Reads a directory's rules again when the path is their file. True then.
    fn on_rules_touched(&mut self, path: &Path, seen: &mut HashMap<PathBuf, FoundFile>) -> bool {
        let Some(index) = self.roots.iter().position(|root| path == root.path.join(IGNORE_FILE)) else {
            return false;
        };
        self.reload_rules(index);
        let top = self.roots[index].path.clone();
        seen.extend(self.walk(&top));
        true
    }

    fn reload_rules(&mut self, index: usize) {
        let root = &mut self.roots[index];
        if !root.pinned {
            root.rules = own_rules(&root.path);
        }
    }

    /// The first registered directory that contains the path and does not ignore it.
    fn root_of(&self, path: &Path, is_dir: bool) -> Option<(usize, PathBuf)> {
        self.roots.iter().find_map(|root| {
            let relative = path.strip_prefix(&root.path).ok()?;
            (!root.rules.leaves_out(relative, is_dir)).then(|| (root.number, relative.to_owned()))
        })
    }

    fn look_at(&self, path: &Path) -> Option<FoundFile> {
        let metadata = path.symlink_metadata().ok()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return None;
        }
        let (root, relative) = self.root_of(path, false)?;
        Some(FoundFile { root, relative, path: path.to_owned(), stamp: FileStamp::of(&metadata) })
    }

    /// Watches, then reads a directory and those below it. Returns the files that were not reported.
    fn walk(&mut self, top: &Path) -> HashMap<PathBuf, FoundFile> {
        let mut seen = HashMap::new();
        let mut pending = vec![top.to_owned()];
        while let Some(directory) = pending.pop() {
            // A symlink in place of a directory is not followed. This also prevents loops.
            let is_real = directory.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            if !is_real || self.root_of(&directory, true).is_none() {
                self.watches.remove(&directory);
                continue;
            }
            self.watch(&directory);
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    pending.push(entry.path());
                } else if kind.is_file()
                    && let Some(file) = self.look_at(&entry.path())
                    && self.book.is_news(&file.path, file.stamp)
                {
                    seen.insert(file.path.clone(), file);
                }
            }
        }
        seen
    }

    fn watch(&mut self, directory: &Path) {
        if self.watches.contains_key(directory) {
            return;
        }
        if self.watches.len() >= self.watch_limit {
            self.scanning = true;
            return;
        }
        match watch_folder(directory, &self.events) {
            Ok(watch) => {
                self.watches.insert(directory.to_owned(), watch);
            }
            // The directory is gone already, or may not be read: it contains nothing to report. Other errors mean the kernel's
            // limits.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            Err(_) => self.scanning = true,
        }
    }

    /// Separates finished files from those that a process writes, and records the finished ones as reported.
    fn sort(&mut self, seen: HashMap<PathBuf, FoundFile>) -> Sweep {
        let mut sweep = Sweep::default();
        if seen.is_empty() {
            return sweep;
        }
        let tops: Vec<&Path> = self.roots.iter().map(|root| root.path.as_path()).collect();
        let held = held_for_writing(&tops);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        for (path, file) in seen {
            let is_written = match &held {
                Some(held) => held.contains(&path),
                None => {
                    i128::try_from(now).unwrap_or(i128::MAX) - file.stamp.modified_nanos
                        < SETTLED.as_nanos() as i128
                }
            };
            if is_written {
                sweep.writing.push(file);
            } else if self.book.report(&path, file.stamp) {
                self.unclosed.remove(&path);
                sweep.finished.push(file);
            }
        }
        sweep
    }
}

fn own_rules(top: &Path) -> IgnoreRules {
    // The file may have been created by any program in the sandbox.
    match read_short_text(&top.join(IGNORE_FILE), MAX_RULES_BYTES) {
        Ok(text) => IgnoreRules::parse(&text),
        Err(_) => IgnoreRules::default(),
    }
}
