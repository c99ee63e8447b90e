//! On record: a folder that keeps what ran, all it printed and when, and how it ended. docs/record.md has the files.
//!
//! [`Record::create`] makes the folder and its `run.json` before anything is started: a place that can't be written is told then.
//! From there on the run pushes what it reads into a bounded buffer ([`buffer`]); one task a record ([`writer`]) takes it to the disk
//! every [`FLUSH`], on a thread where it may block. Secrets are taken out there. [`Record::finish`] hands over the end; a record that
//! is dropped without one says that it was let go.
//!
//! - Never on the JavaScript thread, and no disk is waited for by a run for longer than [`HOLDS_AT_MOST`] in all: a full buffer holds the
//!   program back as a slow reader does; when that is used up, what doesn't fit is left out, counted and told.
//! - A disk that fails is told once; the run goes on without.
//! - What was pushed is in the files [`FLUSH`] later, even when this process is killed then.

mod buffer;
mod files;
mod folder;
mod spec;
pub mod stamp;
mod writer;

pub use crate::os::HeldFolder;
pub use buffer::Channel;
pub use folder::Unfinished;
pub use folder::read_json;
pub use spec::{Place, RecordFacts, RecordSpec};
pub use stamp::{epoch_ms, utc};
pub use writer::Record;
pub use writer::{FLUSH, HOLDS_AT_MOST};
