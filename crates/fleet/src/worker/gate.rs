//! Admits jobs to a worker's process: jobs share it, except for a job that has to be alone in it.

use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    workers: usize,
    jobs: usize,
    /// A job runs alone, or waits until it can.
    is_taken: bool,
}

/// Shared by all workers of a fleet's handle: they are one process.
#[derive(Clone)]
pub(crate) struct Gate(Arc<watch::Sender<Inside>>);

/// A job inside; it leaves when this drops.
pub(super) struct Pass {
    gate: Gate,
    is_alone: bool,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(Arc::new(watch::Sender::new(Inside::default())))
    }

    /// `None`: a job is alone here, or is about to be.
    pub(super) fn enter(&self) -> Option<Pass> {
        let entered = self.0.send_if_modified(|inside| {
            let may = !inside.is_taken;
            inside.jobs += usize::from(may);
            may
        });
        entered.then(|| Pass { gate: self.clone(), is_alone: false })
    }

    /// Keeps others out from now on; inside and alone once [`Pass::alone`] resolves. `None`: another one was first.
    pub(super) fn enter_alone(&self) -> Option<Pass> {
        let entered = self.0.send_if_modified(|inside| !std::mem::replace(&mut inside.is_taken, true));
        entered.then(|| Pass { gate: self.clone(), is_alone: true })
    }

    /// Changes whenever somebody enters or leaves.
    pub(super) fn changes(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.subscribe()
    }

    /// Number of workers that share the process.
    pub(super) fn workers(&self) -> usize {
        self.0.borrow().workers
    }

    pub(super) fn on_worker(&self, is_there: bool) {
        self.0.send_modify(|inside| {
            inside.workers = if is_there { inside.workers + 1 } else { inside.workers.saturating_sub(1) };
        });
    }

    /// Whether nobody else may enter.
    pub(super) fn is_taken(&self) -> bool {
        self.0.borrow().is_taken
    }
}

impl Pass {
    /// Resolves when all others are gone.
    pub(super) async fn alone(&self) {
        let mut inside = self.gate.0.subscribe();
        // Fails only when the gate is gone, and this has a share in it.
        let _ = inside.wait_for(|inside| inside.jobs == 0).await;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.0.send_modify(|inside| {
            if self.is_alone {
                inside.is_taken = false;
            } else {
                inside.jobs -= 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn whoever_has_to_be_alone_waits_for_the_others_and_keeps_new_ones_out() {
        let gate = Gate::new();
        let (first, second) = (gate.enter().unwrap(), gate.enter().unwrap());
        let alone = gate.enter_alone().unwrap();
        assert!(gate.enter().is_none() && gate.enter_alone().is_none() && gate.is_taken());
        drop(first);
        assert!(alone.alone().now_or_never().is_none());
        drop(second);
        assert!(alone.alone().now_or_never().is_some());
        assert!(gate.enter().is_none());
        drop(alone);
        assert!(!gate.is_taken() && gate.enter().is_some());
    }
}
