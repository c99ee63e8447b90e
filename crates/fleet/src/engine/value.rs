//! PURE: the values that cross the interface of an engine.

use crate::listed::Listed;
use crate::record::JobRecord;
use crate::spec::JobSpec;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Records of ended jobs, logs and artifacts expire after this time.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest wait for an engine that is away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryFor(pub Duration);

impl RetryFor {
    /// Somebody waits for the answer.
    pub(crate) const ASKED: RetryFor = RetryFor(Duration::from_secs(30));
    /// Work is lost when it is given up.
    pub(crate) const WORK: RetryFor = RetryFor(Duration::from_secs(600));
}

/// The error for an engine that does not answer.
pub(crate) fn away(why: impl Display) -> Error {
    let message = format!("the nats-server does not answer ({why}): is it running?");
    Error::new(ErrorCode::FleetUnreachable, message)
}

/// The reason for the end of a watch.
pub(crate) const CLOSED: &str = "the connection was closed";

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

/// The name of an entry. Keys of a kind are next to each other in their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// The record of a job.
    Record(String),
    /// A queue whose jobs are not started.
    Pause(String),
    /// A worker that is to drain.
    Drain(String),
    /// A schedule of jobs.
    Schedule(String),
    /// The presence of a worker, by its instance: several may have one name.
    Worker(String),
    /// One of the places that jobs of a key share.
    Place(String, u32),
    /// A provider that all workers leave alone for a while.
    Hold(String),
}

impl Key {
    /// Id of the job, or name of the queue, worker, schedule, key or provider.
    pub(crate) fn name(&self) -> &str {
        match self {
            Key::Record(name) | Key::Pause(name) | Key::Drain(name) | Key::Schedule(name) => name,
            Key::Worker(name) | Key::Place(name, _) | Key::Hold(name) => name,
        }
    }

    /// Number of the place.
    pub(crate) fn number(&self) -> Option<u32> {
        if let Key::Place(_, number) = self { Some(*number) } else { None }
    }
}

/// Entries that are listed or watched together.
#[derive(Clone, Debug)]
pub(crate) enum Group {
    Records,
    Pauses,
    Drains,
    Schedules,
    Workers,
    /// The places of all keys.
    Places,
    PlacesOf(String),
    One(Key),
}

impl Group {
    pub(crate) fn has(&self, key: &Key) -> bool {
        match (self, key) {
            (Group::One(one), key) => one == key,
            (Group::PlacesOf(wanted), Key::Place(key, _)) => wanted == key,
            (Group::Records, Key::Record(_))
            | (Group::Pauses, Key::Pause(_))
            | (Group::Drains, Key::Drain(_))
            | (Group::Schedules, Key::Schedule(_))
            | (Group::Workers, Key::Worker(_))
            | (Group::Places, Key::Place(..)) => true,
            _ => false,
        }
    }

    /// The first key that a group can have.
    pub(crate) fn first(&self) -> Key {
        let none = String::new();
        match self {
            Group::Records => Key::Record(none),
            Group::Pauses => Key::Pause(none),
            Group::Drains => Key::Drain(none),
            Group::Schedules => Key::Schedule(none),
            Group::Workers => Key::Worker(none),
            Group::Places => Key::Place(none, 0),
            Group::PlacesOf(key) => Key::Place(key.clone(), 0),
            Group::One(key) => key.clone(),
        }
    }
}

/// A value under a key, as it was found or written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub payload: Bytes,
    pub revision: u64,
    /// By the engine's clock.
    pub stored_at: SystemTime,
}

impl Entry {
    pub(crate) fn is_removed(&self) -> bool {
        self.payload.is_empty()
    }
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

/// A place of a key that was taken. It ends unless it is renewed in time.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub key: Key,
    /// Name of this holder alone, and the id of its job.
    pub payload: Bytes,
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
