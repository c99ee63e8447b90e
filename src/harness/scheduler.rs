//! Who may run: first come, first served. A slot is held from before the start of a turn's first process until the tree of
//! its last one is gone.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many turns at once, shared by whoever holds a clone.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    slots: Arc<Semaphore>,
}

impl ConcurrencyLimit {
    /// Of a harness, when nothing else is said.
    pub const DEFAULT: usize = 4;

    pub fn new(max: usize) -> Self {
        // The semaphore of tokio hands slots out in the order of the requests.
        ConcurrencyLimit { slots: Arc::new(Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS))) }
    }
}

/// The right to run; dropping it lets the next one in.
#[derive(Debug)]
pub struct Slot {
    _permits: Vec<OwnedSemaphorePermit>,
}

/// Waits for a slot of every limit, in their order: always the harness's own before a shared one, so that nobody who waits
/// for the shared one keeps another harness from it.
pub async fn acquire(limits: &[ConcurrencyLimit]) -> Slot {
    let mut permits = Vec::with_capacity(limits.len());
    for limit in limits {
        // The semaphore is never closed.
        if let Ok(permit) = limit.slots.clone().acquire_owned().await {
            permits.push(permit);
        }
    }
    Slot { _permits: permits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::mpsc;

    #[tokio::test(start_paused = true)]
    async fn the_first_who_asked_is_the_first_who_runs() {
        let limit = ConcurrencyLimit::new(1);
        let (order, mut ran) = mpsc::unbounded_channel();
        for number in 0..5 {
            let (limit, order) = (limit.clone(), order.clone());
            tokio::spawn(async move {
                let _slot = acquire(&[limit]).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                order.send(number).ok();
            });
            tokio::task::yield_now().await;
        }
        drop(order);
        let mut all = Vec::new();
        while let Some(number) = ran.recv().await {
            all.push(number);
        }
        assert_eq!(all, [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn one_who_gives_up_waiting_takes_no_slot() {
        let limit = ConcurrencyLimit::new(1);
        let slot = acquire(std::slice::from_ref(&limit)).await;
        let waiting = tokio::spawn({
            let limit = limit.clone();
            async move { acquire(&[limit]).await }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        let _ = waiting.await;
        drop(slot);
        acquire(&[limit]).await;
    }

    #[tokio::test]
    async fn a_shared_limit_holds_across_harnesses() {
        let shared = ConcurrencyLimit::new(1);
        let [one, other] = [ConcurrencyLimit::new(4), ConcurrencyLimit::new(4)];
        let slot = acquire(&[one, shared.clone()]).await;
        let blocked =
            tokio::time::timeout(Duration::from_millis(20), acquire(&[other.clone(), shared.clone()])).await;
        assert!(blocked.is_err());
        drop(slot);
        acquire(&[other, shared]).await;
    }
}
