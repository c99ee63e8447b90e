//! The owner task of a worker: fills its free slots with jobs, the highest class first, and ends in good order. A message that
//! arrives when no slot is free any more is given back at once.

use super::announcer::Announcer;
use super::attempt::Attempt;
use super::attempts::{Arrival, Attempts};
use super::claim::{ALONE_DELAY, Candidate};
use super::gate::Gate;
use super::instructions::{Instructions, read_paused};
use super::options::WorkerOptions;
use super::order::Order;
use super::parking::Parking;
use super::pulling::{Pulled, Pulling};
use crate::engine::{Delivery, Shared};
use ground::error::Error;
use ground::mpsc;
use ground::os::sleep_until;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Delay of a message until an earlier attempt at the same job, which is at its end, has left this worker.
const EARLY_DELAY: Duration = Duration::from_millis(100);
/// Delay of a message of a queue that was paused while it was on its way.
const PAUSED_DELAY: Duration = Duration::from_millis(250);

pub(super) struct Owner {
    engine: Shared,
    name: Arc<str>,
    options: WorkerOptions,
    gate: Gate,
    parking: Parking,
    orders: mpsc::Receiver<Order>,
    paused: watch::Receiver<BTreeSet<String>>,
    pulling: Pulling,
    attempts: Attempts,
    announcer: Announcer,
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
        let announcer = Announcer::new(engine.clone(), &name, &instance, &options);
        // All at once: on a slow link that is one round trip. From here on the worker is known.
        let (opened, (), _) = futures_util::future::join3(
            futures_util::future::try_join(Pulling::open(&engine, queues), read_paused(&engine, queues)),
            announcer.announced(),
            // Is known for a moment: the first job does not wait for it.
            engine.check_room(),
        )
        .await;
        let (pulling, paused) = opened?;
        let (tell, paused) = watch::channel(paused);
        let instructions = Instructions {
            engine: engine.clone(),
            worker: name.clone(),
            instance,
            queues: queues.clone(),
            paused: tell,
            orders: orders.0,
        };
        ground::task::spawn(instructions.follow());
        let parking = Parking::new(engine.clone());
        Ok(Owner {
            engine,
            name,
            options,
            gate,
            parking,
            orders: orders.1,
            paused,
            pulling,
            attempts: Attempts::default(),
            announcer,
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
        let mut is_closing = false;
        loop {
            if self.is_over() {
                break;
            }
            if self.closing.is_none() {
                self.fill();
            } else if !std::mem::replace(&mut is_closing, true) {
                self.announcer.due = Instant::now();
            }
            self.announcer.on_jobs(&self.attempts);
            let paused_until = self.pulling.paused_until;
            tokio::select! {
                order = self.orders.recv() => self.on_order(order),
                Ok(()) = self.paused.changed() => {
                    // Waits on other queues begin anew.
                    self.on_connected();
                    self.announcer.due = Instant::now();
                }
                Some(pulled) = self.pulling.next() => self.on_pulled(pulled).await,
                Some(()) = self.attempts.next_ended() => self.pulling.probe_again(),
                () = parking.ready() => {}
                // A job that was alone, maybe another worker's, is gone.
                Ok(()) = gate.changed() => {}
                // The server may have forgotten who waits.
                Ok(()) = connections.changed() => {
                    self.parking.on_connected();
                    self.on_connected();
                }
                () = tokio::time::sleep_until(self.announcer.due) => {
                    self.announcer.announce(&self.attempts, &self.paused.borrow(), self.closing.is_some());
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
        self.announcer.forget().await;
    }

    /// Pulls that are under way are waited for: what they bring is given back.
    fn is_over(&self) -> bool {
        self.closing.is_some() && self.attempts.count() == 0 && self.pulling.is_idle()
    }

    fn free(&self) -> usize {
        if self.gate.is_taken() {
            return 0;
        }
        self.options.concurrency.saturating_sub(self.attempts.count())
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
            if !self.attempts.has(&parked.delivery.spec.id) {
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
        let delivery = Arc::new(delivery);
        match self.attempts.arrival_of(&delivery) {
            Arrival::New => {}
            Arrival::Again => return,
            Arrival::Early => return delivery.give_back(EARLY_DELAY).await,
        }
        if self.paused.borrow().contains(&delivery.spec.queue) {
            return delivery.give_back(PAUSED_DELAY).await;
        }
        if self.free() == 0 || self.closing.is_some() {
            // Not at once to a worker whose job has to be alone: that would be this one again.
            let delay = if self.gate.is_taken() { ALONE_DELAY } else { Duration::ZERO };
            return delivery.give_back(delay).await;
        }
        self.start(delivery, None);
    }

    /// `until`: the job waited here, and the server returns it then.
    fn start(&mut self, delivery: Arc<Delivery>, until: Option<std::time::Instant>) {
        let (sender, receiver) = watch::channel(delivery);
        let job = Candidate {
            engine: self.engine.clone(),
            worker: self.name.clone(),
            delivery: receiver,
            drain: self.drain.subscribe(),
            gate: self.gate.clone(),
            until,
            is_only: self.options.concurrency == 1 && self.gate.workers() == 1,
        };
        let (host, git) = (self.options.host.clone(), self.options.git.clone());
        let attempt = Attempt { job, host, git, parking: self.parking.clone() };
        self.attempts.start(sender, attempt);
    }
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
