//! PURE: the values that cross the interface of an engine.

use crate::listed::Listed;
use crate::record::JobRecord;
use crate::spec::JobSpec;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Longest wait for an engine that is away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryFor(pub Duration);

impl RetryFor {
    /// Somebody waits for the answer.
    pub(crate) const ASKED: RetryFor = RetryFor(Duration::from_secs(30));
    /// Work is lost when it is given up.
    pub(crate) const WORK: RetryFor = RetryFor(Duration::from_secs(600));
}

pub(crate) fn no_object(name: &str) -> Error {
    Error::new(ErrorCode::JobNotFound, format!("the fleet has no {name}; it may have been removed"))
}

/// The error for a file that an object can't be written to.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::invalid_option("to", format!("{} can't be written: {error}", path.display()))
}

/// Fact of an error that no waiting and no room changes.
pub(crate) const TOO_LONG: &str = "tooLong";

/// Whether the engine takes no message of this length, however much room it has.
pub(crate) fn is_too_long(error: &Error) -> bool {
    error.facts().contains_key(TOO_LONG)
}

/// The reason why a message was not stored.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The revision is not the last one any more.
    Conflict,
    /// A message of this name is there already.
    Taken,
    Fault(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        match refused {
            Refused::Conflict => Error::new(ErrorCode::JobLeaseLost, "another client changed the record"),
            Refused::Taken => {
                Error::new(ErrorCode::FleetStorage, "the server already has a message of this name")
            }
            Refused::Fault(error) => error,
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Fault(error)
    }
}

/// Some jobs of the queue, the oldest first.
pub(crate) struct JobPage {
    pub jobs: Vec<Waiting>,
    /// Sequence to read on from; `None`: there are no more.
    pub next: Option<u64>,
}

/// A job's message while it waits.
pub(crate) struct Waiting {
    /// Sequence of the message.
    pub sequence: u64,
    /// The job's spec. For a message that can't be read it holds only the facts in its name.
    pub spec: JobSpec,
    /// The reason why the message can't be read.
    pub problem: Option<Error>,
}

/// The jobs of a queue that are not over.
pub(crate) struct Queued {
    pub count: u64,
    /// Those that were submitted first.
    pub oldest: Vec<Waiting>,
}

/// A record as it was found or written.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub record: JobRecord,
    pub revision: u64,
}

/// A record as it is listed.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub record: Listed,
    pub revision: u64,
    /// By the engine's clock.
    pub stored_at: SystemTime,
}

/// A kind of fact that operators set for the whole fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SettingKind {
    /// A queue whose jobs are not started.
    Pause,
    /// A worker that is to drain.
    Drain,
    /// A schedule of jobs.
    Schedule,
}

impl SettingKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SettingKind::Pause => "pause",
            SettingKind::Drain => "drain",
            SettingKind::Schedule => "schedule",
        }
    }

    /// The setting of this kind for this queue, worker or schedule.
    pub(crate) fn of(self, name: &str) -> Setting {
        Setting { kind: self, name: name.to_owned() }
    }
}

/// The name of a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Setting {
    pub kind: SettingKind,
    pub name: String,
}

/// A setting as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub payload: Bytes,
    pub revision: u64,
}

/// Some events of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct LogBatch {
    pub attempt: u32,
    /// Number of the batch in its attempt's log, from 1 on; 0 if the message has none.
    pub number: u64,
    /// Sequence of the message. It grows over all attempts of a job.
    pub sequence: u64,
    /// One JSON object per line.
    pub lines: Bytes,
    /// Epoch milliseconds, by the engine's clock.
    pub stored_at: u64,
}

/// The name of a message that expires unless it is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Announcement {
    /// The presence of a worker, by its instance: several may have one name.
    Worker(String),
    /// One of the places that jobs of a key share.
    Place { key: String, number: u32 },
    /// A provider that all workers leave alone for a while.
    Hold(String),
}

/// One of the places of a key that are taken.
pub(crate) struct TakenPlace {
    pub key: String,
    pub number: u32,
    /// Id of the job that has it.
    pub holder: Bytes,
}

/// A place that was taken. It ends unless it is renewed in time.
#[derive(Clone, Debug)]
pub(crate) struct LeaseSlot {
    pub place: Announcement,
    /// Id of this holder alone.
    pub holder: String,
    pub revision: u64,
    pub length: Duration,
}

/// The size and the limit of a store.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Room {
    pub bytes: u64,
    /// 0: as much as the server has.
    pub max_bytes: u64,
    pub messages: u64,
    /// It takes nothing new. The records keep some room for jobs that are on their way.
    pub is_full: bool,
}

/// A store above this percentage is full.
pub(crate) const FULL_AT: u64 = 98;

impl Room {
    /// Whether not even jobs that are on their way can be written.
    pub(crate) fn is_used_up(&self) -> bool {
        self.is_full
            && self.max_bytes > 0
            && self.bytes.saturating_mul(100) >= self.max_bytes.saturating_mul(FULL_AT)
    }
}

/// The stores of a fleet by the engine's names for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    pub all: BTreeMap<String, Room>,
    /// Name of the store of records.
    pub records: String,
    /// Name of the store of leases.
    pub leases: String,
}
