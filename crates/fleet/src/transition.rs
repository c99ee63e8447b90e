//! PURE: the possible changes of a job's record. A writer writes the result of [`JobRecord::after`] or [`JobRecord::claim`]
//! over the revision that it read; the store refuses any other write.
//!
//! | state | claim | done, failed, drained by its holder | cancel asked | forced | retried |
//! |---|---|---|---|---|---|
//! | queued (or no record) | running, or dead when the budget is spent | fenced | cancelled | cancelled | as it is |
//! | running | its worker was lost: running, or dead | done / queued or failed / queued | asked; its holder cancels | cancelled | refused |
//! | done, failed, cancelled, dead | nothing to run | fenced | as it is | as it is | queued (done: refused) |
//!
//! `attempt` counts every run of the job for good. `spent` counts the runs that the budget pays for. One is spent at each
//! claim, and returned for a drain, for a limit, and for a worker that was lost with other jobs beside this one. After two lost
//! workers in a row a job waits a while and then runs alone. So a job that kills its workers uses up its own budget, and not
//! that of other jobs.

use super::fault::JobFault;
use super::record::{Artifact, JobRecord, JobState, LogEnd};
use super::retry_table::{Consequence, loss_delay};
use agents::harness::Usage;
use serde_json::Value;

/// A job with so many lost workers in a row is suspected of killing them, and runs alone. A single loss is normal: a machine goes
/// away, and all jobs that were on it run again at once.
const SUSPECT_FROM: u32 = 2;

