//! The queue of a fleet in memory.

use super::handle::Memory;
use super::state::{Message, State};
use crate::engine::interface::Queue;
use crate::engine::lane::{Delivery, Holder, Lane};
use crate::engine::value::{JobPage, Queued, RetryFor, Waiting};
use crate::filter::Filter;
use crate::spec::JobSpec;
use async_trait::async_trait;
use ground::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

impl State {
    /// Sets the time from which the job's message is given out.
    fn set_ready(&mut self, id: &str, at: Instant) {
        if let Some(message) = self.jobs.get_mut(id) {
            let lane = (message.spec.queue.clone(), message.spec.priority);
            let (sequence, before) = (message.sequence, std::mem::replace(&mut message.ready_at, at));
            let lane = self.lanes.entry(lane).or_default();
            lane.remove(&(before, sequence, id.to_owned()));
            lane.insert((at, sequence, id.to_owned()));
        }
    }

    fn remove(&mut self, id: &str, up_to: u64) -> bool {
        if self.jobs.get(id).is_none_or(|message| message.sequence > up_to) {
            return false;
        }
        if let Some(message) = self.jobs.remove(id) {
            let lane = (message.spec.queue, message.spec.priority);
            if let Some(lane) = self.lanes.get_mut(&lane) {
                lane.remove(&(message.ready_at, message.sequence, id.to_owned()));
            }
        }
        true
    }

    fn waiting(&self) -> Vec<&Message> {
        let mut all: Vec<&Message> = self.jobs.values().collect();
        all.sort_by_key(|message| message.sequence);
        all
    }
}

impl Message {
    fn waiting(&self) -> Waiting {
        Waiting { sequence: self.sequence, spec: self.spec.clone(), problem: None }
    }
}

#[async_trait]
impl Queue for Memory {
    async fn put_job(&self, spec: &JobSpec, _: &str) -> Result<bool, Error> {
        Ok(self.change(|state| {
            if state.jobs.contains_key(&spec.id) {
                return true;
            }
            let (sequence, ready_at) = (state.next(), Instant::now());
            let stored_at = SystemTime::now();
            let message = Message { spec: spec.clone(), sequence, deliveries: 0, ready_at, stored_at };
            state.jobs.insert(spec.id.clone(), message);
            state.set_ready(&spec.id, ready_at);
            false
        }))
    }

    async fn put_jobs(&self, specs: &[JobSpec]) -> Result<Vec<bool>, Error> {
        let mut stored = Vec::with_capacity(specs.len());
        for spec in specs {
            stored.push(!self.put_job(spec, "").await?);
        }
        Ok(stored)
    }

    async fn find_job(&self, id: &str) -> Result<Option<Waiting>, Error> {
        Ok(self.read(|state| state.jobs.get(id).map(Message::waiting)))
    }

    async fn drop_job(&self, id: &str, up_to: u64) -> Result<(), Error> {
        self.change(|state| state.remove(id, up_to));
        Ok(())
    }

    async fn bury_job(&self, spec: &JobSpec, _: RetryFor) -> Result<(), Error> {
        self.change(|state| state.dead.insert(spec.id.clone(), spec.clone()));
        Ok(())
    }

    async fn buried_job(&self, id: &str) -> Result<Option<JobSpec>, Error> {
        Ok(self.read(|state| state.dead.get(id).cloned()))
    }

    async fn jobs_from(&self, filter: &Filter, from: u64, most: usize) -> Result<JobPage, Error> {
        Ok(self.read(|state| {
            let is_meant = |message: &&Message| {
                let spec = &message.spec;
                message.sequence >= from
                    && filter.takes_queue(&spec.queue)
                    && filter.takes_labels(spec.title.as_deref(), &spec.tags)
            };
            let mut meant = state.waiting().into_iter().filter(is_meant);
            let jobs: Vec<Waiting> = meant.by_ref().take(most).map(Message::waiting).collect();
            JobPage { jobs, next: meant.next().map(|message| message.sequence) }
        }))
    }

    async fn jobs_with_message(&self, ids: &[&str]) -> Result<HashSet<String>, Error> {
        Ok(self.read(|state| {
            let waiting = ids.iter().filter(|id| state.jobs.contains_key(**id));
            waiting.map(|id| (*id).to_owned()).collect()
        }))
    }

