//! The owner task of a worker: pulls jobs into its free slots, the highest class first, and ends in good order.
//!
//! While slots are free it asks all lanes for messages that are there now (a `probe`). It then waits on each empty lane for a
//! message, and does not probe that lane meanwhile. A message that arrives when no slot is free any more is given back at once.
//! A probe is never cut off: its messages would be idle for a whole lease.

use super::attempt::{ALONE_DELAY, Attempt};
use super::gate::Gate;
use super::options::WorkerOptions;
use crate::engine::{Announcement, Delivery, Lane, RetryFor, Shared, classes};
use bytes::Bytes;
use ground::error::Error;
use ground::os::sleep_until;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

/// Duration of one wait on a lane.
const WAIT: Duration = Duration::from_secs(20);
/// Pause after a failed pull, when the server is away.
const PAUSE: Duration = Duration::from_millis(250);

/// A word to the owner.
pub(super) enum Order {
    Close,
    Stop,
}

/// Delay of a message until an earlier attempt at the same job, which is at its end, has left this worker.
const EARLY_DELAY: Duration = Duration::from_millis(100);
/// Shortest time between two announcements of the running jobs.
const MIN_PRESENCE_PAUSE: Duration = Duration::from_secs(1);

/// The result of a pull from the lanes.
enum Pulled {
    Probe {
        found: Vec<Delivery>,
        empty: Vec<usize>,
    },
    Wait {
        lane: usize,
        delivery: Option<Box<Delivery>>,
    },
    /// The lane gave no answer. `is_probe`: it was asked in a probe.
    Trouble {
        lane: usize,
        is_probe: bool,
    },
    /// A lane whose consumer was made anew, if that worked.
    Renewed {
        index: usize,
        lane: Option<Arc<dyn Lane>>,
    },
}

struct Running {
    task: Id,
    delivery: watch::Sender<Arc<Delivery>>,
}

pub(super) struct Owner {
    engine: Shared,
    name: Arc<str>,
    options: WorkerOptions,
    gate: Gate,
    orders: mpsc::Receiver<Order>,
    /// Class by class, in each all queues.
    lanes: Arc<Vec<Arc<dyn Lane>>>,
    waits: Vec<Option<AbortHandle>>,
    is_probing: bool,
    /// Whether the lanes may have something that no wait will bring.
    is_probe_due: bool,
    paused_until: Option<Instant>,
    pulls: JoinSet<Pulled>,
    attempts: JoinSet<()>,
    running: HashMap<String, Running>,
    drain: watch::Sender<bool>,
    /// Set once the worker closes: the time when running jobs are stopped, if any.
    closing: Option<Option<Instant>>,
}

impl Owner {
    pub(super) async fn new(
        engine: Shared,
        name: Arc<str>,
        options: WorkerOptions,
        gate: Gate,
        orders: mpsc::Receiver<Order>,
    ) -> Result<Owner, Error> {
        // All at once: a slow link costs one round trip, not one for each lane.
        let queues = &options.queues;
        let asked = classes().flat_map(|class| {
            queues.iter().map({
                let engine = &engine;
                move |queue| engine.lane(queue, class, RetryFor::WORK)
            })
        });
        let lanes = futures_util::future::try_join_all(asked).await?;
        Ok(Owner {
            waits: vec![const { None }; lanes.len()],
            lanes: Arc::new(lanes),
            engine,
            name,
            options,
            gate,
            orders,
            is_probing: false,
            is_probe_due: true,
            paused_until: None,
            pulls: JoinSet::new(),
            attempts: JoinSet::new(),
            running: HashMap::new(),
            drain: watch::Sender::new(false),
            closing: None,
        })
    }

