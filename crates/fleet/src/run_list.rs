//! PURE: the attempts of a job, as its record lists them.

use super::fault::JobFault;
use agents::harness::Usage;
use serde::{Deserialize, Serialize};

/// Attempts that a record lists. Older ones are left out: a job may wait for a usage limit a hundred times.
const MOST_RUNS: usize = 50;

/// Reason of an attempt that its closing worker gave to another one.
const DRAINED: &str = "drained";

/// One attempt at a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub attempt: u32,
    pub worker: String,
    /// Epoch milliseconds.
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Code of its error, or [`DRAINED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its error in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobFault>,
}

/// The attempts of a job, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunList(Vec<Run>);

impl RunList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn begin(&mut self, attempt: u32, worker: &str, now: u64) {
        if self.0.len() >= MOST_RUNS {
            self.0.remove(0);
        }
        let worker = worker.to_owned();
        let run =
            Run { attempt, worker, started_at: now, ended_at: None, usage: None, reason: None, error: None };
        self.0.push(run);
    }

    /// Ends the last attempt, unless it has ended. `fault`: `None` for a job that is done.
    pub(super) fn end(&mut self, fault: Option<&JobFault>, now: u64) {
        let error = fault.map(JobFault::brief);
        if let Some(run) = self.open() {
            run.ended_at = Some(now);
            run.reason = error.as_ref().map(|error| error.code.clone());
            run.error = error;
        }
    }

    /// The same for an attempt that its closing worker gave away: that is no error.
    pub(super) fn drain(&mut self, now: u64) {
        if let Some(run) = self.open() {
            run.ended_at = Some(now);
            run.reason = Some(DRAINED.to_owned());
        }
    }

    fn open(&mut self) -> Option<&mut Run> {
        self.0.last_mut().filter(|run| run.ended_at.is_none())
    }

    /// Adds to the usage of the last attempt.
    pub(super) fn add_usage(&mut self, used: Usage) {
        if let Some(run) = self.0.last_mut() {
            run.usage = Some(run.usage.unwrap_or_default().plus(used));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempts_are_listed_and_each_ends_once() {
        let mut runs = RunList::default();
        for attempt in 1..=60 {
            runs.begin(attempt, "w", u64::from(attempt));
            runs.add_usage(Usage { input_tokens: 2, ..Usage::default() });
            runs.add_usage(Usage { input_tokens: 3, ..Usage::default() });
            runs.end(Some(&JobFault::new("E_NO", "\u{1}".repeat(100_000))), 100);
            runs.end(None, 200);
            runs.drain(300);
        }
        assert_eq!((runs.0.len(), runs.0[0].attempt), (MOST_RUNS, 11));
        let last = runs.0.last().unwrap();
        assert_eq!((last.ended_at, last.reason.as_deref()), (Some(100), Some("E_NO")));
        assert_eq!(last.usage.unwrap().input_tokens, 5);
        let stored = serde_json::to_vec(&runs).unwrap();
        assert!(stored.len() < 256 << 10, "{} bytes", stored.len());
    }
}
