//! The end of an attempt: what it came to is written, and the job leaves this worker.

use super::Attempt;
use crate::engine::{Announcement, RetryFor, is_too_long};
use crate::fault::JobFault;
use crate::name::artifact_object;
use crate::record::{Artifact, JobEvent, JobRecord, JobState, LogEnd};
use crate::retry_table::{Consequence, consequence_of};
use crate::spec::JobSpec;
use crate::submitter::now;
use crate::worker::artifacts;
use crate::worker::job_run::JobRun;
use crate::worker::keeper::Standing;
use bytes::Bytes;
use git::Leaving;
use ground::error::{Error, ErrorCode};
use serde_json::{Value, json};
use std::time::Duration;

/// A longer result is stored beside the record: records have room for many jobs, not for long texts.
const MAX_RESULT_BYTES: usize = 8 << 10;
/// The longest result that a record takes if there is no room beside the record.
const MOST_RESULT_BYTES: usize = 256 << 10;
/// Pause between two tries to write the end of a job to a full store.
const COMMIT_EVERY: Duration = Duration::from_secs(2);

impl Attempt {
    /// Writes what came of it. `None`: it could not be written, we are fenced or the lease runs out and another attempt begins.
    pub(super) async fn commit(
        &self,
        run: &JobRun,
        ended: Option<Result<Option<Value>, JobFault>>,
        standing: Standing,
    ) -> Option<JobRecord> {
        let token = run.book.token.clone();
        let log = run.log.end().await;
        let is_drain = *self.drain.borrow();
        let mut has_failed = false;
        let mut event = match ended {
            _ if standing == Standing::Cancelled => {
                JobEvent::Stopped { token: token.clone(), log, now: now() }
            }
            Some(Ok(value)) => self.done(run, token.clone(), value, log).await,
            _ if is_drain => JobEvent::Drained { token: token.clone(), now: now() },
            Some(Err(fault)) => self.failed(run, token.clone(), fault, log, None).await,
            // It was stopped for a standing that was taken back: nothing says so today.
            None => JobEvent::Drained { token: token.clone(), now: now() },
        };
        let may_need_burial = !matches!(event, JobEvent::Done { .. } | JobEvent::Drained { .. });
        if may_need_burial {
            // A spec that can't be kept makes a retry impossible. It does not undo what came of the job.
            let _ = self.engine.bury_job(&run.spec, RetryFor::WORK).await;
        }
        loop {
            match run.book.write(&event).await {
                Ok(record) => return Some(record),
                // The work is done, and is worth more than the place that it takes: `fleet.status()` says what is full.
                Err(Some(error)) if is_too_long(&error) && !has_failed => {
                    // Nothing that is waited for makes it shorter.
                    has_failed = true;
                    event = JobEvent::Failed {
                        token: token.clone(),
                        fault: JobFault::from(&error),
                        consequence: Consequence::Final,
                        log,
                        artifacts: Vec::new(),
                        now: now(),
                    };
                }
                Err(Some(error)) if is_full(&error) && !*self.drain.borrow() => {
                    tokio::time::sleep(COMMIT_EVERY).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the job off the queue, or gives it back.
    pub(super) async fn hand_over(&self, record: &JobRecord) {
        let delivery = self.delivery.borrow().clone();
        match record.state {
            JobState::Queued => delivery.give_back(record.delay(now())).await,
            state => {
                // A job that is done is never tried again. While its message may come back its spec has to be there.
                if delivery.finish().await && state == JobState::Done && delivery.is_object {
                    self.engine.free_spec(&record.id).await;
                }
            }
        }
    }

    async fn done(&self, run: &JobRun, token: String, value: Option<Value>, log: LogEnd) -> JobEvent {
        let (artifacts, artifacts_error) = match self.collect(run).await {
            Ok(artifacts) => (artifacts, None),
            // A store without room does not undo what the job came to.
            Err(error) if is_full(&error) => (run.kept_artifacts(), Some(JobFault::from(&error))),
            Err(error) => return self.failed(run, token, JobFault::from(&error), log, None).await,
        };
        let (artifacts, unlisted) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        let artifacts_error = artifacts_error.or(unlisted.as_ref().map(JobFault::from));
        let done = |result, result_object| JobEvent::Done {
            token: token.clone(),
            result,
            result_object,
            log,
            artifacts: artifacts.clone(),
            artifacts_error: artifacts_error.clone(),
            now: now(),
        };
        let text = value.as_ref().map(Value::to_string).unwrap_or_default();
        if text.len() <= MAX_RESULT_BYTES {
            return done(value, None);
        }
        let length = text.len();
        let name = artifact_object(&run.id, run.attempt, "/result");
        match self.engine.put_object(&name, text.into()).await {
            Ok(()) => done(None, Some(name)),
            Err(error) if is_full(&error) && length <= MOST_RESULT_BYTES => done(value, None),
            Err(error) => {
                // Another run would have the same result.
                let consequence = is_full(&error).then_some(Consequence::Final);
                self.failed(run, token, JobFault::from(&error), log, consequence).await
            }
        }
    }

    /// `consequence`: `None`: what the fault's reason says.
    async fn failed(
        &self,
        run: &JobRun,
        token: String,
        fault: JobFault,
        log: LogEnd,
        consequence: Option<Consequence>,
    ) -> JobEvent {
        let record = run.book.record().await;
        let consequence = consequence.unwrap_or_else(|| consequence_of(&fault, record.spent, record.waits));
        if let (Consequence::Wait(length), Some(provider)) = (&consequence, &run.spec.provider) {
            let hold = Announcement::Hold(provider.clone());
            let payload = Bytes::from(length.as_millis().to_string());
            // When it can't be told, each worker finds out for itself.
            let _ = self.engine.announce(&hold, payload, *length).await;
        }
        let mut fault = fault;
        let keeps = run.spec.git.as_ref().is_some_and(|git| git.keep_on_failure);
        if let Some(checkout) = run.files.checkout.get().filter(|_| keeps) {
            fault.facts.insert("checkout".to_owned(), json!(checkout.path()));
        }
        // The user may need the artifacts of a failed attempt. If they can't be stored, the attempt's own failure is still
        // reported.
        let artifacts = self.collect(run).await.unwrap_or_else(|_| run.kept_artifacts());
        let (artifacts, _) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        JobEvent::Failed { token, fault, consequence, log, artifacts, now: now() }
    }

    /// Artifacts that were stored during the run, and those that the job's globs match now.
    async fn collect(&self, run: &JobRun) -> Result<Vec<Artifact>, Error> {
        let root = run.cwd();
        if !run.spec.artifacts.is_empty() {
            for path in artifacts::find(root.clone(), &run.spec.artifacts).await? {
                run.artifact(&path.to_string_lossy()).await?;
            }
        }
        Ok(run.kept_artifacts())
    }
}

/// Whether a stream or the whole server has no room, which is nothing that another run of the job would change.
fn is_full(error: &Error) -> bool {
    !is_too_long(error) && matches!(error.code(), ErrorCode::FleetFull | ErrorCode::FleetStorage)
}

/// Decides whether the job's files are kept. Without a record the job belongs to another worker.
pub(super) fn leaving(spec: &JobSpec, left: Option<&JobRecord>) -> Leaving {
    let keeps = spec.git.as_ref().is_some_and(|git| git.keep_on_failure);
    match left {
        Some(record) if record.state == JobState::Queued && record.session_to_resume().is_some() => {
            Leaving::GoesOn
        }
        Some(record) if keeps && matches!(record.state, JobState::Failed | JobState::Dead) => Leaving::Kept,
        _ => Leaving::Over,
    }
}
