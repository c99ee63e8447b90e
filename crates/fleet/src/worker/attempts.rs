//! The attempts that a worker runs, by their jobs.

use super::attempt::Attempt;
use crate::engine::Delivery;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

struct Running {
    task: Id,
    queue: String,
    delivery: watch::Sender<Arc<Delivery>>,
}

#[derive(Default)]
pub(super) struct Attempts {
    tasks: JoinSet<()>,
    running: HashMap<String, Running>,
}

impl Attempts {
    pub(super) fn count(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.running.contains_key(id)
    }

    pub(super) fn are(&self, ids: &BTreeSet<String>) -> bool {
        self.running.len() == ids.len() && ids.iter().all(|id| self.has(id))
    }

    pub(super) fn ids(&self) -> BTreeSet<String> {
        self.running.keys().cloned().collect()
    }

    pub(super) fn count_by_queue(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for job in self.running.values() {
            *counts.entry(job.queue.clone()).or_default() += 1;
        }
        counts
    }

    /// `delivery`: the sender of what `attempt` receives.
    pub(super) fn start(&mut self, delivery: watch::Sender<Arc<Delivery>>, attempt: Attempt) {
        let held = delivery.borrow().clone();
        let task = self.tasks.spawn(attempt.run()).id();
        let running = Running { task, queue: held.spec.queue.clone(), delivery };
        self.running.insert(held.spec.id.clone(), running);
    }

    /// Waits for the next attempt that ends. `None`: none runs.
    pub(super) async fn next_ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
        self.running.retain(|_, running| running.task != task);
        Some(())
    }

    /// Hands a message on that was delivered again to the attempt that holds it.
    pub(super) fn arrival_of(&self, delivery: &Arc<Delivery>) -> Arrival {
        let running = self.running.get(&delivery.spec.id);
        let held = running.map(|running| {
            let held = running.delivery.borrow();
            (held.sequence, held.is_disposed())
        });
        let arrival = arrival(held, delivery.sequence);
        if let (Arrival::Again, Some(running)) = (arrival, running) {
            running.delivery.send_replace(delivery.clone());
        }
        arrival
    }
}

/// The relation of a delivery to the attempts of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
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
mod tests {
    use super::*;

    #[test]
    fn a_job_that_comes_again_is_told_from_one_that_was_tried_again() {
        assert_eq!(arrival(None, 7), Arrival::New);
        assert_eq!(arrival(Some((7, false)), 7), Arrival::Again);
        // Given back a moment ago, and here again before its attempt's task was taken off the list.
        assert_eq!(arrival(Some((7, true)), 7), Arrival::New);
        assert_eq!(arrival(Some((7, false)), 9), Arrival::Early);
        assert_eq!(arrival(Some((7, true)), 9), Arrival::New);
    }
}
