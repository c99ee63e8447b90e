//! PURE: what workers tell of themselves.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The presence of a worker, as it announces it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Presence {
    pub name: String,
    /// This worker among all that ever had its name.
    pub instance: String,
    pub pid: u32,
    pub queues: Vec<String>,
    /// Number of jobs that it runs at once.
    pub concurrency: usize,
    pub handlers: Vec<String>,
    /// Queues of its own that it has heard are paused.
    pub paused: BTreeSet<String>,
    /// Ids of the jobs that it runs.
    pub running: BTreeSet<String>,
    /// Numbers of these jobs by their queues.
    pub running_of: BTreeMap<String, u64>,
    pub closing: bool,
}

impl Presence {
    /// Whether the worker pulls from the queue.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.queues.iter().any(|own| own == queue)
    }

    /// Whether the worker has the handler; `None`: agents, which every worker runs.
    pub(crate) fn can_run(&self, handler: Option<&str>) -> bool {
        handler.is_none_or(|handler| self.handlers.iter().any(|own| own == handler))
    }

    /// Whether the worker takes jobs of this queue and handler.
    pub(crate) fn may_run(&self, queue: &str, handler: Option<&str>) -> bool {
        self.serves(queue) && !self.closing && self.can_run(handler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_takes_jobs_of_its_queues_that_it_can_run_until_it_closes() {
        let worker = |closing: bool| -> Presence {
            let told =
                json!({ "queues": ["a"], "handlers": ["sum"], "closing": closing, "fromANewerVersion": 1 });
            ground::json::typed(told).unwrap()
        };
        let open = worker(false);
        assert!(open.may_run("a", Some("sum")) && open.may_run("a", None));
        assert!(!open.may_run("b", Some("sum")) && !open.may_run("a", Some("other")));
        assert!(!worker(true).may_run("a", Some("sum")));
    }
}
