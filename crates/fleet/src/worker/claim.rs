//! Claims a job for this worker: its record says whether it may run here, and the claim is the next state of that record.

use super::gate::{Gate, Pass};
use crate::engine::{Delivery, Kept, Refused, RetryFor, Shared};
use crate::record::{JobRecord, JobState};
use crate::retry_table::refusal_delay;
use crate::spec::JobSpec;
use crate::submitter::now;
use crate::transition::Claim;
use ground::random;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Somebody else is at the same record right now.
pub(super) const CONFLICT_DELAY: Duration = Duration::from_millis(200);
/// Delay with which jobs are returned to other workers while a job has to be alone in this one.
pub(super) const ALONE_DELAY: Duration = Duration::from_secs(1);
/// Delay of a job while the store has no room for new records.
const FULL_DELAY: Duration = Duration::from_secs(5);

/// A job whose message this worker received.
pub(super) struct Candidate {
    pub engine: Shared,
    pub worker: Arc<str>,
    pub delivery: watch::Receiver<Arc<Delivery>>,
    /// True when the worker has to give it up.
    pub drain: watch::Receiver<bool>,
    pub gate: Gate,
    /// The job was given back and waited here: the server returns it then.
    pub until: Option<Instant>,
    /// The worker has one place only, and its process no other worker.
    pub is_only: bool,
}

/// Why a job was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRun {
    /// It is over, another worker has it, or it has to wait.
    Itself,
    /// Something that other jobs would meet as well: no room in the store or in the worker, or no answer.
    Anything,
}

/// A job that this worker holds.
pub(super) struct Claimed {
    pub kept: Kept,
    /// The worker of the attempt before.
    pub last_worker: Option<String>,
    /// Keeps a job that has to be alone out of this worker.
    pub _pass: Pass,
}

impl Candidate {
    pub(super) async fn claim(&mut self, delivery: &Delivery, spec: &JobSpec) -> Result<Claimed, NotRun> {
        let Some(token) = random::key::<12>() else { return Err(returned(delivery, CONFLICT_DELAY).await) };
        // It has a record all the same if it was tried again, or cancelled before anybody had it.
        if delivery.deliveries == 1
            && let Some(claimed) = self.claim_new(delivery, spec, &token).await
        {
            return claimed;
        }
        // Both at once: on a slow link that is one round trip.
        let (read, room) =
            futures_util::future::join(self.read(delivery, spec), self.engine.check_room()).await;
        let (mut record, mut revision) = read?;
        if record.state == JobState::Running && self.is_run_elsewhere(spec).await {
            return Err(NotRun::Itself);
        }
        // Only what is about to run has to be alone; what its loss comes to is written first.
        let must_be_alone = record.state == JobState::Queued && record.must_run_alone();
        let pass = if must_be_alone { self.gate.enter_alone() } else { self.gate.enter() };
        let Some(pass) = pass else { return Err(returned(delivery, ALONE_DELAY).await) };
        if must_be_alone {
            if !self.wait_until_alone(&pass).await {
                return Err(returned(delivery, Duration::ZERO).await);
            }
            // Read the record again, because the step before may have taken long.
            (record, revision) = self.read(delivery, spec).await?;
        }
        if revision == 0 && room.is_err() {
            return Err(returned(delivery, FULL_DELAY).await);
        }
        let claim = record.claim(&self.worker, &token, must_be_alone || self.is_only, now());
        let kept = self.write(claim, revision, delivery, spec).await?;
        Ok(Claimed { kept, last_worker: record.worker, _pass: pass })
    }

