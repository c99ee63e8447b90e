//! The last known record of a job, and the only code that writes it during an attempt.

use crate::engine::{Kept, Refused, RetryFor, Shared};
use crate::record::JobRecord;
use crate::transition::{JobEvent, Refusal};
use agents::harness::Usage;
use ground::error::Error;

/// The record as it was last seen, and the one hand that writes it.
pub(super) struct Book {
    pub engine: Shared,
    pub token: String,
    pub kept: tokio::sync::Mutex<Kept>,
}

impl Book {
    /// Writes what the event makes of the record. `Err(None)`: the job is not ours any more.
    pub(super) async fn write(&self, event: &JobEvent) -> Result<JobRecord, Option<Error>> {
        let mut kept = self.kept.lock().await;
        loop {
            let next = match kept.record.after(event) {
                Ok(next) => next,
                Err(Refusal::Unchanged) => return Ok(kept.record.clone()),
                Err(Refusal::Fenced | Refusal::NotRetried(_)) => return Err(None),
            };
            match self.engine.write_record(&next, kept.revision, RetryFor::WORK).await {
                Ok(written) => {
                    *kept = written;
                    return Ok(next);
                }
                Err(Refused::Conflict) => {
                    match self.engine.read_record(&kept.record.id, RetryFor::WORK).await.map_err(Some)? {
                        Some(found) => *kept = found,
                        None => return Err(None),
                    }
                }
                Err(refused) => return Err(Some(refused.into())),
            }
        }
    }

    pub(super) async fn note(
        &self,
        session_id: Option<String>,
        tools_ran: bool,
        session_object: Option<String>,
        usage: Option<Usage>,
    ) {
        let seen = JobEvent::Seen { token: self.token.clone(), session_id, tools_ran, session_object, usage };
        // When it fails we are fenced, or the store is away: the commit will find out.
        let _ = self.write(&seen).await;
    }

    pub(super) async fn record(&self) -> JobRecord {
        self.kept.lock().await.record.clone()
    }
}
