//! The current state of a fleet: its queues, its workers, and the jobs that wait for long, with the reasons. Messages are
//! counted by their subjects, so that a long queue costs little; only the oldest jobs are examined one by one.

use super::engine::{Engine, Group, Key, Queued, RetryFor, Room, Rooms, Waiting};
use super::listed::Listed;
use super::presence::Presence;
use super::record::{JobRecord, JobState};
use super::spec::JobSpec;
use super::stuck::{Surroundings, why_stuck};
use super::submitter::now;
use futures_util::future::try_join4;
use futures_util::{StreamExt, TryStreamExt};
use ground::error::Error;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Jobs that are told of one by one.
const MAX_SHOWN: usize = 20;
/// Records that are looked at for jobs without a message. What nobody writes any more becomes one of the oldest.
const MAX_RECORDS: usize = 2000;
const LOST_MESSAGE: &str =
    "the server has lost its message, so that no worker gets it: cancel it, then submit it under another id";
const UNKNOWN_RECORD: &str = "its record can't be read: it was written by a newer version";
/// Jobs that are asked for at once.
const MAX_ASKED: usize = 500;
/// Jobs of a queue that are looked at.
const MAX_LOOKED_AT: usize = 50;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    pub server: String,
    pub lease_ms: u64,
    pub queues: BTreeMap<String, QueueStatus>,
    pub workers: Vec<Presence>,
    /// Fill level of each stream, by its name.
    pub(crate) storage: BTreeMap<String, Room>,
    pub stuck: Vec<Stuck>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    pub queued: u64,
    pub running: u64,
    /// No worker starts its jobs.
    pub is_paused: bool,
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

/// The facts about the fleet that tell why a job waits.
struct View<'a> {
    workers: &'a [Presence],
    rooms: &'a Rooms,
    /// Whether each provider that was asked about is held back.
    holds: HashMap<String, bool>,
}

impl dyn Engine {
    pub(crate) async fn status(&self) -> Result<FleetStatus, Error> {
        let mut status = FleetStatus {
            server: self.version(),
            lease_ms: u64::try_from(self.lease().as_millis()).unwrap_or(u64::MAX),
            ..FleetStatus::default()
        };
        // All at once: a slow link costs a few round trips, not one for each question.
        let (rooms, workers, pauses, stuck) =
            try_join4(self.rooms(), self.workers(), self.settings(&Group::Pauses), self.without_message())
                .await?;
        (status.workers, status.stuck) = (workers, stuck);
        let mut known: BTreeSet<String> = pauses.keys().cloned().collect();
        known.extend(status.workers.iter().flat_map(|worker| worker.queues.iter().cloned()));
        let mut oldest = HashMap::new();
        for (name, Queued { count, oldest: first }) in self.queues(&known, MAX_LOOKED_AT).await? {
            let running = status.workers.iter().filter_map(|worker| worker.running_of.get(&name));
            let running = running.sum::<u64>().min(count);
            let counted = QueueStatus { queued: count - running, running, ..QueueStatus::default() };
            oldest.insert(name.clone(), first);
            status.queues.insert(name, counted);
        }
        for queue in pauses.into_keys() {
            status.queues.entry(queue).or_default().is_paused = true;
        }
        let mut view = View { workers: &status.workers, rooms: &rooms, holds: HashMap::new() };
        for (name, queue) in &mut status.queues {
            let oldest = oldest.remove(name).unwrap_or_default();
            self.look_at_queue(oldest, queue, &mut view, &mut status.stuck).await?;
        }
        status.storage = rooms.all;
        Ok(status)
    }

    /// The oldest jobs of a queue.
    async fn look_at_queue(
        &self,
        oldest: Vec<Waiting>,
        queue: &mut QueueStatus,
        view: &mut View<'_>,
        stuck: &mut Vec<Stuck>,
    ) -> Result<(), Error> {
        let ids: Vec<&str> = oldest.iter().map(|waiting| waiting.spec.id.as_str()).collect();
        let mut records = self.records_of(&ids).await?;
        for Waiting { spec, problem, .. } in oldest {
            let found = records.remove(&spec.id);
            let unreadable = match (&problem, &found) {
                (Some(error), _) => Some(error.message()),
                (None, Some(Listed::Unknown(_))) => Some(UNKNOWN_RECORD),
                _ => None,
            };
            let why = if let Some(why) = unreadable {
                Some(why.to_owned())
            } else {
                let record = match found {
                    Some(Listed::Known(record)) => *record,
                    _ => JobRecord::queued(&spec),
                };
                if record.state == JobState::Queued {
                    queue.oldest_submitted_at.get_or_insert(record.submitted_at);
                }
                if stuck.len() >= MAX_SHOWN || record.state.is_over() {
                    continue;
                }
                self.why_stuck(&record, &spec, queue.is_paused, view).await?
            };
            if let Some(why) = why.filter(|_| stuck.len() < MAX_SHOWN) {
                stuck.push(Stuck { id: spec.id, why });
            }
        }
        Ok(())
    }

    async fn why_stuck(
        &self,
        record: &JobRecord,
        spec: &JobSpec,
        is_paused: bool,
        view: &mut View<'_>,
    ) -> Result<Option<String>, Error> {
        let is_held = match &spec.provider {
            Some(provider) => self.is_held(provider, &mut view.holds).await?,
            None => false,
        };
        let key_holders = match &spec.key {
            Some(key) => self.key_holders(key).await?,
            None => Vec::new(),
        };
        let (runs, leases) = (&view.rooms.records, &view.rooms.leases);
        let records_room = view.rooms.all.get(runs);
        let is_full = |stream: &String| view.rooms.all.get(stream).is_some_and(|room| room.is_full);
        let around = Surroundings {
            workers: view.workers,
            is_held,
            key_holders: &key_holders,
            is_full: is_full(runs),
            is_used_up: records_room.is_some_and(Room::is_used_up),
            full_leases: is_full(leases).then_some(leases.as_str()),
            records: runs,
            is_paused,
            now: now(),
        };
        Ok(why_stuck(record, spec, &around))
    }

    async fn is_held(&self, provider: &str, holds: &mut HashMap<String, bool>) -> Result<bool, Error> {
        if let Some(known) = holds.get(provider) {
            return Ok(*known);
        }
        let is_held = self.present(&Key::Hold(provider.to_owned()), RetryFor::ASKED).await?.is_some();
        holds.insert(provider.to_owned(), is_held);
        Ok(is_held)
    }

    /// Jobs whose records say that they go on, and that have no message: nothing will bring them to a worker.
    async fn without_message(&self) -> Result<Vec<Stuck>, Error> {
        let records = self.records_from(0).take(MAX_RECORDS).try_filter_map(async |found| {
            Ok(match found.record {
                Listed::Known(record) if !record.state.is_over() => Some(record.id),
                _ => None,
            })
        });
        let open: Vec<String> = records.try_collect().await?;
        let mut found = Vec::new();
        for ids in open.chunks(MAX_ASKED) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let waiting = self.jobs_with_message(&ids).await?;
            for id in ids.into_iter().filter(|id| !waiting.contains(*id)) {
                if found.len() >= MAX_SHOWN {
                    return Ok(found);
                }
                // Submitted, or done, between the two looks.
                let is_there = self.message_of(id).await?.is_some();
                let kept = self.read_record(id, RetryFor::ASKED).await?;
                if !is_there && kept.is_some_and(|kept| !kept.record.state.is_over()) {
                    found.push(Stuck { id: id.to_owned(), why: LOST_MESSAGE.to_owned() });
                }
            }
        }
        Ok(found)
    }
}
