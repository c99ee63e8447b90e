//! Jobs that a worker received and can't start: their key has no place, or this worker can't run them. They are given back with a
//! delay, so that a long queue of them costs nothing; see [`Spread`].
//!
//! The worker keeps a job whose key has no place. When a place may be free, the owner takes the job up again: at once after a
//! job of the key ended here, else by a look a second later. A look asks about the keys, not about the jobs.

use super::lot::{Lot, Parked};
use super::spread::Spread;
use crate::engine::{Delivery, Group, Shared};
use crate::presence::Presence;
use crate::retry_table::refusal_delay;
use ground::error::Error;
use ground::lock::lock;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Keys that are asked about one by one. The places of more keys are read together, with those of all other keys.
const MOST_QUESTIONS: usize = 8;
/// Shortest delay of a job that nobody can start now.
const LEAST_DELAY: Duration = Duration::from_secs(5);
/// Jobs of a worker that was killed come back after this time and the shortest delay, at the latest.
const SPAN: Duration = Duration::from_secs(300);
/// Time between two jobs that come back, where nobody can start them now.
const GAP: Duration = Duration::from_millis(100);
/// Jobs that another worker can run come back faster.
const SHORT_SPAN: Duration = Duration::from_secs(60);
const SHORT_GAP: Duration = Duration::from_millis(5);

/// When jobs come back that were given back.
struct Spreads {
    /// Jobs that wait for their key, by class: a high one does not wait for the low ones.
    keys: [Spread; 10],
    /// Jobs that no worker can run, and jobs that others can run.
    hopeless: Spread,
    wanted: Spread,
}

/// The workers of the fleet as they were read.
struct Workers {
    at: Instant,
    all: Arc<Vec<Presence>>,
}

/// Shared by the owner of a worker and its attempts.
#[derive(Clone)]
pub(super) struct Parking {
    engine: Shared,
    lot: Arc<Mutex<Lot<Arc<Delivery>>>>,
    spreads: Arc<Mutex<Spreads>>,
    workers: Arc<tokio::sync::Mutex<Option<Workers>>>,
    parked: Arc<Notify>,
    ready: Arc<Notify>,
    /// The worker closes: nothing waits here any more.
    is_left: Arc<AtomicBool>,
}

impl Parking {
    pub(super) fn new(engine: Shared) -> Parking {
        let spreads = Spreads {
            keys: std::array::from_fn(|_| Spread::new(GAP, SPAN)),
            hopeless: Spread::new(GAP, SPAN),
            wanted: Spread::new(SHORT_GAP, SHORT_SPAN),
        };
        Parking {
            engine,
            lot: Arc::new(Mutex::new(Lot::new())),
            spreads: Arc::new(Mutex::new(spreads)),
            workers: Arc::default(),
            parked: Arc::default(),
            ready: Arc::default(),
            is_left: Arc::default(),
        }
    }

    /// Resolves when a place may be free for a job that waits here.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Class of the job that [`Parking::take`] takes.
    pub(super) fn first(&self, paused: &BTreeSet<String>) -> Option<u8> {
        lock(&self.lot).first(paused, Instant::now())
    }

    /// Takes out the first job that may start.
    pub(super) fn take(&self, paused: &BTreeSet<String>) -> Option<Parked<Arc<Delivery>>> {
        lock(&self.lot).take(paused, Instant::now())
    }

    /// Whether jobs of the key wait here.
    pub(super) fn has(&self, key: &str) -> bool {
        lock(&self.lot).has(key)
    }

    /// Gives a job back whose key has no place, and keeps it.
    pub(super) async fn wait_for_place(&self, key: &str, delivery: Arc<Delivery>) {
        let (spec, begun) = (&delivery.spec, Instant::now());
        let delay = {
            let mut spreads = lock(&self.spreads);
            let class = usize::from(spec.priority).min(spreads.keys.len() - 1);
            spreads.keys[class].delay(LEAST_DELAY, begun)
        };
        // Given back first: it must not be taken up before that.
        delivery.give_back(delay).await;
        let job = Parked {
            until: begun + delay,
            queue: spec.queue.clone(),
            class: spec.priority,
            age: (delivery.stored_at, delivery.sequence),
            bytes: delivery.bytes,
            delivery: delivery.clone(),
        };
        lock(&self.lot).park(key, spec.key_limit, job);
        self.parked.notify_one();
        if self.is_left.load(Ordering::SeqCst) {
            self.leave().await;
        }
    }

    /// Gives a job back that this worker can't run.
    pub(super) async fn wait_for_worker(&self, delivery: &Delivery) {
        let spec = &delivery.spec;
        let can_run = |worker: &Presence| worker.may_run(&spec.queue, spec.handler.as_deref());
        let is_hopeless = self.workers().await.is_ok_and(|workers| !workers.iter().any(can_run));
        let (least, now) = (refusal_delay(delivery.deliveries, &spec.id), Instant::now());
        let delay = {
            let mut spreads = lock(&self.spreads);
            if is_hopeless {
                spreads.hopeless.delay(LEAST_DELAY, now)
            } else {
                spreads.wanted.delay(least, now)
            }
        };
        delivery.give_back(delay).await;
    }

    /// The job is here again.
    pub(super) fn on_returned(&self, delivery: &Delivery) {
        let spec = &delivery.spec;
        if let Some(key) = &spec.key {
            lock(&self.lot).forget(key, spec.priority, (delivery.stored_at, delivery.sequence));
        }
    }

    /// The key has no place.
    pub(super) fn on_full(&self, key: &str) {
        lock(&self.lot).set_free(key, 0);
    }

    /// A place of the key is free.
    pub(super) fn on_free(&self, key: &str) {
        lock(&self.lot).add_free(key);
        self.ready.notify_one();
    }

    /// The connection was lost: the server may have returned any of them.
    pub(super) fn on_connected(&self) {
        drop(lock(&self.lot).empty(Instant::now()));
    }

    /// Leaves all jobs to other workers.
    pub(super) async fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        let all = lock(&self.lot).empty(Instant::now());
        for delivery in all {
            delivery.give_back(Duration::ZERO).await;
        }
    }

    /// Looks as long as jobs wait. Runs until it is aborted.
    pub(super) async fn look_again_and_again(self) {
        loop {
            self.parked.notified().await;
            while !lock(&self.lot).is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
                // When nobody answers, the next look may know more.
                let _ = self.look().await;
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let keys = {
            let mut lot = lock(&self.lot);
            lot.sweep(Instant::now());
            lot.keys()
        };
        let mut all: HashMap<String, usize> = HashMap::new();
        let are_many = keys.len() > MOST_QUESTIONS;
        if are_many {
            for (place, _) in self.engine.places(&Group::Places).await? {
                *all.entry(place.name().to_owned()).or_default() += 1;
            }
        }
        for (key, limit) in &keys {
            let taken = if are_many {
                all.get(key).copied().unwrap_or(0)
            } else {
                self.engine.places_taken(key).await?.len()
            };
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            lock(&self.lot).set_free(key, limit.saturating_sub(taken));
        }
        self.ready.notify_one();
        Ok(())
    }

    /// The workers of the fleet; at most about a second old.
    async fn workers(&self) -> Result<Arc<Vec<Presence>>, Error> {
        let mut known = self.workers.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < LOOK_EVERY) {
            return Ok(known.all.clone());
        }
        let all = Arc::new(self.engine.workers().await?);
        *known = Some(Workers { at: Instant::now(), all: all.clone() });
        Ok(all)
    }
}

#[cfg(test)]
#[path = "parking_tests.rs"]
mod tests;
