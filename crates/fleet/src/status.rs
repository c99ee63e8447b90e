//! What a fleet looks like right now: its queues, its workers, what waits for long and why. Counted by the names of messages, so
//! that a long queue costs little; looked at one by one are the oldest jobs alone.

use super::engine::{Engine, RetryFor, Room};
use super::record::{JobRecord, JobState};
use super::stuck::{Surroundings, why_stuck};
use super::subject::Names;
use super::submitter::now;
use futures_util::StreamExt;
use ground::error::Error;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Jobs that are told of one by one.
const MAX_SHOWN: usize = 20;
/// Jobs of a queue that are looked at.
const MAX_LOOKED_AT: usize = 50;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    pub server: String,
    pub lease_ms: u64,
    pub queues: BTreeMap<String, QueueStatus>,
    /// As each says of itself.
    pub workers: Vec<Value>,
    /// How full each stream is, by its name.
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

impl Engine {
    pub(crate) async fn status(&self) -> Result<FleetStatus, Error> {
        let mut status = FleetStatus {
            server: self.version(),
            lease_ms: u64::try_from(self.lease().as_millis()).unwrap_or(u64::MAX),
            ..FleetStatus::default()
        };
        let streams = self.names().streams();
        let rooms = streams.iter().map(|stream| self.room(stream, RetryFor::ASKED));
        let rooms = futures_util::future::try_join_all(rooms).await?;
        status.storage = streams.iter().cloned().zip(rooms).collect();
        let said = self.all_announced(self.names().workers()).await?;
        status.workers = said.iter().filter_map(|said| serde_json::from_slice(said).ok()).collect();
        let running = status.workers.iter().filter_map(|worker| worker["running"].as_array());
        let running: HashSet<String> =
            running.flatten().filter_map(Value::as_str).map(Names::token).collect();
        for (queue, id) in self.unfinished().await? {
            let queue = status.queues.entry(queue).or_default();
            if running.contains(&id) {
                queue.running += 1;
            } else {
                queue.queued += 1;
            }
        }
        let mut holds = HashMap::new();
        for (name, queue) in &mut status.queues {
            let (workers, storage) = (&status.workers, &status.storage);
            self.look_at_queue(name, queue, workers, storage, &mut holds, &mut status.stuck).await?;
        }
        Ok(status)
    }

    /// The oldest jobs of a queue.
    async fn look_at_queue(
        &self,
        name: &str,
        queue: &mut QueueStatus,
        workers: &[Value],
        storage: &BTreeMap<String, Room>,
        holds: &mut HashMap<String, bool>,
        stuck: &mut Vec<Stuck>,
    ) -> Result<(), Error> {
        let (runs, leases) = (self.names().run_stream(), self.names().lease_stream());
        let records_room = storage.get(&runs);
        let full_leases = storage.get(&leases).is_some_and(|room| room.is_full).then_some(leases.as_str());
        let oldest = self.oldest_of(name, MAX_LOOKED_AT).await?;
        let ids: Vec<&str> = oldest.iter().map(|spec| spec.id.as_str()).collect();
        let mut records = self.records_of(&ids).await?;
        for spec in oldest {
            let record = records.remove(&spec.id).unwrap_or_else(|| JobRecord::queued(&spec));
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
                Some(key) => self.all_announced(self.names().slots(key)).await?,
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
                records: &runs,
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
        let is_held = self.announced(&self.names().hold(provider)).await?.is_some();
        holds.insert(provider.to_owned(), is_held);
        Ok(is_held)
    }

    /// Every job, those that nobody has claimed yet included.
    pub(crate) async fn every_record(&self) -> Result<Vec<JobRecord>, Error> {
        // First the queue: what is claimed meanwhile is then found with its record, and counted once.
        let begun = self.begun_records().await?;
        let mut records = std::pin::pin!(self.records());
        let (mut found, mut known) = (Vec::<JobRecord>::new(), HashMap::new());
        while let Some(record) = records.next().await {
            let record = record?;
            match known.get(&record.id) {
                // Written while it was listed.
                Some(&at) => found[at] = record,
                None => {
                    known.insert(record.id.clone(), found.len());
                    found.push(record);
                }
            }
        }
        found.extend(begun.into_iter().filter(|record| !known.contains_key(&record.id)));
        Ok(found)
    }
}
