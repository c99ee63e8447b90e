//! PURE: what the presence messages of workers say.

use serde_json::Value;

/// The queues that the workers pull from.
pub(crate) fn queues_of(workers: &[Value]) -> impl Iterator<Item = String> {
    let queues = workers.iter().filter_map(|worker| worker["queues"].as_array()).flatten();
    queues.filter_map(Value::as_str).map(str::to_owned)
}

/// Whether the worker pulls from the queue.
pub(crate) fn serves(worker: &Value, queue: &str) -> bool {
    has(&worker["queues"], queue)
}

pub(crate) fn is_closing(worker: &Value) -> bool {
    worker["closing"] == true
}

/// Whether the worker has the handler; `None`: whether it runs agents.
pub(crate) fn can_run(worker: &Value, handler: Option<&str>) -> bool {
    match handler {
        Some(handler) => has(&worker["handlers"], handler),
        None => worker["agents"] != false,
    }
}

/// Whether the worker takes jobs of this queue and handler.
pub(crate) fn may_run(worker: &Value, queue: &str, handler: Option<&str>) -> bool {
    serves(worker, queue) && !is_closing(worker) && can_run(worker, handler)
}

/// Whether the worker has heard that the queue is paused.
pub(crate) fn has_paused(worker: &Value, queue: &str) -> bool {
    has(&worker["paused"], queue)
}

/// Number of jobs that the worker can run at once, and of those that it runs.
pub(crate) fn places(worker: &Value) -> (u64, u64) {
    let count = |field: &str| match &worker[field] {
        Value::Array(all) => all.len() as u64,
        number => number.as_u64().unwrap_or(0),
    };
    (count("concurrency"), count("running"))
}

fn has(list: &Value, wanted: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|one| one == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_takes_jobs_of_its_queues_that_it_can_run_until_it_closes() {
        let worker = |closing: bool| {
            json!({ "queues": ["a"], "handlers": ["sum"], "agents": false, "closing": closing,
                "concurrency": 2, "running": ["job"] })
        };
        let open = worker(false);
        assert!(may_run(&open, "a", Some("sum")));
        assert_eq!(places(&open), (2, 1));
        assert!(!may_run(&open, "b", Some("sum")) && !may_run(&open, "a", Some("other")));
        assert!(!may_run(&open, "a", None) && !may_run(&worker(true), "a", Some("sum")));
    }
}