    /// Writes what the worker has to do by the record. `Ok`: the job is to run.
    async fn write(
        &self,
        claim: Claim,
        revision: u64,
        delivery: &Delivery,
        spec: &JobSpec,
    ) -> Result<Kept, NotRun> {
        let write = async |next| self.engine.write_record(next, revision, RetryFor::ASKED).await;
        match claim {
            Claim::Over => {
                delivery.finish().await;
            }
            Claim::Bury(next) => {
                let is_buried = self.engine.bury_job(spec, RetryFor::ASKED).await.is_ok();
                if is_buried && write(&next).await.is_ok() {
                    delivery.finish().await;
                } else {
                    delivery.give_back(CONFLICT_DELAY).await;
                }
            }
            Claim::Later(next) => {
                let written = write(&next).await;
                delivery.give_back(if written.is_ok() { next.delay(now()) } else { CONFLICT_DELAY }).await;
            }
            Claim::Run(next) => {
                return match write(&next).await {
                    Ok(kept) => Ok(kept),
                    Err(_) => Err(returned(delivery, CONFLICT_DELAY).await),
                };
            }
        }
        Err(NotRun::Itself)
    }

    /// Claims a job whose message was never delivered before. As a rule it has no record, so that none is read: the store
    /// refuses the claim if there is one. `None`: the record has to be read.
    async fn claim_new(
        &self,
        delivery: &Delivery,
        spec: &JobSpec,
        token: &str,
    ) -> Option<Result<Claimed, NotRun>> {
        let record = JobRecord::queued(spec).of_message(delivery.sequence)?;
        let Some(pass) = self.gate.enter() else { return Some(Err(returned(delivery, ALONE_DELAY).await)) };
        self.engine.check_room().await.ok()?;
        let Claim::Run(next) = record.claim(&self.worker, token, self.is_only, now()) else { return None };
        match self.engine.write_record(&next, 0, RetryFor::ASKED).await {
            Ok(kept) => Some(Ok(Claimed { kept, last_worker: None, _pass: pass })),
            Err(Refused::Conflict) => None,
            Err(_) => Some(Err(returned(delivery, CONFLICT_DELAY).await)),
        }
    }

    /// The job's record and its revision; 0: there is none yet.
    async fn read(&self, delivery: &Delivery, spec: &JobSpec) -> Result<(JobRecord, u64), NotRun> {
        let Ok(found) = self.engine.read_record(&spec.id, RetryFor::ASKED).await else {
            // A newer version may have written it; others can read it then.
            let delay = refusal_delay(delivery.deliveries, &delivery.spec.id);
            return Err(returned(delivery, delay.max(CONFLICT_DELAY)).await);
        };
        let (record, revision) =
            found.map_or_else(|| (JobRecord::queued(spec), 0), |kept| (kept.record, kept.revision));
        let is_over = record.state.is_over();
        match record.of_message(delivery.sequence).filter(|_| !is_over) {
            Some(record) => Ok((record, revision)),
            None => {
                delivery.finish().await;
                Err(NotRun::Itself)
            }
        }
    }

    /// Holds the job until nothing else runs here. False: the worker closes.
    async fn wait_until_alone(&mut self, pass: &Pass) -> bool {
        let beat_every = self.engine.lease() / 3;
        loop {
            let delivery = self.delivery.borrow_and_update().clone();
            delivery.beat().await;
            tokio::select! {
                () = pass.alone() => return true,
                () = tokio::time::sleep(beat_every) => {}
                Ok(()) = self.delivery.changed() => {}
                drained = self.drain.wait_for(|drain| *drain) => return drained.is_err(),
            }
        }
    }

    /// Whether the job that waited here runs in another worker: it has a place of its key there. The server returned it early,
    /// for example because it lost its delay.
    async fn is_run_elsewhere(&self, spec: &JobSpec) -> bool {
        let Some(key) = spec.key.as_ref().filter(|_| self.until.is_some()) else { return false };
        let holders = self.engine.key_holders(key).await;
        holders.map_or(true, |holders| holders.iter().filter(|id| **id == spec.id).count() > 1)
    }
}

/// Gives the job back for a reason that other jobs would meet as well.
async fn returned(delivery: &Delivery, delay: Duration) -> NotRun {
    delivery.give_back(delay).await;
    NotRun::Anything
}
