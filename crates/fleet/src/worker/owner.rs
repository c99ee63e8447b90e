//! The owner task of a worker: fills its free slots with jobs, the highest class first, and ends in good order. A message that
//! arrives when no slot is free any more is given back at once.

use super::attempt::{ALONE_DELAY, Attempt};
use super::gate::Gate;
use super::instructions::{Instructions, read_paused};
use super::options::WorkerOptions;
use super::order::Order;
use super::parking::Parking;
use super::pulling::{Pulled, Pulling};
use crate::engine::{Announcement, Delivery, Shared};
use bytes::Bytes;
use ground::error::Error;
use ground::mpsc;
use ground::os::sleep_until;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

/// Delay of a message until an earlier attempt at the same job, which is at its end, has left this worker.
const EARLY_DELAY: Duration = Duration::from_millis(100);
/// Delay of a message of a queue that was paused while it was on its way.
const PAUSED_DELAY: Duration = Duration::from_millis(250);
/// Shortest time between two announcements of the running jobs.
const MIN_PRESENCE_PAUSE: Duration = Duration::from_secs(1);

struct Running {
    task: Id,
    queue: String,
    delivery: watch::Sender<Arc<Delivery>>,
}

pub(super) struct Owner {
    engine: Shared,
    name: Arc<str>,
    /// This worker among all that ever had its name.
    instance: Arc<str>,
    options: WorkerOptions,
    gate: Gate,
    parking: Parking,
    orders: mpsc::Receiver<Order>,
    paused: watch::Receiver<BTreeSet<String>>,
    pulling: Pulling,
    attempts: JoinSet<()>,
    running: HashMap<String, Running>,
    drain: watch::Sender<bool>,
    /// Set once the worker closes: the time when running jobs are stopped, if any.
    closing: Option<Option<Instant>>,
}

impl Owner {
    /// `orders`: of the worker's handle.
    pub(super) async fn new(
        engine: Shared,
        name: Arc<str>,
        options: WorkerOptions,
        gate: Gate,
        orders: (mpsc::WeakSender<Order>, mpsc::Receiver<Order>),
    ) -> Result<Owner, Error> {
        let queues = &options.queues;
        let instance: Arc<str> = ground::random::name::<8>().into();
        let presence = Presence { name: &name, instance: &instance, options: &options };
        // All at once: on a slow link that is one round trip. From here on the worker is known.
        let (opened, (), _) = futures_util::future::join3(
            futures_util::future::try_join(Pulling::open(&engine, queues), read_paused(&engine, queues)),
            announce(engine.clone(), presence.of(&HashMap::new(), &BTreeSet::new(), false)),
            // Is known for a moment: the first job does not wait for it.
            engine.check_room(),
        )
        .await;
        let (pulling, paused) = opened?;
        let (tell, paused) = watch::channel(paused);
        let instructions = Instructions {
            engine: engine.clone(),
            worker: name.clone(),
            instance: instance.clone(),
            queues: queues.clone(),
            paused: tell,
            orders: orders.0,
        };
        ground::task::spawn(instructions.follow());
        let parking = Parking::new(engine.clone());
        Ok(Owner {
            engine,
            name,
            instance,
            options,
            gate,
            parking,
            orders: orders.1,
            paused,
            pulling,
            attempts: JoinSet::new(),
            running: HashMap::new(),
            drain: watch::Sender::new(false),
            closing: None,
        })
    }

    pub(super) async fn run(mut self) {
        self.gate.on_worker(true);
        ground::task::spawn(git::sweep(self.options.git.folder.clone()));
        let parking = self.parking.clone();
        let looking = ground::task::spawn(parking.clone().look_again_and_again());
        let (mut connections, mut gate) = (self.engine.connections(), self.gate.changes());
        // Nothing was asked before now that a lost connection could have lost.
        connections.mark_unchanged();
        // Changes of the running jobs are announced soon, but not one by one: each announcement is a write to the server's disk.
        let (rest, pause) = (self.engine.lease() / 3, (self.engine.lease() / 10).max(MIN_PRESENCE_PAUSE));
        let (mut presence, mut told) = (Instant::now(), Vec::new());
        let mut is_closing = false;
        loop {
            if self.is_over() {
                break;
            }
            if self.closing.is_none() {
                self.fill();
            } else if !std::mem::replace(&mut is_closing, true) {
                presence = Instant::now();
            }
            if told.len() != self.running.len() || !told.iter().all(|id| self.running.contains_key(id)) {
                presence = presence.min(Instant::now() + pause);
            }
            let paused_until = self.pulling.paused_until;
            tokio::select! {
                order = self.orders.recv() => self.on_order(order),
                Ok(()) = self.paused.changed() => {
                    // Waits on other queues begin anew.
                    self.on_connected();
                    presence = Instant::now();
                }
                Some(pulled) = self.pulling.next() => self.on_pulled(pulled).await,
                Some(ended) = self.attempts.join_next_with_id() => {
                    let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
                    self.running.retain(|_, running| running.task != task);
                    self.pulling.probe_again();
                }
                () = parking.ready() => {}
                // A job that was alone, maybe another worker's, is gone.
                Ok(()) = gate.changed() => {}
                // The server may have forgotten who waits.
                Ok(()) = connections.changed() => {
                    self.parking.on_connected();
                    self.on_connected();
                }
                () = tokio::time::sleep_until(presence) => {
                    presence = Instant::now() + rest;
                    told = self.announce();
                }
                () = sleep_until(paused_until) => self.pulling.paused_until = None,
                () = sleep_until(self.closing.flatten()) => {
                    self.closing = Some(None);
                    self.drain.send_replace(true);
                }
            }
        }
        looking.abort();
        self.gate.on_worker(false);
        let presence = Announcement::Worker(self.instance.to_string());
        self.engine.forget(&presence).await;
    }

