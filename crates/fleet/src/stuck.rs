//! PURE: finds the reason why a job makes no progress, from its record, the fleet's workers and the holds.

use super::presence::Presence;
use super::record::{JobRecord, JobState};
use super::spec::JobSpec;
use std::time::Duration;

/// A job that waits for a free worker is reported only after this time.
const BUSY_AFTER: Duration = Duration::from_secs(60);

/// The facts besides the job that may hold it up.
pub(crate) struct Surroundings<'a> {
    pub workers: &'a [Presence],
    /// Whether all workers leave the job's provider alone, because of its usage limit.
    pub is_held: bool,
    /// Jobs that occupy the places of the job's key.
    pub key_holders: &'a [String],
    /// The records have no room for new jobs.
    pub is_full: bool,
    /// The records have no room for any write.
    pub is_used_up: bool,
    /// The stream of leases, when it has no room: then nobody can say that it is there, and no key has a place.
    pub full_leases: Option<&'a str>,
    /// The stream of the records.
    pub records: &'a str,
    pub is_paused: bool,
    /// Epoch milliseconds.
    pub now: u64,
}

/// `None`: it goes on, or waits for what it was told to wait for.
pub(crate) fn why_stuck(record: &JobRecord, spec: &JobSpec, around: &Surroundings) -> Option<String> {
    if record.state == JobState::Running {
        return why_running_stuck(record, around);
    }
    why_none_starts(record, around).or_else(|| {
        let serving: Vec<&Presence> =
            around.workers.iter().filter(|worker| worker.serves(&record.queue)).collect();
        let open: Vec<&Presence> = serving.iter().copied().filter(|worker| !worker.closing).collect();
        match (serving.is_empty(), open.is_empty()) {
            (true, _) => Some(format!("no worker pulls from the queue {}", record.queue)),
            (false, true) => Some(format!("every worker of the queue {} is closing", record.queue)),
            _ => why_waiting(record, spec, around, &open),
        }
    })
}

fn why_running_stuck(record: &JobRecord, around: &Surroundings) -> Option<String> {
    let stream = around.records;
    if around.is_used_up {
        return Some(format!(
            "the stream {stream} is full, so its result can't be written: remove old jobs with `sheepdog fleet prune`"
        ));
    }
    let names = |worker: &Presence| Some(worker.name.as_str()) == record.worker.as_deref();
    // Without leases nobody can say whether its worker is there.
    if around.full_leases.is_some() || around.workers.iter().any(names) {
        return None;
    }
    let worker = record.worker.as_deref().unwrap_or("its worker");
    Some(format!("its worker {worker} is silent: another worker gets the job when the lease is over"))
}

/// A reason that holds up every job of the queue that has not begun.
fn why_none_starts(record: &JobRecord, around: &Surroundings) -> Option<String> {
    if around.is_paused {
        return Some(format!("the queue {} is paused", record.queue));
    }
    if around.is_full && record.attempt == 0 {
        let stream = around.records;
        return Some(format!(
            "the stream {stream} is full, so no new job starts: remove old jobs with `sheepdog fleet prune`"
        ));
    }
    around.full_leases.map(|stream| format!(
        "the stream {stream} is full, so workers can't renew their leases, and no place of a key is free: give the stream more room"
    ))
}

/// `serving`: the workers that pull from the job's queue.
fn why_waiting(
    record: &JobRecord,
    spec: &JobSpec,
    around: &Surroundings,
    serving: &[&Presence],
) -> Option<String> {
    if let Some(handler) = &record.handler
        && !serving.iter().any(|worker| worker.can_run(Some(handler)))
    {
        return Some(format!("no worker of the queue {} has the handler {handler}", record.queue));
    }
    if let Some(time) = record.not_before.filter(|time| *time > around.now) {
        // Without an error the job waits for the time that its submitter chose.
        let fault = record.error.as_ref()?;
        let seconds = (time - around.now).div_ceil(1000);
        return Some(format!(
            "attempt {} failed ({}): it is tried again in {seconds} s",
            record.attempt, fault.message
        ));
    }
    if record.must_run_alone() {
        return Some(format!(
            "its last {} workers were lost: it runs alone, and waits for a worker that has nothing else to do",
            record.losses
        ));
    }
    if let Some(provider) = record.provider.as_ref().filter(|_| around.is_held) {
        return Some(format!("{provider} is at its usage limit: no worker uses it until the limit ends"));
    }
    if let Some(key) = spec.key.as_ref().filter(|_| around.key_holders.len() >= spec.key_limit as usize) {
        let holders = around.key_holders.join(", ");
        return Some(format!("the places of its key {key} are taken by {holders}"));
    }
    let places: usize = serving.iter().map(|worker| worker.concurrency).sum();
    let taken: usize = serving.iter().map(|worker| worker.running.len()).sum();
    let age = Duration::from_millis(around.now.saturating_sub(record.submitted_at));
    if taken >= places && age > BUSY_AFTER {
        return Some(format!("all {places} places of the workers of its queue are taken"));
    }
    record.error.as_ref().map(|fault| format!("attempt {} failed: {}", record.attempt, fault.message))
}

