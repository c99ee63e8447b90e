//! The one home of file watching: which files of some directories are finished, each content once.
//!
//! A [`TreeWatch`] is the handle of a task that owns a [`tree::Tree`]: the registered directories, their ignore rules, a
//! book of what was reported. The task waits for three things: orders of the handle, events of the kernel, and, where the
//! kernel can't watch, a clock that scans instead. Reading directories happens on tokio's blocking threads.
//!
//! - One inotify instance serves the whole process ([`kernel`], one thread that ends with its last watch). Directories
//!   only are watched, and ignored ones never: rules are asked before a watch is made.
//! - A directory is watched first and read second, so that nothing falls between.
//! - A file is finished when a writer closed it or it was renamed into place. Files that nobody saw being written (they
//!   were there before, or their directory is new) are finished when no process holds them open for writing
//!   ([`open_files`]).
//! - Symlinks are not followed. What vanishes or can't be read is passed over.
//! - When the kernel's limit of watches is reached, or it lost events, a scan replaces them.
//!
//! Dropping the last handle ends the task and takes its watches away.

mod file_book;
mod ignore_rules;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "kernel_absent.rs"]
mod kernel;
mod open_files;
mod tree;
mod tree_watch;

pub use file_book::Stamp;
pub use ignore_rules::{DEFAULT_RULES, IGNORE_FILE, IgnoreRules, UNFINISHED_PREFIX};
pub use tree::{FoundFile, Sweep};
pub use tree_watch::{TreeWatch, WatchSpec};
