//! Records: a folder that keeps what ran, all its output with times, and its end. docs/record.md describes the files.
//!
//! [`Record::create`] makes the folder and its `run.json` before the program is started, so that a folder that can't be written
//! is reported then. From then on the run pushes the output that it reads into a bounded buffer ([`buffer`]). One task per record
//! ([`writer`]) writes it to the disk every [`FLUSH`], on a thread where it may block. Secrets are redacted there.
//! [`Record::finish`] writes the end. A record that is dropped without it notes that it was abandoned.
//!
//! - Recording never runs on the JavaScript thread. A run waits for the disk for at most [`HOLDS_AT_MOST`] in total: a full
//!   buffer slows the program down as a slow reader does. Once that time is used up, data that doesn't fit is left out, counted
//!   and reported.
//! - A failing disk is reported once; the run goes on without the record.
//! - Pushed data is in the files [`FLUSH`] later, even when this process is killed then.

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