    pub(super) async fn run(mut self) {
        self.gate.on_worker(true);
        tokio::spawn(super::checkout::sweep(self.options.git.folder.clone()));
        let (mut connections, mut gate) = (self.engine.connections(), self.gate.changes());
        // Changes of the running jobs are announced soon, but not one by one: each announcement is a write to the server's disk.
        let (rest, pause) = (self.engine.lease() / 3, (self.engine.lease() / 10).max(MIN_PRESENCE_PAUSE));
        let (mut presence, mut told) = (Instant::now(), Vec::new());
        loop {
            if self.is_over() {
                break;
            }
            self.pull();
            if told.len() != self.running.len() || !told.iter().all(|id| self.running.contains_key(id)) {
                presence = presence.min(Instant::now() + pause);
            }
            tokio::select! {
                order = self.orders.recv() => self.on_order(order),
                Some(pulled) = self.pulls.join_next() => {
                    if let Ok(pulled) = pulled {
                        self.on_pulled(pulled).await;
                    }
                }
                Some(ended) = self.attempts.join_next_with_id() => {
                    let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
                    self.running.retain(|_, running| running.task != task);
                    self.is_probe_due = true;
                }
                // A job that was alone, maybe another worker's, is gone.
                Ok(()) = gate.changed() => {}
                // The server may have forgotten who waits.
                Ok(()) = connections.changed() => self.on_connected(),
                () = tokio::time::sleep_until(presence) => {
                    presence = Instant::now() + rest;
                    told = self.announce();
                }
                () = sleep_until(self.paused_until) => self.paused_until = None,
                () = sleep_until(self.closing.flatten()) => {
                    self.closing = Some(None);
                    self.drain.send_replace(true);
                }
            }
        }
        self.gate.on_worker(false);
        let presence = Announcement::Worker(self.name.to_string());
        self.engine.forget(&presence).await;
    }

    /// Pulls that are under way are waited for: what they bring is given back.
    fn is_over(&self) -> bool {
        self.closing.is_some() && self.attempts.is_empty() && self.pulls.is_empty()
    }

    fn free(&self) -> usize {
        if self.gate.is_taken() {
            return 0;
        }
        self.options.concurrency.saturating_sub(self.attempts.len())
    }

