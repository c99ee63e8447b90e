//! What a fleet looks like right now: its queues, its workers, what waits for long and why.

use super::engine::Engine;
use super::record::{JobRecord, JobState};
use crate::error::Error;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::HashSet;

/// Jobs that are told of one by one.
const MAX_SHOWN: usize = 20;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    pub server: String,
    pub lease_ms: u64,
    pub queues: BTreeMap<String, QueueStatus>,
    /// As each says of itself.
    pub workers: Vec<Value>,
    pub stuck: Vec<Stuck>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    pub queued: u64,
    pub running: u64,
    /// When the oldest job that waits was submitted, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_submitted_at: Option<u64>,
}

/// A job that does not go on, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Stuck {
    pub id: String,
    pub why: String,
}

impl Engine {
    pub(crate) async fn status(&self) -> Result<FleetStatus, Error> {
        let mut status = FleetStatus {
            server: self.version(),
            lease_ms: u64::try_from(self.lease().as_millis()).unwrap_or(u64::MAX),
            ..FleetStatus::default()
        };
        let said = self.all_announced(self.names().workers()).await?;
        status.workers = said.iter().filter_map(|said| serde_json::from_slice(said).ok()).collect();
        let names: HashSet<String> =
            status.workers.iter().filter_map(|worker| worker["name"].as_str().map(str::to_owned)).collect();
        let mut jobs = self.unfinished().await?;
        jobs.sort_by_key(|record| record.submitted_at);
        for record in &jobs {
            let queue = status.queues.entry(record.queue.clone()).or_default();
            if record.state == JobState::Running {
                queue.running += 1;
            } else {
                queue.queued += 1;
                queue.oldest_submitted_at.get_or_insert(record.submitted_at);
            }
            if status.stuck.len() < MAX_SHOWN
                && let Some(why) = why_stuck(record, &names, &status.workers)
            {
                status.stuck.push(Stuck { id: record.id.clone(), why });
            }
        }
        Ok(status)
    }

    /// Every job that is queued or running.
    pub(crate) async fn unfinished(&self) -> Result<Vec<JobRecord>, Error> {
        let mut found = self.every_record().await?;
        found.retain(|record| !record.state.is_over());
        Ok(found)
    }

    /// Every job, those that nobody has claimed yet included.
    pub(crate) async fn every_record(&self) -> Result<Vec<JobRecord>, Error> {
        // First who waits: what is claimed meanwhile is then found with its record, and counted once.
        let waiting = self.waiting_jobs().await?;
        let mut records = std::pin::pin!(self.records().await?);
        let mut found = Vec::new();
        let mut known = HashSet::new();
        while let Some(record) = records.next().await {
            let record = record?;
            known.insert(record.id.clone());
            found.push(record);
        }
        found.extend(waiting.iter().filter(|spec| !known.contains(&spec.id)).map(JobRecord::queued));
        Ok(found)
    }
}

fn why_stuck(record: &JobRecord, workers: &HashSet<String>, said: &[Value]) -> Option<String> {
    if record.state == JobState::Running {
        let worker = record.worker.as_deref().unwrap_or_default();
        return (!workers.contains(worker))
            .then(|| format!("its worker {worker} is silent: another one gets it when the lease is over"));
    }
    let serves = |worker: &Value| {
        worker["queues"].as_array().is_some_and(|queues| queues.iter().any(|queue| *queue == record.queue))
    };
    if !said.iter().any(serves) {
        return Some(format!("no worker pulls from the queue {}", record.queue));
    }
    record.error.as_ref().map(|fault| format!("attempt {} failed: {}", record.attempt, fault.message))
}