    /// Pulls that are under way are waited for: what they bring is given back.
    fn is_over(&self) -> bool {
        self.closing.is_some() && self.attempts.is_empty() && self.pulling.is_idle()
    }

    fn free(&self) -> usize {
        if self.gate.is_taken() {
            return 0;
        }
        self.options.concurrency.saturating_sub(self.attempts.len())
    }

    /// Fills the free slots: with jobs that waited here for their key, and with jobs of the lanes. The higher class goes first.
    /// In the same class a job that waited here goes first, because it is older.
    fn fill(&mut self) {
        loop {
            let (room, paused) = (self.free(), self.paused.borrow().clone());
            let class = self.parking.first(&paused);
            self.pulling.pull(room, &paused, class);
            if room == 0 || !class.is_some_and(|class| self.pulling.is_first(class, &paused)) {
                return;
            }
            let Some(parked) = self.parking.take(&paused) else { return };
            // Otherwise its message was returned meanwhile, or an earlier attempt is at its end: it comes again.
            if !self.running.contains_key(&parked.delivery.spec.id) {
                self.start(parked.delivery, Some(parked.until));
            }
        }
    }

    fn on_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Close) if self.closing.is_none() => {
                let end = self.options.drain_timeout.map(|timeout| Instant::now() + timeout);
                self.closing = Some(end);
            }
            Some(Order::Close) => return,
            Some(Order::Stop) | None => {
                self.closing = Some(None);
                self.drain.send_replace(true);
            }
        }
        self.pulling.abandon_waits();
        // Also what waits here can go on elsewhere.
        let parking = self.parking.clone();
        ground::task::spawn(async move { parking.leave().await });
    }

    fn on_connected(&mut self) {
        if self.closing.is_none() {
            self.pulling.abandon_waits();
            self.pulling.probe_again();
        }
    }

    async fn on_pulled(&mut self, pulled: Pulled) {
        let goes_on = self.closing.is_none() && *self.engine.is_connected().borrow();
        let found = self.pulling.on_pulled(pulled, goes_on, &self.paused.borrow());
        for delivery in found {
            self.on_delivery(delivery).await;
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
        if self.paused.borrow().contains(&delivery.spec.queue) {
            return delivery.give_back(PAUSED_DELAY).await;
        }
        if self.free() == 0 || self.closing.is_some() {
            // Not at once to a worker whose job has to be alone: that would be this one again.
            let delay = if self.gate.is_taken() { ALONE_DELAY } else { Duration::ZERO };
            return delivery.give_back(delay).await;
        }
        self.start(Arc::new(delivery), None);
    }

    /// `until`: the job waited here, and the server returns it then.
    fn start(&mut self, delivery: Arc<Delivery>, until: Option<std::time::Instant>) {
        let (id, queue) = (delivery.spec.id.clone(), delivery.spec.queue.clone());
        let (sender, receiver) = watch::channel(delivery);
        let attempt = Attempt {
            engine: self.engine.clone(),
            worker: self.name.clone(),
            host: self.options.host.clone(),
            git: self.options.git.clone(),
            delivery: receiver,
            drain: self.drain.subscribe(),
            gate: self.gate.clone(),
            parking: self.parking.clone(),
            until,
            is_only: self.options.concurrency == 1 && self.gate.workers() == 1,
        };
        let task = self.attempts.spawn(attempt.run()).id();
        self.running.insert(id, Running { task, queue, delivery: sender });
    }

    /// Announces this worker and its running jobs, for `fleet status`. Returns the announced jobs.
    fn announce(&self) -> Vec<String> {
        let presence = Presence { name: &self.name, instance: &self.instance, options: &self.options };
        let presence = presence.of(&self.running, &self.paused.borrow(), self.closing.is_some());
        ground::task::spawn(announce(self.engine.clone(), presence));
        self.running.keys().cloned().collect()
    }
}

/// The facts in the presence message of a worker that stay the same.
struct Presence<'a> {
    name: &'a str,
    instance: &'a str,
    options: &'a WorkerOptions,
}

impl Presence<'_> {
    fn of(
        &self,
        running: &HashMap<String, Running>,
        paused: &BTreeSet<String>,
        is_closing: bool,
    ) -> (Announcement, Bytes) {
        let ids: BTreeSet<&String> = running.keys().collect();
        let mut running_of: BTreeMap<&str, usize> = BTreeMap::new();
        for job in running.values() {
            *running_of.entry(&job.queue).or_default() += 1;
        }
        let facts = serde_json::json!({
            "name": self.name,
            "instance": self.instance,
            "pid": std::process::id(),
            "queues": self.options.queues,
            "paused": paused,
            "concurrency": self.options.concurrency,
            "handlers": self.options.host.handlers(),
            "agents": self.options.host.runs_agents(),
            "running": ids,
            "runningOf": running_of,
            "closing": is_closing,
        });
        (Announcement::Worker(self.instance.to_owned()), Bytes::from(facts.to_string()))
    }
}

async fn announce(engine: Shared, (presence, facts): (Announcement, Bytes)) {
    // Without it the worker is missing in the status alone.
    let _ = engine.announce(&presence, facts, engine.lease()).await;
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
