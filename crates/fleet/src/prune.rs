//! Removes jobs that are over, with everything stored for them: record, logs, results, artifacts, sessions, specs.

use super::engine::{Engine, Found, Kept};
use super::listed::Listed;
use super::name::job_of_object;
use super::record::JobState;
use super::submitter::now;
use futures_util::TryStreamExt;
use ground::error::Error;
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// Jobs that are removed at once.
const AT_ONCE: usize = 16;

/// The jobs to remove.
#[derive(Clone, Debug)]
pub struct Prune {
    /// They ended at least so long ago.
    pub older_than: Duration,
    /// Empty: any state in which a job is over.
    pub states: Vec<JobState>,
    /// `None`: any queue.
    pub queue: Option<String>,
    /// Nothing is removed, only counted.
    pub is_trial: bool,
}

/// Counts of removed jobs and objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    pub jobs: u64,
    /// Results, artifacts, sessions and long specs.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
}

impl dyn Engine {
    pub(crate) async fn prune(&self, asked: &Prune) -> Result<Pruned, Error> {
        let before = now().saturating_sub(u64::try_from(asked.older_than.as_millis()).unwrap_or(u64::MAX));
        let meant = self.records_from(0).try_filter_map(|Found { record, revision, stored_at }| {
            // One that can't be read is left alone.
            let Listed::Known(record) = record else { return std::future::ready(Ok(None)) };
            let is_meant = record.state.is_over()
                && record.ended_at.is_some_and(|ended| ended <= before)
                && (asked.states.is_empty() || asked.states.contains(&record.state))
                && asked.queue.as_ref().is_none_or(|queue| *queue == record.queue);
            let kept = Kept { record: *record, revision };
            std::future::ready(Ok(is_meant.then_some((kept, stored_at))))
        });
        let gone: Vec<Option<(String, SystemTime)>> = meant
            .map_ok(async |(kept, stored_at)| {
                // A job that is tried again at this moment stays.
                if !asked.is_trial && !self.drop_record(&kept).await? {
                    return Ok(None);
                }
                let id = &kept.record.id;
                if !asked.is_trial {
                    self.drop_traces(id).await?;
                }
                Ok(Some((id.clone(), stored_at)))
            })
            .try_buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let gone: HashMap<String, SystemTime> = gone.into_iter().flatten().collect();
        self.forget_room();
        if gone.is_empty() {
            return Ok(Pruned::default());
        }
        // Objects that a later job of the same id has stored since are kept.
        let is_meant = |name: &str, stored_at: SystemTime| {
            let ended = job_of_object(name).and_then(|id| gone.get(&id));
            ended.is_some_and(|ended| stored_at <= *ended)
        };
        let (objects, bytes) = self.drop_objects(&is_meant, asked.is_trial).await?;
        Ok(Pruned { jobs: gone.len() as u64, objects, bytes })
    }
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
