//! Everything that a fleet in memory holds.

use crate::engine::value::{self, Announcement, Kept, LeaseSlot, LogBatch, Setting};
use crate::spec::JobSpec;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Instant, SystemTime};

/// Time from which a job may be given out, its sequence, its id.
type LaneOrder = BTreeSet<(Instant, u64, String)>;

/// Changes of settings that a slow reader can catch up with.
const MOST_CHANGES: usize = 1000;

#[derive(Default)]
pub(super) struct State {
    /// The last number that a message or a revision got.
    pub last: u64,
    pub jobs: HashMap<String, Message>,
    /// Ids of the jobs of each queue and class, by the time from which they may be given out, then by their sequence.
    pub lanes: HashMap<(String, u8), LaneOrder>,
    pub records: BTreeMap<String, Stored>,
    /// Specs of jobs that did not get done.
    pub dead: HashMap<String, JobSpec>,
    pub logs: HashMap<String, Vec<LogBatch>>,
    pub leases: HashMap<Announcement, Lease>,
    pub objects: BTreeMap<String, (Bytes, SystemTime)>,
    pub settings: BTreeMap<Setting, SettingEntry>,
    /// The last changes of settings, by their numbers.
    pub setting_changes: VecDeque<(u64, Setting)>,
}

pub(super) struct SettingEntry {
    pub stored: value::Stored,
    pub until: Option<Instant>,
}

impl SettingEntry {
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

pub(super) struct Stored {
    pub kept: Kept,
    pub at: SystemTime,
}

pub(super) struct Lease {
    pub payload: Bytes,
    pub holder: Option<String>,
    pub until: Instant,
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
        let messages = self.jobs.len() + self.records.len() + self.objects.len() + logs.count();
        (messages as u64, bytes as u64)
    }

    pub(super) fn setting(&self, what: &Setting) -> Option<&SettingEntry> {
        self.settings.get(what).filter(|entry| entry.is_live(Instant::now()))
    }

    pub(super) fn tell_setting(&mut self, what: &Setting) {
        if self.setting_changes.len() >= MOST_CHANGES {
            self.setting_changes.pop_front();
        }
        let number = self.next();
        self.setting_changes.push_back((number, what.clone()));
    }

    pub(super) fn lease(&self, what: &Announcement) -> Option<&Lease> {
        self.leases.get(what).filter(|lease| lease.until > Instant::now())
    }

    pub(super) fn live_leases(&self) -> impl Iterator<Item = (&Announcement, &Lease)> {
        let now = Instant::now();
        self.leases.iter().filter(move |(_, lease)| lease.until > now)
    }

    /// Takes the place unless another has it.
    pub(super) fn hold(&mut self, slot: &mut LeaseSlot, payload: Bytes) -> bool {
        let is_others = self
            .lease(&slot.place)
            .is_some_and(|lease| lease.holder.as_deref() != Some(slot.holder.as_str()));
        if is_others {
            return false;
        }
        slot.revision = self.next();
        let lease = Lease { payload, holder: Some(slot.holder.clone()), until: Instant::now() + slot.length };
        self.leases.insert(slot.place.clone(), lease);
        true
    }
}
