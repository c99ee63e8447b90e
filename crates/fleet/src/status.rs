//! The current state of a fleet: its queues, its workers, and the jobs that wait for long, with the reasons. Messages are
//! counted by their subjects, so that a long queue costs little; only the oldest jobs are examined one by one.

use super::engine::{Announcement, Engine, RetryFor, Room, Rooms, Waiting};
use super::record::{JobRecord, JobState, Listed};
use super::stuck::{Surroundings, why_stuck};
use super::submitter::now;
use futures_util::StreamExt;
use ground::error::Error;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Jobs that are told of one by one.
const MAX_SHOWN: usize = 20;
/// Records that are looked at for jobs without a message. What nobody writes any more becomes one of the oldest.
const MAX_RECORDS: usize = 2000;
const LOST_MESSAGE: &str =
    "the server has lost its message, so that no worker gets it: cancel it, then submit it under another id";
const UNKNOWN_RECORD: &str = "its record can't be read: it was written by a newer version";
/// Jobs of a queue that are looked at.
const MAX_LOOKED_AT: usize = 50;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    pub server: String,
    pub lease_ms: u64,
    pub queues: BTreeMap<String, QueueStatus>,
    /// The presence messages of the workers.
    pub workers: Vec<Value>,
    /// Fill level of each stream, by its name.
    pub(crate) storage: BTreeMap<String, Room>,
    pub stuck: Vec<Stuck>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    pub queued: u64,
    pub running: u64,
    /// When the oldest job that waits was submitted, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_submitted_at: Option<u64>,
}

/// A job that does not go on, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Stuck {
    pub id: String,
    pub why: String,
}

impl dyn Engine {
    pub(crate) async fn status(&self) -> Result<FleetStatus, Error> {
        let mut status = FleetStatus {
            server: self.version(),
            lease_ms: u64::try_from(self.lease().as_millis()).unwrap_or(u64::MAX),
            ..FleetStatus::default()
        };
        let rooms = self.rooms().await?;
        let said = self.announced_workers().await?;
        status.workers = said.iter().filter_map(|said| serde_json::from_slice(said).ok()).collect();
        let running = status.workers.iter().filter_map(|worker| worker["running"].as_array());
        let running: HashSet<String> =
            running.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let unfinished = self.unfinished().await?;
        let waiting: HashSet<String> = unfinished.iter().map(|(_, id)| id.clone()).collect();
        status.stuck = self.without_message(&waiting).await?;
        for (queue, id) in unfinished {
            let queue = status.queues.entry(queue).or_default();
            if running.contains(&id) {
                queue.running += 1;
            } else {
                queue.queued += 1;
            }
        }
        let mut holds = HashMap::new();
        for (name, queue) in &mut status.queues {
            let workers = &status.workers;
            self.look_at_queue(name, queue, workers, &rooms, &mut holds, &mut status.stuck).await?;
        }
        status.storage = rooms.all;
        Ok(status)
    }

    /// The oldest jobs of a queue.
    async fn look_at_queue(
        &self,
        name: &str,
        queue: &mut QueueStatus,
        workers: &[Value],
        rooms: &Rooms,
        holds: &mut HashMap<String, bool>,
        stuck: &mut Vec<Stuck>,
    ) -> Result<(), Error> {
        let (runs, leases) = (&rooms.records, &rooms.leases);
        let records_room = rooms.all.get(runs);
        let full_leases = rooms.all.get(leases).is_some_and(|room| room.is_full).then_some(leases.as_str());
        let oldest = self.oldest_of(name, MAX_LOOKED_AT).await?;
        let ids: Vec<&str> = oldest.iter().map(|waiting| waiting.spec.id.as_str()).collect();
        let mut records = self.records_of(&ids).await?;
        for Waiting { spec, problem, .. } in oldest {
            let unreadable = match &problem {
                Some(error) => Some(error.message()),
                None => matches!(records.get(&spec.id), Some(Listed::Unknown(_))).then_some(UNKNOWN_RECORD),
            };
            if let Some(why) = unreadable {
                if stuck.len() < MAX_SHOWN {
                    stuck.push(Stuck { id: spec.id, why: why.to_owned() });
                }
                continue;
            }
            let record = match records.remove(&spec.id) {
                Some(Listed::Known(record)) => *record,
                _ => JobRecord::queued(&spec),
            };
            if record.state == JobState::Queued {
                queue.oldest_submitted_at.get_or_insert(record.submitted_at);
            }
            if stuck.len() >= MAX_SHOWN || record.state.is_over() {
                continue;
            }
            let is_held = match &spec.provider {
                Some(provider) => self.is_held(provider, holds).await?,
                None => false,
            };
            let key_holders = match &spec.key {
                Some(key) => self.key_holders(key).await?,
                None => Vec::new(),
            };
            let key_holders: Vec<String> =
                key_holders.iter().map(|id| String::from_utf8_lossy(id).into_owned()).collect();
            let around = Surroundings {
                workers,
                is_held,
                key_holders: &key_holders,
                is_full: records_room.is_some_and(|room| room.is_full),
                is_used_up: records_room.is_some_and(Room::is_used_up),
                full_leases,
                records: runs,
                now: now(),
            };
            if let Some(why) = why_stuck(&record, &spec, &around) {
                stuck.push(Stuck { id: record.id, why });
            }
        }
        Ok(())
    }

    async fn is_held(&self, provider: &str, holds: &mut HashMap<String, bool>) -> Result<bool, Error> {
        if let Some(known) = holds.get(provider) {
            return Ok(*known);
        }
        let is_held = self.announced(&Announcement::Hold(provider.to_owned())).await?.is_some();
        holds.insert(provider.to_owned(), is_held);
        Ok(is_held)
    }

    /// Every job, those that nobody has claimed yet included.
    pub(crate) async fn every_record(&self) -> Result<Vec<Listed>, Error> {
        // First the queue: what is claimed meanwhile is then found with its record, and counted once.
        let begun = self.begun_records().await?;
        let mut records = std::pin::pin!(self.records());
        let (mut found, mut known) = (Vec::<Listed>::new(), HashMap::new());
        while let Some(record) = records.next().await {
            let record = record?;
            match known.get(record.id()) {
                // Written while it was listed.
                Some(&at) => found[at] = record,
                None => {
                    known.insert(record.id().to_owned(), found.len());
                    found.push(record);
                }
            }
        }
        let begun = begun.into_iter().filter(|record| !known.contains_key(&record.id));
        found.extend(begun.map(|record| Listed::Known(Box::new(record))));
        Ok(found)
    }

    /// Jobs whose records say that they go on, and that have no message: nothing will bring them to a worker.
    async fn without_message(&self, waiting: &HashSet<String>) -> Result<Vec<Stuck>, Error> {
        let mut records = std::pin::pin!(self.records().take(MAX_RECORDS));
        let (mut suspects, mut found) = (Vec::new(), Vec::new());
        while let Some(record) = records.next().await {
            if let Listed::Known(record) = record?
                && !record.state.is_over()
                && !waiting.contains(&record.id)
                && suspects.len() < MAX_SHOWN
            {
                suspects.push(record.id);
            }
        }
        for id in suspects {
            // Submitted, or done, between the two looks.
            let is_there = self.message_of(&id).await?.is_some();
            let kept = self.read_record(&id, RetryFor::ASKED).await?;
            if !is_there && kept.is_some_and(|kept| !kept.record.state.is_over()) {
                found.push(Stuck { id, why: LOST_MESSAGE.to_owned() });
            }
        }
        Ok(found)
    }
}
