//! Where a record goes and what it begins with; and what is said of it at the end. Defaults live here, once.

use crate::os::HeldFolder;
use crate::redaction::Secret;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// A record that is wanted.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    pub place: Place,
    /// Taken out of everything that is written.
    pub secrets: Vec<Secret>,
    /// The most that is kept in each file of output; what is printed past it is left out, but for its end.
    pub max_bytes: u64,
    /// What `run.json` says besides what the run itself knows.
    pub facts: Map<String, Value>,
    /// Folders that the program on record, or one before it, can write: no link below them leads to the record.
    pub contained: Vec<PathBuf>,
}

/// The folder of a record.
#[derive(Clone, Debug)]
pub enum Place {
    /// A new one in here, named by the time.
    Below(PathBuf),
    /// This one, which is not there yet.
    At(PathBuf),
    /// Below the folder of another record.
    Within(Arc<HeldFolder>, PathBuf),
}

impl RecordSpec {
    pub const MAX_BYTES: u64 = 256 << 20;

    pub fn new(place: Place) -> Self {
        RecordSpec {
            place,
            secrets: Vec::new(),
            max_bytes: Self::MAX_BYTES,
            facts: Map::new(),
            contained: Vec::new(),
        }
    }
}

/// What became of a record.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordFacts {
    pub folder: String,
    /// Printed or told, and not in the files: past `maxRecordBytes`, or the disk could not follow.
    pub left_out_bytes: u64,
    /// Why the record is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
