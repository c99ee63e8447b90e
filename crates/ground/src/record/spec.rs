//! The options of a record, its place, and the facts about it at the end. Defaults are defined here and nowhere else.

use crate::os::HeldFolder;
use crate::redaction::Secret;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// The options of a record.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    pub place: Place,
    /// Strings that are redacted in everything that is written.
    pub secrets: Vec<Secret>,
    /// Most bytes kept in each file of output. Output past the limit is left out, except for its end.
    pub max_bytes: u64,
    /// Fields for `run.json` beside those of the run itself.
    pub facts: Map<String, Value>,
    /// Folders that the recorded program, or an earlier one, can write to. Links below them are not followed to the record.
    pub contained: Vec<PathBuf>,
}

/// The folder of a record.
#[derive(Clone, Debug)]
pub enum Place {
    /// A new folder in this one, named by the time.
    Below(PathBuf),
    /// This folder, which must not exist yet.
    At(PathBuf),
    /// A folder inside the folder of another record.
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

/// Facts about a record at its end.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordFacts {
    pub folder: String,
    /// Bytes that are not in the files: past `maxRecordBytes`, or the disk was too slow.
    pub left_out_bytes: u64,
    /// The reason why the record is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
