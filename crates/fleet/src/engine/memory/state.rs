//! Everything that a fleet in memory holds.

use crate::engine::value::{Entry, Group, Key, LogBatch};
use crate::spec::JobSpec;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime};

/// Time from which a job may be given out, its sequence, its id.
type LaneOrder = BTreeSet<(Instant, u64, String)>;

#[derive(Default)]
pub(super) struct State {
    /// The last number that a message or a revision got.
    pub last: u64,
    pub jobs: HashMap<String, Message>,
    /// Ids of the jobs of each queue and class, by the time from which they may be given out, then by their sequence.
    pub lanes: HashMap<(String, u8), LaneOrder>,
    pub entries: BTreeMap<Key, Held>,
    /// Specs of jobs that did not get done.
    pub dead: HashMap<String, JobSpec>,
    pub logs: HashMap<String, Vec<LogBatch>>,
    pub objects: BTreeMap<String, (Bytes, SystemTime)>,
}

pub(super) struct Held {
    pub entry: Entry,
    until: Option<Instant>,
}

impl Held {
    pub(super) fn is_live(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// A job's message.
pub(super) struct Message {
    pub spec: JobSpec,
    pub sequence: u64,
    pub deliveries: u64,
    /// It is given out from this time on.
    pub ready_at: Instant,
    pub stored_at: SystemTime,
}

impl State {
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Number and bytes of what is stored.
    pub(super) fn size(&self) -> (u64, u64) {
        let logs = self.logs.values().flatten();
        let bytes = self.objects.values().map(|(bytes, _)| bytes.len()).sum::<usize>()
            + logs.clone().map(|batch| batch.lines.len()).sum::<usize>();
        let messages = self.jobs.len() + self.entries.len() + self.objects.len() + logs.count();
        (messages as u64, bytes as u64)
    }

    pub(super) fn live(&self, key: &Key) -> Option<&Entry> {
        let held = self.entries.get(key).filter(|held| held.is_live(Instant::now()));
        held.map(|held| &held.entry)
    }

    /// The entries of a group, those that have expired included.
    pub(super) fn of_group<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (&'a Key, &'a Held)> {
        self.entries.range(group.first()..).take_while(|(key, _)| group.has(key))
    }

    /// Returns the revision.
    pub(super) fn put(&mut self, key: &Key, payload: Bytes, length: Option<Duration>) -> u64 {
        let revision = self.next();
        let entry = Entry { payload, revision, stored_at: SystemTime::now() };
        let until = length.map(|length| Instant::now() + length);
        self.entries.insert(key.clone(), Held { entry, until });
        revision
    }
}