    fn on_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Close) if self.closing.is_none() => {
                let end = self.options.drain_timeout.map(|timeout| Instant::now() + timeout);
                self.closing = Some(end);
                self.abandon_waits();
            }
            Some(Order::Close) => {}
            Some(Order::Stop) | None => {
                self.closing = Some(None);
                self.drain.send_replace(true);
                self.abandon_waits();
            }
        }
    }

    /// Takes the waits back: the server gives nothing to those who are gone. A job that is given out at this very moment comes
    /// back with its lease.
    fn abandon_waits(&mut self) {
        for wait in self.waits.iter_mut().filter_map(Option::take) {
            wait.abort();
        }
    }

    fn on_connected(&mut self) {
        if self.closing.is_none() {
            self.abandon_waits();
            self.is_probe_due = true;
        }
    }

    /// Asks for jobs as far as there is room for them.
    fn pull(&mut self) {
        if self.closing.is_some() || self.is_probing || self.paused_until.is_some() || self.free() == 0 {
            return;
        }
        let asked: Vec<usize> = (0..self.lanes.len()).filter(|lane| self.waits[*lane].is_none()).collect();
        if self.is_probe_due && !asked.is_empty() {
            self.is_probing = true;
            self.is_probe_due = false;
            self.pulls.spawn(probe(self.lanes.clone(), asked, self.free()));
            return;
        }
        self.is_probe_due = false;
        for lane in asked {
            self.wait(lane);
        }
    }

    /// Has the server tell when there is something in the lane.
    fn wait(&mut self, lane: usize) {
        if self.closing.is_some() || self.waits[lane].is_some() {
            return;
        }
        let lanes = self.lanes.clone();
        let wait = self.pulls.spawn(async move {
            match lanes[lane].pull_one(WAIT).await {
                Ok(delivery) => Pulled::Wait { lane, delivery: delivery.map(Box::new) },
                Err(_) => Pulled::Trouble { lane, is_probe: false },
            }
        });
        self.waits[lane] = Some(wait);
    }

    /// Makes the lane's consumer anew, unless it is the server that is away.
    fn renew(&mut self, index: usize) {
        if self.closing.is_some() || !*self.engine.is_connected().borrow() {
            return;
        }
        let lane = self.lanes[index].clone();
        self.pulls.spawn(async move { Pulled::Renewed { index, lane: lane.anew().await.ok() } });
    }

    async fn on_pulled(&mut self, pulled: Pulled) {
        match pulled {
            Pulled::Probe { found, empty } => {
                self.is_probing = false;
                // Not asked again before a wait says that there is something, so that a long lane's probes are one question each.
                for lane in empty {
                    self.wait(lane);
                }
                // A probe that found messages is repeated, because there may be more.
                self.is_probe_due |= !found.is_empty();
                for delivery in found {
                    self.on_delivery(delivery).await;
                }
            }
            Pulled::Wait { lane, delivery } => {
                self.waits[lane] = None;
                if let Some(delivery) = delivery {
                    self.is_probe_due = true;
                    self.on_delivery(*delivery).await;
                }
            }
            Pulled::Trouble { lane, is_probe } => {
                if is_probe {
                    self.is_probing = false;
                } else {
                    self.waits[lane] = None;
                }
                self.is_probe_due = true;
                self.paused_until = Some(Instant::now() + PAUSE);
                self.renew(lane);
            }
            Pulled::Renewed { index, lane } => {
                if let Some(lane) = lane {
                    Arc::make_mut(&mut self.lanes)[index] = lane;
                }
            }
        }
    }

    async fn on_delivery(&mut self, delivery: Delivery) {
        let running = self.running.get(&delivery.spec.id);
        let held = running.map(|running| {
            let held = running.delivery.borrow();
            (held.sequence, held.is_disposed())
        });
        match (arrival(held, delivery.sequence), running) {
            (Arrival::Again, Some(running)) => {
                running.delivery.send_replace(Arc::new(delivery));
                return;
            }
            (Arrival::Early, _) => return delivery.give_back(EARLY_DELAY).await,
            _ => {}
        }
        if self.free() == 0 || self.closing.is_some() {
            // Not at once to a worker whose job has to be alone: that would be this one again.
            let delay = if self.gate.is_taken() { ALONE_DELAY } else { Duration::ZERO };
            return delivery.give_back(delay).await;
        }
        let id = delivery.spec.id.clone();
        let (sender, receiver) = watch::channel(Arc::new(delivery));
        let attempt = Attempt {
            engine: self.engine.clone(),
            worker: self.name.clone(),
            host: self.options.host.clone(),
            git: self.options.git.clone(),
            delivery: receiver,
            drain: self.drain.subscribe(),
            gate: self.gate.clone(),
            is_only: self.options.concurrency == 1 && self.gate.workers() == 1,
        };
        let task = self.attempts.spawn(attempt.run()).id();
        self.running.insert(id, Running { task, delivery: sender });
    }

    /// Announces this worker and its running jobs, for `fleet status`. Returns the announced jobs.
    fn announce(&self) -> Vec<String> {
        let (engine, presence) = (self.engine.clone(), Announcement::Worker(self.name.to_string()));
        let mut running: Vec<String> = self.running.keys().cloned().collect();
        running.sort();
        let facts = serde_json::json!({
            "name": &*self.name,
            "pid": std::process::id(),
            "queues": self.options.queues,
            "concurrency": self.options.concurrency,
            "handlers": self.options.host.handlers(),
            "agents": self.options.host.runs_agents(),
            "running": running,
            "closing": self.closing.is_some(),
        });
        tokio::spawn(async move {
            let length = engine.lease();
            let _ = engine.announce(&presence, Bytes::from(facts.to_string()), length).await;
        });
        running
    }
}

/// Asks these lanes one after the other for as much as there is room for.
async fn probe(lanes: Arc<Vec<Arc<dyn Lane>>>, asked: Vec<usize>, room: usize) -> Pulled {
    let (mut found, mut empty) = (Vec::new(), Vec::new());
    for lane in asked {
        match lanes[lane].pull(room - found.len()).await {
            Ok(some) if some.is_empty() => empty.push(lane),
            Ok(some) => found.extend(some),
            Err(_) if found.is_empty() => return Pulled::Trouble { lane, is_probe: true },
            Err(_) => break,
        }
        if found.len() >= room {
            break;
        }
    }
    Pulled::Probe { found, empty }
}

/// The relation of a delivery to the attempts of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    New,
    /// The server missed our beats and redelivered the message: the running attempt continues with it.
    Again,
    /// A new message of a retried job, whose earlier attempt has not left this worker yet.
    Early,
}

/// `held`: the sequence of the message of an attempt at the same job, and whether that attempt is done with it.
fn arrival(held: Option<(u64, bool)>, sequence: u64) -> Arrival {
    match held {
        None | Some((_, true)) => Arrival::New,
        Some((held, false)) if held == sequence => Arrival::Again,
        Some(_) => Arrival::Early,
    }
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
