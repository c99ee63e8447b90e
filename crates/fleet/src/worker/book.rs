//! The last known record of a job, and the only code that writes it during an attempt.
//!
//! The first attempt of a handler's job begins before its claim is written. A job that is over by then never needs a claim: its
//! end is written as the job's first record, which the store refuses if another worker has the job by now.

use crate::engine::{Kept, Refused, RetryFor, Shared};
use crate::record::{JobEvent, JobRecord, Refusal};
use agents::harness::Usage;
use ground::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// The record as it was last seen, and the one hand that writes it.
pub(super) struct Book {
    pub engine: Shared,
    pub token: String,
    kept: tokio::sync::Mutex<Kept>,
    is_claimed: AtomicBool,
}

impl Book {
    /// `kept`: the claim; revision 0: it is not written yet.
    pub(super) fn new(engine: Shared, token: String, kept: Kept) -> Book {
        Book { engine, token, is_claimed: AtomicBool::new(kept.revision > 0), kept: kept.into() }
    }

    pub(super) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Acquire)
    }

    /// Writes the claim, if it is not written yet. False: the job is not ours, or the store is away.
    pub(super) async fn claim(&self) -> bool {
        if self.is_claimed() {
            return true;
        }
        let mut kept = self.kept.lock().await;
        if kept.revision > 0 {
            return kept.record.token.as_deref() == Some(self.token.as_str());
        }
        match self.engine.write_record(&kept.record, 0, RetryFor::WORK).await {
            Ok(written) => {
                *kept = written;
                self.is_claimed.store(true, Ordering::Release);
                true
            }
            Err(_) => false,
        }
    }

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
                    self.is_claimed.store(true, Ordering::Release);
                    return Ok(next);
                }
                Err(Refused::Conflict) => {
                    match self.engine.read_record(&kept.record.id, RetryFor::WORK).await.map_err(Some)? {
                        Some(found) => *kept = found,
                        None => return Err(None),
                    }
                }
                Err(refused) => return Err(Some(refused.into_error())),
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

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
