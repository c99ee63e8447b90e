//! The way to a job: its record and the gate decide whether it runs here, now.

use super::{Attempt, CONFLICT_DELAY, Claimed, NotRun};
use crate::engine::{Delivery, Kept, Refused, RetryFor};
use crate::record::{Claim, JobRecord, JobState};
use crate::retry_table::refusal_delay;
use crate::spec::JobSpec;
use crate::submitter::now;
use crate::worker::gate::Pass;
use ground::random;
use std::time::Duration;

/// Delay with which jobs are returned to other workers while a job has to be alone in this one.
pub(in crate::worker) const ALONE_DELAY: Duration = Duration::from_secs(1);
/// Delay of a job while the store has no room for new records.
const FULL_DELAY: Duration = Duration::from_secs(5);

/// The record of the job may exist, and has to be read.
struct MayHaveRecord;

impl Attempt {
    /// Whether the job that waited here runs in another worker: it has a place of its key there. The server returned it early,
    /// for example because it lost its delay.
    async fn is_run_elsewhere(&self, spec: &JobSpec) -> bool {
        let Some(key) = spec.key.as_ref().filter(|_| self.until.is_some()) else { return false };
        let holders = self.engine.key_holders(key).await;
        holders.map_or(true, |holders| holders.iter().filter(|id| **id == spec.id.as_bytes()).count() > 1)
    }

    pub(super) async fn claim(&mut self, delivery: &Delivery, spec: &JobSpec) -> Result<Claimed, NotRun> {
        let Some(token) = random::key::<12>() else {
            delivery.give_back(CONFLICT_DELAY).await;
            return Err(NotRun::Anything);
        };
        // It has a record all the same if it was tried again, or cancelled before anybody had it.
        if delivery.deliveries == 1
            && let Ok(claimed) = self.claim_new(delivery, spec, &token).await
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
        let Some(pass) = pass else {
            delivery.give_back(ALONE_DELAY).await;
            return Err(NotRun::Anything);
        };
        if must_be_alone {
            if !self.wait_until_alone(&pass).await {
                delivery.give_back(Duration::ZERO).await;
                return Err(NotRun::Anything);
            }
            // Read the record again, because the step before may have taken long.
            (record, revision) = self.read(delivery, spec).await?;
        }
        if revision == 0 && room.is_err() {
            delivery.give_back(FULL_DELAY).await;
            return Err(NotRun::Anything);
        }
        let claim = record.claim(&self.worker, &token, must_be_alone || self.is_only, now());
        let kept = self.carry_out(claim, delivery, spec, revision).await?;
        Ok((kept, record.worker, pass))
    }

    async fn carry_out(
        &self,
        claim: Claim,
        delivery: &Delivery,
        spec: &JobSpec,
        revision: u64,
    ) -> Result<Kept, NotRun> {
        match claim {
            Claim::Over => {
                delivery.finish().await;
            }
            Claim::Bury(next) => {
                let buried = self.engine.bury_job(spec, RetryFor::ASKED).await.is_ok()
                    && self.engine.write_record(&next, revision, RetryFor::ASKED).await.is_ok();
                if buried {
                    delivery.finish().await;
                } else {
                    delivery.give_back(CONFLICT_DELAY).await;
                }
            }
            Claim::Later(next) => {
                let written = self.engine.write_record(&next, revision, RetryFor::ASKED).await;
                delivery.give_back(if written.is_ok() { next.delay(now()) } else { CONFLICT_DELAY }).await;
            }
            Claim::Run(next) => match self.engine.write_record(&next, revision, RetryFor::ASKED).await {
                Ok(kept) => return Ok(kept),
                Err(_) => {
                    delivery.give_back(CONFLICT_DELAY).await;
                    return Err(NotRun::Anything);
                }
            },
        }
        Err(NotRun::Itself)
    }

    /// Claims a job whose message was never delivered before. As a rule it has no record, so that none is read: the store
    /// refuses the claim if there is one.
    async fn claim_new(
        &self,
        delivery: &Delivery,
        spec: &JobSpec,
        token: &str,
    ) -> Result<Result<Claimed, NotRun>, MayHaveRecord> {
        let record = JobRecord::queued(spec).of_message(delivery.sequence).ok_or(MayHaveRecord)?;
        let Some(pass) = self.gate.enter() else {
            delivery.give_back(ALONE_DELAY).await;
            return Ok(Err(NotRun::Anything));
        };
        if self.engine.check_room().await.is_err() {
            return Err(MayHaveRecord);
        }
        let Claim::Run(next) = record.claim(&self.worker, token, self.is_only, now()) else {
            return Err(MayHaveRecord);
        };
        match self.engine.write_record(&next, 0, RetryFor::ASKED).await {
            Ok(kept) => Ok(Ok((kept, None, pass))),
            Err(Refused::Conflict) => Err(MayHaveRecord),
            Err(_) => {
                delivery.give_back(CONFLICT_DELAY).await;
                Ok(Err(NotRun::Anything))
            }
        }
    }

    /// The job's record and its revision; 0: there is none yet.
    async fn read(&self, delivery: &Delivery, spec: &JobSpec) -> Result<(JobRecord, u64), NotRun> {
        match self.engine.read_record(&spec.id, RetryFor::ASKED).await {
            Ok(found) => {
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
            Err(_) => {
                // A newer version may have written it; others can read it then.
                delivery
                    .give_back(refusal_delay(delivery.deliveries, &delivery.spec.id).max(CONFLICT_DELAY))
                    .await;
                Err(NotRun::Anything)
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
}
