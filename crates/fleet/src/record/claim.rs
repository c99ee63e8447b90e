//! PURE: the claim of a job by a worker that received its message.

use super::{JobRecord, JobState};
use crate::fault::JobFault;
use crate::retry_table::loss_delay;

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

impl JobRecord {
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
}
