//! Holds a job for its attempt: renews the lease and the key's place, and watches the record. It is a task of its own, so that
//! a wait in the work or in the commit does not delay a renewal.

use crate::engine::{Delivery, Place, RecordWatch, RetryFor, Shared};
use crate::lease::{Beat, Lease};
use crate::record::{JobRecord, JobState};
use ground::os::sleep_until;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time until the record of a running job is watched, for example for a cancel.
const UNWATCHED_FOR: Duration = Duration::from_millis(50);

/// The worker's relation to the job; a later variant outranks an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Held,
    Cancelled,
    Fenced,
}

pub(super) struct Keeper {
    pub engine: Shared,
    pub id: Arc<str>,
    /// Token of the worker's claim.
    pub token: String,
    /// The delivery that holds the job; the server may have redelivered it to this worker.
    pub delivery: watch::Receiver<Arc<Delivery>>,
    pub place: Option<Place>,
    pub tell: watch::Sender<Standing>,
}

impl Keeper {
    /// Runs until it is dropped, or the job is another's.
    pub(super) async fn run(mut self, begun: Instant) {
        let mut lease = Lease::new(self.engine.lease(), begun);
        // A job that is over in a moment needs none: three messages to the server for each.
        let mut record = None;
        let mut watched_from = Some(tokio::time::Instant::from(begun + UNWATCHED_FOR));
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(lease.next().into()) => {
                    let beat = lease.beat(Instant::now());
                    if beat == Beat::LookFirst && !self.look().await {
                        return;
                    }
                    self.beat().await;
                    if let Some(place) = &mut self.place {
                        // A place that is lost limits one job less; it fences nothing.
                        let _ = self.engine.hold_place(place).await;
                    }
                }
                () = sleep_until(watched_from) => {
                    watched_from = None;
                    // It begins with the record as it is, so that nothing is missed.
                    record = self.engine.watch_record(&self.id).await.ok();
                }
                heard = hear(&mut record) => {
                    if heard.is_some_and(|heard| !self.judge(&heard)) {
                        return;
                    }
                }
                Ok(()) = self.delivery.changed() => {
                    // The message was redelivered to us: the server missed our beats, or lost them.
                    self.beat().await;
                    if !self.look().await {
                        return;
                    }
                }
            }
        }
    }

    async fn beat(&mut self) {
        let delivery = self.delivery.borrow_and_update().clone();
        delivery.beat().await;
    }

    /// Reads the record, for a moment: a server that is away says nothing, and the work goes on. False: the job is another's.
    async fn look(&mut self) -> bool {
        let retry_for = RetryFor(self.engine.lease() / 3);
        match self.engine.read_record(&self.id, retry_for).await {
            Ok(Some(kept)) => self.judge(&kept.record),
            // Removed, or lost with the server's disk: nothing can be committed over it.
            Ok(None) => self.tell(Standing::Fenced),
            Err(_) => true,
        }
    }

    fn judge(&self, record: &JobRecord) -> bool {
        let is_ours =
            record.state == JobState::Running && record.token.as_deref() == Some(self.token.as_str());
        let standing = match (is_ours, record.cancel_asked) {
            (false, _) => Standing::Fenced,
            (true, true) => Standing::Cancelled,
            (true, false) => return true,
        };
        self.tell(standing)
    }

    /// False: the job is another's.
    fn tell(&self, standing: Standing) -> bool {
        self.tell.send_if_modified(|last| {
            let is_news = *last < standing;
            if is_news {
                *last = standing;
            }
            is_news
        });
        standing != Standing::Fenced
    }
}

async fn hear(watch: &mut Option<RecordWatch>) -> Option<JobRecord> {
    match watch {
        Some(open) => match open.next().await {
            Ok(kept) => kept.map(|kept| kept.record),
            Err(_) => {
                // Looks go on with the beats.
                *watch = None;
                None
            }
        },
        None => std::future::pending().await,
    }
}
