//! PURE: what happens to a job that has a record, and the record after it.

use super::{Artifact, JobRecord, JobState, LogEnd};
use crate::fault::JobFault;
use crate::retry_table::Consequence;
use agents::harness::Usage;
use serde_json::Value;

/// Something that happened to a job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The holder learned of the agent's session, or that a tool ran.
    Seen {
        token: String,
        session_id: Option<String>,
        tools_ran: bool,
        /// Name of the object with the session's files.
        session_object: Option<String>,
        /// Usage of all attempts so far.
        usage: Option<Usage>,
    },
    Done {
        token: String,
        result: Option<Value>,
        result_object: Option<String>,
        log: LogEnd,
        artifacts: Vec<Artifact>,
        artifacts_error: Option<JobFault>,
        now: u64,
    },
    Failed {
        token: String,
        fault: JobFault,
        consequence: Consequence,
        log: LogEnd,
        artifacts: Vec<Artifact>,
        now: u64,
    },
    /// The holder has to go: somebody else goes on.
    Drained {
        token: String,
        now: u64,
    },
    /// The holder was asked to cancel, and the tree is gone.
    Stopped {
        token: String,
        log: LogEnd,
        now: u64,
    },
    CancelAsked {
        now: u64,
    },
    /// Cancel without waiting for the holder.
    CancelForced {
        now: u64,
    },
    Retried,
}

/// The reason why an event changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another worker holds the job by now, or the job is over.
    Fenced,
    /// The record is in the wanted state already.
    Unchanged,
    /// A job in this state can't be tried again.
    NotRetried(JobState),
}

impl JobRecord {
    /// The record after an event, or why there is no change.
    pub fn after(&self, event: &JobEvent) -> Result<JobRecord, Refusal> {
        match event {
            JobEvent::Seen { token, session_id, tools_ran, session_object, usage } => {
                let mut next = self.held_by(token)?.clone();
                next.see_session(session_id.as_ref(), session_object.as_ref());
                next.tools_ran |= tools_ran;
                if let Some(used) = usage {
                    next.runs.add_usage(used.since(self.usage.unwrap_or_default()));
                }
                next.usage = usage.or(next.usage);
                if next == *self { Err(Refusal::Unchanged) } else { Ok(next) }
            }
            JobEvent::Done { token, result, result_object, log, artifacts, artifacts_error, now } => {
                let mut next = self.held_by(token)?.ended(JobState::Done, *now);
                next.result.clone_from(result);
                next.result_object.clone_from(result_object);
                next.error = None;
                next.log = Some(*log);
                next.artifacts.clone_from(artifacts);
                next.artifacts_error = artifacts_error.clone().map(JobFault::bounded);
                Ok(next)
            }
            JobEvent::Failed { token, fault, consequence, log, artifacts, now } => {
                let mut next = self.held_by(token)?.after_fault(fault, consequence, *now);
                next.losses = 0;
                next.log = Some(*log);
                next.artifacts.clone_from(artifacts);
                Ok(next)
            }
            JobEvent::Drained { token, now } => {
                let mut next = self.held_by(token)?.released();
                next.runs.drain(*now);
                next.losses = 0;
                next.spent = next.spent.saturating_sub(1);
                Ok(next)
            }
            JobEvent::Stopped { token, log, now } => {
                let mut next = self.held_by(token)?.ended(JobState::Cancelled, *now);
                next.log = Some(*log);
                Ok(next)
            }
            JobEvent::CancelAsked { now } => self.after_cancel(*now),
            JobEvent::CancelForced { now } if !self.state.is_over() => {
                Ok(self.ended(JobState::Cancelled, *now))
            }
            JobEvent::CancelForced { .. } => Err(Refusal::Unchanged),
            JobEvent::Retried => self.after_retry(),
        }
    }

    fn see_session(&mut self, id: Option<&String>, object: Option<&String>) {
        if id.is_some() && self.session_id.is_some() && id != self.session_id.as_ref() {
            // The files of another session are useless.
            self.session_object = None;
        }
        self.session_object = object.cloned().or(self.session_object.take());
        self.session_id = id.cloned().or(self.session_id.take());
    }

    fn after_cancel(&self, now: u64) -> Result<JobRecord, Refusal> {
        match self.state {
            JobState::Queued => Ok(self.ended(JobState::Cancelled, now)),
            JobState::Running if !self.cancel_asked => Ok(JobRecord { cancel_asked: true, ..self.clone() }),
            _ => Err(Refusal::Unchanged),
        }
    }

    /// A retry is a user's decision after the failure: the work starts from the beginning, with another message.
    fn after_retry(&self) -> Result<JobRecord, Refusal> {
        match self.state {
            JobState::Failed | JobState::Dead | JobState::Cancelled => Ok(JobRecord {
                spent: 0,
                waits: 0,
                losses: 0,
                cancel_asked: false,
                ended_at: None,
                message: None,
                tools_ran: false,
                session_id: None,
                session_object: None,
                usage_before: self.usage,
                ..self.released()
            }),
            JobState::Queued => Err(Refusal::Unchanged),
            state => Err(Refusal::NotRetried(state)),
        }
    }

    fn held_by(&self, token: &str) -> Result<&Self, Refusal> {
        let is_holder = self.state == JobState::Running && self.token.as_deref() == Some(token);
        if is_holder { Ok(self) } else { Err(Refusal::Fenced) }
    }

    fn after_fault(&self, fault: &JobFault, consequence: &Consequence, now: u64) -> JobRecord {
        let may_go_on = !self.must_resume() || self.session_id.is_some();
        let mut next = match consequence {
            Consequence::Wait(delay) if may_go_on => {
                let mut next = self.released();
                next.spent = next.spent.saturating_sub(1);
                next.waits += 1;
                next.not_before = Some(now.saturating_add(delay.as_millis() as u64));
                next
            }
            Consequence::Again(delay) if may_go_on && self.spent < self.attempts && !self.cancel_asked => {
                let mut next = self.released();
                next.not_before = Some(now.saturating_add(delay.as_millis() as u64));
                next
            }
            _ => self.ended(JobState::Failed, now),
        };
        next.runs.end(Some(fault), now);
        next.error = Some(fault.clone().bounded());
        next
    }
}