#[cfg(test)]
mod tests {
    use super::super::fault::JobFault;
    use super::*;
    use serde_json::{Value, json};

    const NOW: u64 = 1_000_000;

    fn why(change: impl FnOnce(&mut JobRecord, &mut JobSpec), around: (Value, bool, &[&str])) -> String {
        let mut spec =
            JobSpec { id: "a".into(), provider: Some("codex".into()), ..JobSpec::new() }.with_defaults();
        spec.submitted_at = NOW - 1000;
        let mut record = JobRecord::queued(&spec);
        change(&mut record, &mut spec);
        let workers: Vec<Presence> = ground::json::typed(around.0).unwrap();
        let holders: Vec<String> = around.2.iter().map(|name| (*name).to_owned()).collect();
        let around = Surroundings {
            workers: &workers,
            is_held: around.1,
            key_holders: &holders,
            is_full: false,
            is_used_up: false,
            full_leases: None,
            records: "KV_SD_RUN",
            is_paused: false,
            now: NOW,
        };
        why_stuck(&record, &spec, &around).unwrap_or_default()
    }

    #[test]
    fn each_reason_has_its_words() {
        let worker = |running: &[&str]| json!([{ "name": "w", "queues": ["default"], "concurrency": 1, "running": running, "handlers": ["sum"] }]);
        let free = || (worker(&[]), false, &[][..]);
        assert_eq!(why(|_, _| {}, free()), "");
        assert!(
            why(|_, _| {}, (json!([]), false, &[])).starts_with("no worker pulls from the queue default")
        );
        assert!(why(|record, _| record.handler = Some("mul".into()), free()).contains("has the handler mul"));
        assert_eq!(why(|record, _| record.handler = Some("sum".into()), free()), "");
        assert!(why(|_, _| {}, (worker(&[]), true, &[])).starts_with("codex is at its usage limit"));
        assert!(
            why(|_, spec| spec.key = Some("k".into()), (worker(&[]), false, &["b"])).contains("taken by b")
        );
        assert_eq!(why(|_, spec| spec.key = Some("k".into()), free()), "");
        assert_eq!(why(|record, _| record.not_before = Some(NOW + 5000), (worker(&[]), true, &[])), "");
        assert!(why(|record, _| record.losses = 2, free()).contains("it runs alone"));
        let failed = |record: &mut JobRecord, _: &mut JobSpec| {
            record.error = Some(JobFault::new("E", "no"));
            record.not_before = Some(NOW + 1500);
        };
        assert_eq!(why(failed, free()), "attempt 0 failed (no): it is tried again in 2 s");
        let old = |record: &mut JobRecord, _: &mut JobSpec| record.submitted_at = NOW - 61_000;
        assert!(why(old, (worker(&["b"]), false, &[])).starts_with("all 1 places"));
        assert_eq!(why(|_, _| {}, (worker(&["b"]), false, &[])), "", "it has just come");
        let running = |worker: &str| {
            let worker = worker.to_owned();
            move |record: &mut JobRecord, _: &mut JobSpec| {
                record.state = JobState::Running;
                record.worker = Some(worker);
            }
        };
        let facts = |facts: Value| {
            let mut worker = worker(&[]);
            for (name, value) in facts.as_object().unwrap() {
                worker[0][name] = value.clone();
            }
            (worker, false, &[][..])
        };
        assert_eq!(
            why(|_, _| {}, facts(json!({ "closing": true }))),
            "every worker of the queue default is closing"
        );
        assert_eq!(why(running("w"), free()), "");
        assert!(why(running("gone"), free()).contains("gone is silent"));
    }

    #[test]
    fn a_store_without_room_is_told_of() {
        let mut spec =
            JobSpec { id: "a".into(), handler: Some("sum".into()), ..JobSpec::new() }.with_defaults();
        spec.submitted_at = NOW;
        let mut record = JobRecord::queued(&spec);
        let worker = json!({ "name": "w", "queues": ["default"], "concurrency": 1, "handlers": ["sum"] });
        let workers = [ground::json::typed::<Presence>(worker).unwrap()];
        let why = |record: &JobRecord, is_full, is_used_up| {
            let around = Surroundings {
                workers: &workers,
                is_held: false,
                key_holders: &[],
                is_full,
                is_used_up,
                full_leases: None,
                records: "KV_SD_RUN",
                is_paused: false,
                now: NOW,
            };
            why_stuck(record, &spec, &around).unwrap_or_default()
        };
        assert!(why(&record, true, false).contains("KV_SD_RUN is full, so no new job starts"));
        record.attempt = 1;
        assert_eq!(why(&record, true, false), "", "it has its place");
        (record.state, record.worker) = (JobState::Running, Some("w".into()));
        assert_eq!(why(&record, true, false), "");
        assert!(why(&record, true, true).contains("its result can't be written"));
    }
}
