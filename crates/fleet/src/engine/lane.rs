//! Pulling from a queue: a lane, and a job's message in the hands of a worker.

use crate::spec::JobSpec;
use async_trait::async_trait;
use ground::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// One class of one queue, as a worker pulls from it.
#[async_trait]
pub(crate) trait Lane: Send + Sync + 'static {
    /// Whether the lane had no message when it was opened, so that a wait for one is all that there is to do.
    fn is_known_empty(&self) -> bool;

    /// Messages that are in the lane now, at most `most`; empty if there are none. Always returns: after the loss of the server
    /// it does not wait for an answer that never comes.
    async fn pull(&self, most: usize) -> Result<Vec<Delivery>, Error>;

    /// Waits for one message. The future must not be dropped early: a message that arrives for a dropped pull is idle for a
    /// whole lease.
    async fn pull_one(&self, within: Duration) -> Result<Option<Delivery>, Error>;

    /// Opens the lane again: what the server keeps of it may have been deleted, or lost with the server's disk.
    async fn anew(&self) -> Result<Arc<dyn Lane>, Error>;
}

/// A job's message in the hands of a worker.
pub(crate) struct Delivery {
    pub spec: JobSpec,
    /// Length of the stored spec.
    pub bytes: usize,
    /// Whether the message only names the spec, which is stored as an object.
    pub is_object: bool,
    /// Number of deliveries of the message, including this one.
    pub deliveries: u64,
    /// Sequence of the message. A retried job has another message.
    pub sequence: u64,
    /// By the engine's clock.
    pub stored_at: SystemTime,
    holder: Box<dyn Holder>,
    is_disposed: AtomicBool,
}

/// The hold of a worker on a message.
#[async_trait]
pub(crate) trait Holder: Send + Sync + 'static {
    /// The lease begins anew.
    async fn beat(&self);

    /// The message is delivered again after this delay.
    async fn give_back(&self, delay: Duration);

    /// The lease begins anew, also after the message was given back. True when the engine has heard it.
    async fn take_up(&self) -> bool;

    /// Takes the message off the queue. True when the engine has heard it.
    async fn finish(&self) -> bool;
}

impl Delivery {
    pub(crate) fn new(
        (spec, bytes): (JobSpec, usize),
        is_object: bool,
        deliveries: u64,
        (sequence, stored_at): (u64, SystemTime),
        holder: Box<dyn Holder>,
    ) -> Delivery {
        let is_disposed = AtomicBool::new(false);
        Delivery { spec, bytes, is_object, deliveries, sequence, stored_at, holder, is_disposed }
    }

    /// The holder is there: the lease begins anew.
    pub(crate) async fn beat(&self) {
        self.holder.beat().await;
    }

    /// Whether its holder has given it back, or taken it off the queue.
    pub(crate) fn is_disposed(&self) -> bool {
        self.is_disposed.load(Ordering::Acquire)
    }

    /// Returns the message to the queue, which delivers it again after this delay.
    pub(crate) async fn give_back(&self, delay: Duration) {
        self.is_disposed.store(true, Ordering::Release);
        self.holder.give_back(delay).await;
    }

    /// Takes the message back that was given back. It is the holder's again if the engine heard this before the delay was over:
    /// then nobody else got the message. True when the engine has heard it.
    pub(crate) async fn take_up(&self) -> bool {
        self.is_disposed.store(false, Ordering::Release);
        self.holder.take_up().await
    }

    /// Takes it off the queue. When the word is lost, the next worker finds the record over and says it again. True when the
    /// server has heard it.
    pub(crate) async fn finish(&self) -> bool {
        self.is_disposed.store(true, Ordering::Release);
        self.holder.finish().await
    }
}