    async fn queues(&self, _: &BTreeSet<String>, oldest: usize) -> Result<BTreeMap<String, Queued>, Error> {
        Ok(self.read(|state| {
            let mut queues: BTreeMap<String, Queued> = BTreeMap::new();
            for message in state.waiting() {
                let empty = || Queued { count: 0, oldest: Vec::new() };
                let queued = queues.entry(message.spec.queue.clone()).or_insert_with(empty);
                queued.count += 1;
                if queued.oldest.len() < oldest {
                    queued.oldest.push(message.waiting());
                }
            }
            queues
        }))
    }

    async fn lane(&self, queue: &str, priority: u8, _: RetryFor) -> Result<Arc<dyn Lane>, Error> {
        Ok(Arc::new(MemoryLane { engine: self.clone(), name: (queue.to_owned(), priority) }))
    }
}

struct MemoryLane {
    engine: Memory,
    name: (String, u8),
}

impl MemoryLane {
    fn take(&self, most: usize) -> Vec<Delivery> {
        let now = Instant::now();
        // Nothing is changed without need: each change wakes all who wait.
        if self.next_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.engine.change(|state| {
            let ready = state.lanes.get(&self.name).into_iter().flatten();
            let ready = ready.take_while(|(at, _, _)| *at <= now).take(most);
            let ids: Vec<String> = ready.map(|(_, _, id)| id.clone()).collect();
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                state.set_ready(&id, now + self.engine.0.lease);
                let Some(message) = state.jobs.get_mut(&id) else { continue };
                message.deliveries += 1;
                let held = Held {
                    engine: self.engine.clone(),
                    id,
                    sequence: message.sequence,
                    delivery: message.deliveries,
                };
                let age = (message.sequence, message.stored_at);
                let (spec, deliveries) = (message.spec.clone(), message.deliveries);
                let bytes = serde_json::to_vec(&spec).map_or(0, |spec| spec.len());
                found.push(Delivery::new((spec, bytes), false, deliveries, age, Box::new(held)));
            }
            found
        })
    }

    /// When the first message of the lane may be given out.
    fn next_at(&self) -> Option<Instant> {
        self.engine.read(|state| state.lanes.get(&self.name)?.first().map(|(at, _, _)| *at))
    }
}

#[async_trait]
impl Lane for MemoryLane {
    fn is_known_empty(&self) -> bool {
        self.next_at().is_none()
    }

    async fn pull(&self, most: usize) -> Result<Vec<Delivery>, Error> {
        Ok(self.take(most))
    }

    async fn pull_one(&self, within: Duration) -> Result<Option<Delivery>, Error> {
        let late = Instant::now() + within;
        loop {
            let changed = self.engine.changed();
            if let Some(found) = self.take(1).pop() {
                return Ok(Some(found));
            }
            if Instant::now() >= late {
                return Ok(None);
            }
            let look = self.next_at().map_or(late, |at| at.min(late));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(look.into()) => {}
            }
        }
    }

    async fn anew(&self) -> Result<Arc<dyn Lane>, Error> {
        Ok(Arc::new(MemoryLane { engine: self.engine.clone(), name: self.name.clone() }))
    }
}

/// A message in the hands of a worker.
struct Held {
    engine: Memory,
    id: String,
    sequence: u64,
    delivery: u64,
}

impl Held {
    /// Leaves the message alone for so long, if this delivery is its last one. False when it is not.
    fn rest(&self, length: Duration) -> bool {
        self.engine.change(|state| {
            let is_ours =
                |message: &Message| (message.sequence, message.deliveries) == (self.sequence, self.delivery);
            let is_last = state.jobs.get(&self.id).is_some_and(is_ours);
            if is_last {
                state.set_ready(&self.id, Instant::now() + length);
            }
            is_last
        })
    }
}

#[async_trait]
impl Holder for Held {
    async fn beat(&self) {
        self.rest(self.engine.0.lease);
    }

    async fn give_back(&self, delay: Duration) {
        self.rest(delay);
    }

    async fn take_up(&self) -> bool {
        self.rest(self.engine.0.lease)
    }

    async fn finish(&self) -> bool {
        self.engine.change(|state| {
            if state.jobs.get(&self.id).is_some_and(|message| message.sequence == self.sequence) {
                state.remove(&self.id, self.sequence);
            }
        });
        true
    }
}