/// The actions of a worker that received the job's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// Write this record; once it is written, run the job.
    Run(Box<JobRecord>),
    /// Write this record and take the message off the queue: the job is over.
    Bury(Box<JobRecord>),
    /// Write this record and give the message back for its delay: the job may have killed its worker.
    Later(Box<JobRecord>),
    /// Take the message off the queue: the job was over before.
    Over,
}

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
    /// The record as the message of this sequence may change it; `None`: the job has another message.
    pub fn of_message(mut self, sequence: u64) -> Option<JobRecord> {
        if sequence == 0 {
            // The server did not say which one it is.
            return Some(self);
        }
        let is_ours = self.message.is_none_or(|message| message == sequence);
        self.message = Some(sequence);
        is_ours.then_some(self)
    }

    /// Whether the next attempt has to have its worker for itself: the last workers were lost with this job.
    pub fn must_run_alone(&self) -> bool {
        let lost_now = u32::from(self.state == JobState::Running);
        self.losses + lost_now >= SUSPECT_FROM
    }

    /// Decides the action of a worker that received the job's message. A record in state "running" belongs to a lost worker:
    /// the server redelivers a message only when its holder was silent for a whole lease. `is_alone`: the worker runs no other
    /// job.
    pub fn claim(&self, worker: &str, token: &str, is_alone: bool, now: u64) -> Claim {
        if self.state.is_over() {
            return Claim::Over;
        }
        let is_lost = self.state == JobState::Running;
        if self.cancel_asked {
            return Claim::Bury(Box::new(self.ended(JobState::Cancelled, now)));
        }
        let mut next = self.clone();
        if is_lost {
            next.runs.end(Some(&self.lost()), now);
            next.losses += 1;
            // It may have been a neighbour's fault. A job with one attempt is never run twice.
            if !self.alone && self.attempts > 1 {
                next.spent = next.spent.saturating_sub(1);
            }
        }
        if next.spent >= next.attempts {
            return Claim::Bury(Box::new(
                self.dead("has no attempts left, because its workers were lost", now),
            ));
        }
        if is_lost && self.must_resume() && self.session_id.is_none() {
            let why = "lost its worker after a tool had run, and there is no session to resume";
            return Claim::Bury(Box::new(self.dead(why, now)));
        }
        if is_lost {
            next.error = Some(self.lost());
            if next.losses >= SUSPECT_FROM {
                let mut later = next.released();
                let delay = loss_delay(next.losses - SUSPECT_FROM).as_millis();
                later.not_before = Some(now.saturating_add(u64::try_from(delay).unwrap_or(u64::MAX)));
                return Claim::Later(Box::new(later));
            }
        }
        next.state = JobState::Running;
        next.attempt += 1;
        next.spent += 1;
        next.alone = is_alone;
        next.worker = Some(worker.to_owned());
        next.token = Some(token.to_owned());
        next.started_at = Some(now);
        next.not_before = None;
        next.runs.begin(next.attempt, worker, now);
        Claim::Run(Box::new(next))
    }

    /// The record after an event, or why there is no change.
    pub fn after(&self, event: &JobEvent) -> Result<JobRecord, Refusal> {
        match event {
            JobEvent::Seen { token, session_id, tools_ran, session_object, usage } => {
                self.held_by(token)?.after_seen(session_id, *tools_ran, session_object, usage)
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
                let held = self.held_by(token)?;
                let mut next = held.after_fault(fault, consequence, *now);
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
            JobEvent::CancelAsked { now } => match self.state {
                JobState::Queued => Ok(self.ended(JobState::Cancelled, *now)),
                JobState::Running if !self.cancel_asked => {
                    let mut next = self.clone();
                    next.cancel_asked = true;
                    Ok(next)
                }
                _ => Err(Refusal::Unchanged),
            },
            JobEvent::CancelForced { now } if !self.state.is_over() => {
                Ok(self.ended(JobState::Cancelled, *now))
            }
            JobEvent::CancelForced { .. } => Err(Refusal::Unchanged),
            JobEvent::Retried => self.retried(),
        }
    }

    fn held_by(&self, token: &str) -> Result<&Self, Refusal> {
        let is_holder = self.state == JobState::Running && self.token.as_deref() == Some(token);
        if is_holder { Ok(self) } else { Err(Refusal::Fenced) }
    }

    fn after_seen(
        &self,
        session_id: &Option<String>,
        tools_ran: bool,
        session_object: &Option<String>,
        usage: &Option<Usage>,
    ) -> Result<JobRecord, Refusal> {
        let mut next = self.clone();
        if session_id.as_ref().is_some_and(|new| self.session_id.as_ref().is_some_and(|old| old != new)) {
            // The files of another session are useless.
            next.session_object = None;
        }
        next.session_object = session_object.clone().or(next.session_object);
        next.session_id = session_id.clone().or(next.session_id);
        next.tools_ran |= tools_ran;
        if let Some(used) = usage {
            next.runs.add_usage(used.since(self.usage.unwrap_or_default()));
        }
        next.usage = usage.or(next.usage);
        if next == *self { Err(Refusal::Unchanged) } else { Ok(next) }
    }

    fn retried(&self) -> Result<JobRecord, Refusal> {
        match self.state {
            JobState::Failed | JobState::Dead | JobState::Cancelled => {}
            JobState::Queued => return Err(Refusal::Unchanged),
            state => return Err(Refusal::NotRetried(state)),
        }
        let mut next = self.released();
        next.spent = 0;
        next.waits = 0;
        next.losses = 0;
        next.cancel_asked = false;
        next.ended_at = None;
        // The retried job gets another message.
        next.message = None;
        // A retry is a user's decision after the failure, and starts the work from the beginning.
        next.tools_ran = false;
        next.session_id = None;
        next.session_object = None;
        next.usage_before = next.usage;
        if self.state == JobState::Cancelled {
            // No attempt failed, and the job is wanted again.
            next.error = None;
        }
        Ok(next)
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

    fn released(&self) -> JobRecord {
        let mut next = self.clone();
        next.state = JobState::Queued;
        next.worker = None;
        next.token = None;
        next.not_before = None;
        next
    }

    fn ended(&self, state: JobState, now: u64) -> JobRecord {
        let mut next = self.clone();
        next.state = state;
        next.token = None;
        next.ended_at = Some(now);
        next.not_before = None;
        match state {
            JobState::Done => next.runs.end(None, now),
            JobState::Cancelled => {
                let fault = JobFault::new("JOB_CANCELLED", format!("job {} was cancelled", self.id));
                next.runs.end(Some(&fault), now);
                next.error = Some(fault);
            }
            JobState::Dead => next.runs.end(Some(&self.lost()), now),
            _ => {}
        }
        next
    }

    fn dead(&self, why: &str, now: u64) -> JobRecord {
        let last = if self.state == JobState::Running { Some(self.lost()) } else { self.error.clone() };
        let mut next = self.ended(JobState::Dead, now);
        let message = format!(
            "job {} {why} (attempt {} was its last): look at its log, then `sheepdog jobs retry`",
            self.id, self.attempt
        );
        let mut fault = JobFault::new("JOB_DEAD", message);
        if let Some(last) = last {
            fault.facts.insert("lastError".to_owned(), last.as_value());
        }
        next.error = Some(fault);
        next
    }

    fn lost(&self) -> JobFault {
        let worker = self.worker.as_deref().unwrap_or("its worker");
        let message = format!("attempt {} was lost: {worker} was silent for a whole lease", self.attempt);
        JobFault::new("JOB_LEASE_LOST", message)
    }
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;
