//! PURE: a job's record, as the store keeps it. [`transition`](super::transition) says how it changes.

use super::fault::JobFault;
use super::run_list::RunList;
use super::spec::JobSpec;
use agents::harness::Usage;
use ground::named;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

named! {
    /// State of a job.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum JobState {
        #[default]
        Queued = "queued",
        Running = "running",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
        /// Its workers were lost as often as it may be tried.
        Dead = "dead",
    }
}

impl JobState {
    pub fn is_over(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// A file that an attempt left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Below the job's working directory.
    pub path: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

/// End of the log of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// Sequence of its last message in the stream; 0 when there is none.
    pub sequence: u64,
    pub events: u64,
    /// Events that could not be stored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

/// The state of a job on the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    pub id: String,
    pub queue: String,
    pub priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Beginning of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Input of the handler; absent if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::spec::there")]
    pub data: Option<Value>,
    pub state: JobState,
    pub attempt: u32,
    /// Attempts that the budget of `attempts` paid for.
    pub spent: u32,
    pub attempts: u32,
    /// The attempts so far.
    #[serde(default, skip_serializing_if = "RunList::is_empty")]
    pub runs: RunList,
    /// Waits for a limit that cost no attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits: u32,
    /// Workers that were lost with this job, one after the other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub losses: u32,
    /// The present or last attempt has its worker for itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_tools: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Token of the claim; the worker that has it holds the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Sequence of the job's message, from its first claim on. Another message that names this job is ignored: any submitter
    /// may write one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_asked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Name of the object with the files that the agent wrote for its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_object: Option<String>,
    /// Whether a tool ran in any attempt of this budget.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_ran: bool,
    /// Usage of all attempts, the present one included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Usage before the last `retry()`, which resets the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_before: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::spec::there")]
    pub result: Option<Value>,
    /// A result too long for the record is kept as an object of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_object: Option<String>,
    /// The failure of the last attempt, also while the job waits for its next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobFault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogEnd>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The reason why some artifacts of a finished job are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_error: Option<JobFault>,
    /// Epoch milliseconds, as are the others.
    pub submitted_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// When a job that waits is tried again, at the earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl JobRecord {
    /// The record of a job that no worker has claimed yet.
    pub fn queued(spec: &JobSpec) -> Self {
        JobRecord {
            id: spec.id.clone(),
            queue: spec.queue.clone(),
            priority: spec.priority,
            provider: spec.provider.clone(),
            handler: spec.handler.clone(),
            title: spec.title.clone(),
            tags: spec.tags.clone(),
            prompt: spec.short_prompt(),
            data: spec.short_data(),
            attempts: spec.attempts,
            after_tools: spec.after_tools,
            submitted_at: spec.submitted_at,
            not_before: spec.at,
            ..JobRecord::default()
        }
    }

    /// The session that the next attempt has to go on in: a job whose tools ran is never silently run anew.
    pub fn session_to_resume(&self) -> Option<&str> {
        if self.must_resume() { self.session_id.as_deref() } else { None }
    }

    /// Usage of the attempts of this budget.
    pub fn used(&self) -> Usage {
        self.usage.unwrap_or_default().since(self.usage_before.unwrap_or_default())
    }

    /// Remaining delay before a waiting job may run.
    pub fn delay(&self, now: u64) -> Duration {
        Duration::from_millis(self.not_before.map_or(0, |time| time.saturating_sub(now)))
    }

    /// Whether another attempt may only go on in the session of the last one.
    pub(super) fn must_resume(&self) -> bool {
        self.tools_ran && !self.after_tools
    }
}
