//! Slots for turns, given out in the order of the requests. A turn holds its slot from before the start of its first process
//! until the tree of its last process is gone.

use super::hold::Holds;
use ground::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on the turns that run at once. All clones share it.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    slots: Arc<Semaphore>,
    /// Accounts at their usage limit, whose turns are held back.
    holds: Arc<Holds>,
}

impl ConcurrencyLimit {
    /// A harness's default number of turns at once.
    pub const DEFAULT: usize = 4;

    pub fn new(max: usize) -> Self {
        // The semaphore of tokio hands slots out in the order of the requests.
        let slots = Arc::new(Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS)));
        ConcurrencyLimit { slots, holds: Arc::default() }
    }

    pub(super) fn holds(&self) -> &Holds {
        &self.holds
    }
}

/// The right to run; dropping it lets the next one in.
#[derive(Debug)]
pub struct Slot {
    _permits: Vec<OwnedSemaphorePermit>,
}

/// Waits for a slot of every limit, in their order. The harness's own limit comes before a shared one, so that a turn that
/// waits for its own limit does not occupy a shared slot.
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

/// Work that begins when a turn or a session has its slot, for example a checkout. It gives the request that then runs.
pub type Preparation<Request> = Pin<Box<dyn Future<Output = Result<Request, Error>> + Send>>;

/// A place in the queue.
pub struct Waiting {
    slot: Pin<Box<dyn Future<Output = Slot> + Send>>,
    ready: Option<Slot>,
}

impl Waiting {
    /// Takes the place now, without waiting for it.
    pub fn begin(limits: Vec<ConcurrencyLimit>) -> Self {
        let mut slot: Pin<Box<dyn Future<Output = Slot> + Send>> =
            Box::pin(async move { acquire(&limits).await });
        // The first look is what puts it into the queue.
        let first = slot.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let ready = if let Poll::Ready(slot) = first { Some(slot) } else { None };
        Waiting { slot, ready }
    }

    /// Waits for the slot. Dropping the future gives the place in the queue up.
    pub async fn end(self) -> Slot {
        match self.ready {
            Some(slot) => slot,
            None => self.slot.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::mpsc;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_first_who_asked_is_the_first_who_runs() {
        let limit = ConcurrencyLimit::new(1);
        let (order, mut ran) = mpsc::unbounded_channel();
        for number in 0..5 {
            let (limit, order) = (limit.clone(), order.clone());
            ground::task::spawn(async move {
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
    async fn places_are_taken_when_asked_for_not_when_waited_for() {
        let limit = ConcurrencyLimit::new(1);
        let first = Waiting::begin(vec![limit.clone()]);
        let second = Waiting::begin(vec![limit.clone()]);
        let third = Waiting::begin(vec![limit]);
        let (order, mut ran) = mpsc::unbounded_channel();
        for (number, waiting) in [(3, third), (2, second), (1, first)] {
            let order = order.clone();
            ground::task::spawn(async move {
                let _slot = waiting.end().await;
                order.send(number).ok();
            });
        }
        drop(order);
        let mut all = Vec::new();
        while let Some(number) = ran.recv().await {
            all.push(number);
        }
        assert_eq!(all, [1, 2, 3]);
    }

    #[tokio::test]
    async fn one_who_gives_up_waiting_takes_no_slot() {
        let limit = ConcurrencyLimit::new(1);
        let slot = acquire(std::slice::from_ref(&limit)).await;
        let waiting = ground::task::spawn({
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
