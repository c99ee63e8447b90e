//! The outcome of an attempt, as an event of the job's record: the result, or the failure with its consequence.

use super::artifacts;
use super::job_run::JobRun;
use crate::engine::{Key, is_too_long};
use crate::fault::JobFault;
use crate::name::artifact_object;
use crate::record::{Artifact, LogEnd};
use crate::retry_table::{Consequence, consequence_of};
use crate::submitter::now;
use crate::transition::JobEvent;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use serde_json::{Value, json};

/// A longer result is stored beside the record: records have room for many jobs, not for long texts.
const MAX_RESULT_BYTES: usize = 8 << 10;
/// The longest result that a record takes if there is no room beside the record.
const MOST_RESULT_BYTES: usize = 256 << 10;

impl JobRun {
    pub(super) async fn done(&self, value: Option<Value>, log: LogEnd) -> JobEvent {
        let (artifacts, artifacts_error) = match self.collect().await {
            Ok(artifacts) => (artifacts, None),
            // A store without room does not undo what the job came to.
            Err(error) if is_full(&error) => (self.kept_artifacts(), Some(JobFault::from(&error))),
            Err(error) => return self.failed(JobFault::from(&error), log, None).await,
        };
        let (artifacts, unlisted) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        let artifacts_error = artifacts_error.or(unlisted.as_ref().map(JobFault::from));
        let done = |result, result_object| JobEvent::Done {
            token: self.book.token.clone(),
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
        let name = artifact_object(&self.id, self.attempt, "/result");
        match self.engine.put_object(&name, text.into()).await {
            Ok(()) => done(None, Some(name)),
            Err(error) if is_full(&error) && length <= MOST_RESULT_BYTES => done(value, None),
            Err(error) => {
                // Another run would have the same result.
                let consequence = is_full(&error).then_some(Consequence::Final);
                self.failed(JobFault::from(&error), log, consequence).await
            }
        }
    }

    /// `consequence`: `None`: what the fault's reason says.
    pub(super) async fn failed(
        &self,
        mut fault: JobFault,
        log: LogEnd,
        consequence: Option<Consequence>,
    ) -> JobEvent {
        let record = self.book.record().await;
        let consequence = consequence.unwrap_or_else(|| consequence_of(&fault, record.spent, record.waits));
        if let (Consequence::Wait(length), Some(provider)) = (&consequence, &self.spec.provider) {
            let hold = Key::Hold(provider.clone());
            let payload = Bytes::from(length.as_millis().to_string());
            // When it can't be told, each worker finds out for itself.
            let _ = self.engine.announce(&hold, payload, *length).await;
        }
        let keeps = self.spec.git.as_ref().is_some_and(|git| git.keep_on_failure);
        if let Some(checkout) = self.files.checkout.get().filter(|_| keeps) {
            fault.facts.insert("checkout".to_owned(), json!(checkout.path()));
        }
        // The user may need the artifacts of a failed attempt. If they can't be stored, the attempt's own failure is still
        // reported.
        let artifacts = self.collect().await.unwrap_or_else(|_| self.kept_artifacts());
        let (artifacts, _) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        JobEvent::Failed { token: self.book.token.clone(), fault, consequence, log, artifacts, now: now() }
    }

    /// Artifacts that were stored during the run, and those that the job's globs match now.
    async fn collect(&self) -> Result<Vec<Artifact>, Error> {
        let root = self.cwd();
        if !self.spec.artifacts.is_empty() {
            for path in artifacts::find(root.clone(), &self.spec.artifacts).await? {
                self.artifact(&path.to_string_lossy()).await?;
            }
        }
        Ok(self.kept_artifacts())
    }
}

/// Whether a stream or the whole server has no room, which is nothing that another run of the job would change.
pub(super) fn is_full(error: &Error) -> bool {
    !is_too_long(error) && matches!(error.code(), ErrorCode::FleetFull | ErrorCode::FleetStorage)
}
