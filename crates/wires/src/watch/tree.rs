//! The watched directories with all below them: what to watch, what to read, which files are finished.
//!
//! Everything here may block on the file system: [`super::TreeWatch`] calls it on blocking threads.

use super::file_book::{FileBook, Stamp};
use super::ignore_rules::{IGNORE_FILE, IgnoreRules};
use super::kernel::{self, Change, KernelEvent, Watch};
use super::open_files::held_for_writing;
use ground::os::read_short_text;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// Where open files can't be asked for, a file that was not touched for so long counts as finished.
const SETTLED: Duration = Duration::from_secs(1);

/// Longest file of rules.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// A file whose content is finished, or, in [`Sweep::writing`], one that somebody still writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Which registered directory it belongs to: the number that it was registered by.
    pub root: usize,
    /// Below that directory.
    pub relative: PathBuf,
    /// Absolute, without symlinks.
    pub path: PathBuf,
    pub stamp: Stamp,
}

/// What a look at everything found.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Finished, and not reported before.
    pub finished: Vec<FoundFile>,
    /// Not reported, because somebody has them open for writing.
    pub writing: Vec<FoundFile>,
}

struct Root {
    number: usize,
    path: PathBuf,
    rules: IgnoreRules,
    /// The rules were given and stand above the directory's own.
    pinned: bool,
}

pub(crate) struct Tree {
    roots: Vec<Root>,
    watches: HashMap<PathBuf, Watch>,
    events: mpsc::Sender<KernelEvent>,
    book: FileBook,
    /// Made without being closed: hard links, and files that are being written.
    unclosed: HashSet<PathBuf>,
    /// Some directory is not watched: only scanning sees all.
    scanning: bool,
    watch_limit: usize,
}

impl Tree {
    pub(crate) fn new(events: mpsc::Sender<KernelEvent>, watch_limit: usize) -> Tree {
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

    /// Registers a directory (made when missing), watches and reads it. The files that were there.
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

    /// Looks at everything, whatever events say.
    pub(crate) fn sweep(&mut self) -> Sweep {
        let mut seen = HashMap::new();
        for index in 0..self.roots.len() {
            let path = self.roots[index].path.clone();
            self.reload_rules(index);
            seen.extend(self.walk(&path));
        }
        let mut sweep = self.sort(seen);
        // Directories are read in no order: people like one.
        sweep.finished.sort_by(|left, right| left.path.cmp(&right.path));
        sweep
    }

    /// The files that events of the kernel show to be finished.
    pub(crate) fn on_events(&mut self, events: Vec<KernelEvent>) -> Vec<FoundFile> {
        let mut seen = HashMap::new();
        let mut finished = Vec::new();
        for event in events {
            match event.change {
                Change::Lost => return self.sweep().finished,
                Change::DirectoryCame => seen.extend(self.walk(&event.path)),
                Change::Unwatched => {
                    self.watches.remove(&event.path);
                    seen.extend(self.walk(&event.path));
                }
                Change::Gone if event.is_dir => {
                    // The watches follow the directory to wherever it went; its new place, if watched, makes new ones.
                    self.watches.retain(|watched, _| !watched.starts_with(&event.path));
                }
                Change::Gone => {
                    self.book.forget(&event.path);
                    self.unclosed.remove(&event.path);
                    seen.remove(&event.path);
                    self.on_rules_touched(&event.path, &mut seen);
                }
                Change::FileMade => {
                    self.unclosed.insert(event.path);
                }
                Change::FileClosed => {
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

    /// Asks again about the files that were made but not closed.
    pub(crate) fn check_unclosed(&mut self) -> Vec<FoundFile> {
        let paths: Vec<PathBuf> = self.unclosed.drain().collect();
        let seen = paths.into_iter().filter_map(|path| Some((path.clone(), self.look_at(&path)?))).collect();
        // Those that are being written will be closed, and the kernel will say so.
        self.sort(seen).finished
    }

    /// True when the path is a directory's own rules, which then are read again.
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

    /// The first registered directory that holds the path and does not leave it out.
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
        Some(FoundFile { root, relative, path: path.to_owned(), stamp: Stamp::of(&metadata) })
    }

    /// Watches, then reads a directory and those below it. The files that were not reported.
    fn walk(&mut self, top: &Path) -> HashMap<PathBuf, FoundFile> {
        let mut seen = HashMap::new();
        let mut pending = vec![top.to_owned()];
        while let Some(directory) = pending.pop() {
            // A symlink in place of a directory is not followed, which also rules loops out.
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
        match kernel::watch(directory, &self.events) {
            Ok(watch) => {
                self.watches.insert(directory.to_owned(), watch);
            }
            // Gone already, or not ours to read: nothing to see there. Else the kernel's limits are reached.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            Err(_) => self.scanning = true,
        }
    }

    /// Tells finished files from those that somebody writes, and notes the finished ones as reported.
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
    // Whatever runs in the sandbox can place it.
    match read_short_text(&top.join(IGNORE_FILE), MAX_RULES_BYTES) {
        Ok(text) => IgnoreRules::parse(&text),
        Err(_) => IgnoreRules::default(),
    }
}
