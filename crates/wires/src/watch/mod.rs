//! File watching: finds the files of some directories that are finished, and reports each content once. No other module watches
//! files.
//!
//! A [`TreeWatch`] is the handle of a task that owns a [`tree::Tree`]: the registered directories, their ignore rules, and a
//! record of the reported files. The task waits for requests of the handle, for events of the kernel, and, where the kernel can't
//! watch, for a timer that triggers scans. Directories are read on threads for blocking work.
//!
//! - One inotify instance serves the whole process (`os::watch_folder`, one thread that ends with its last watch). Only directories are
//!   watched, and ignored ones never: the rules are checked before a watch is made.
//! - A directory is watched first and read second, so that no file is missed in between.
//! - A file is finished when a writer closed it or it was renamed into place. A file whose writer was not observed (it existed
//!   before, or its directory is new) is finished when no process holds it open for writing (`os::held_for_writing`).
//! - Symlinks are not followed. Entries that vanish or can't be read are skipped.
//! - When the kernel's limit of watches is reached, or it lost events, scans replace them.
//!
//! Dropping the last handle ends the task and removes its watches.

mod file_book;
mod ignore_rules;
mod tree;
mod tree_watch;

pub use ignore_rules::{DEFAULT_RULES, IGNORE_FILE, IgnoreRules, UNFINISHED_PREFIX};
pub use tree::{FoundFile, Sweep};
pub use tree_watch::{TreeWatch, WatchSpec};
