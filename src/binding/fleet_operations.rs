//! The calls for operators of a fleet: lists, prunes, retries of many jobs, pauses, drains, schedules. Names and order match
//! lib/fleet.ts.

use super::fleet::{NativeFleet, to_spec};
use super::option::Millis;
use super::promise::{Promised, settle};
use fleet::{CatchUp, Filter, JobList, JobState, JobWatch, Listed, Prune, Schedule};
use ground::error::Error;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Selects jobs.
#[napi(object, object_to_js = false)]
pub struct FilterSpec {
    pub states: Vec<String>,
    pub queue: Option<String>,
    pub tag: Option<String>,
    pub title: Option<String>,
}

/// Selects the jobs to remove.
#[napi(object, object_to_js = false)]
pub struct PruneSpec {
    pub older_than_ms: Millis,
    pub states: Vec<String>,
    pub queue: Option<String>,
    pub dry_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenSchedule {
    id: String,
    cron: String,
    time_zone: Option<String>,
    #[serde(default)]
    catch_up: CatchUp,
    job: Value,
}

fn to_states(names: Vec<String>) -> Result<Vec<JobState>, Error> {
    let states = names.into_iter().map(|name| ground::json::typed(name.into()));
    states.collect::<Result<_, _>>().map_err(|error| Error::invalid_option("states", error))
}

fn to_filter(spec: FilterSpec) -> Result<Filter, Error> {
    let FilterSpec { states, queue, tag, title } = spec;
    Ok(Filter { states: to_states(states)?, queue, tag, title })
}

fn to_schedule(text: &str) -> Result<Schedule, Error> {
    let given: GivenSchedule =
        ground::json::read(text).map_err(|error| Error::invalid_option("schedule", error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let job = to_spec(given.job)?;
    Schedule::new(&given.id, &given.cron, given.time_zone.as_deref(), given.catch_up, job, now)
}

#[napi]
impl NativeFleet {
    /// Opens a list of jobs.
    #[napi]
    pub fn list(
        &self,
        spec: FilterSpec,
        after: Option<String>,
        limit: Option<f64>,
    ) -> Promised<NativeJobList> {
        let fleet = self.fleet.clone();
        settle(async move {
            let limit = limit.map(|limit| limit as usize);
            let list = fleet.list(to_filter(spec)?, after.as_deref(), limit).await?;
            Ok::<_, Error>(NativeJobList { list: Arc::new(tokio::sync::Mutex::new(list)) })
        })
    }

    /// Watches the jobs that change from now on.
    #[napi]
    pub fn watch(&self, spec: FilterSpec) -> Promised<NativeJobWatch> {
        let fleet = self.fleet.clone();
        settle(async move {
            let watch = fleet.watch(to_filter(spec)?).await?;
            Ok::<_, Error>(NativeJobWatch { watch: Arc::new(tokio::sync::Mutex::new(watch)) })
        })
    }

    /// Tries jobs again. Resolves with their number.
    #[napi]
    pub fn retry_many(&self, spec: FilterSpec) -> Promised<f64> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.retry_many(to_filter(spec)?).await.map(|count| count as f64) })
    }

    /// Removes jobs. Resolves with the numbers of removed jobs and objects, as JSON.
    #[napi]
    pub fn prune(&self, spec: PruneSpec) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move {
            let PruneSpec { older_than_ms, states, queue, dry_run } = spec;
            let states = to_states(states)?;
            let prune = Prune { older_than: older_than_ms.duration(), states, queue, is_trial: dry_run };
            fleet.prune(&prune).await.map(|pruned| json!(pruned).to_string())
        })
    }

    /// Resolves when no worker starts a job of the queue any more.
    #[napi]
    pub fn pause(&self, queue: String) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.pause(&queue).await })
    }

    /// Resolves with true when the queue was paused.
    #[napi]
    pub fn resume(&self, queue: String) -> Promised<bool> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.resume(&queue).await })
    }

    /// Resolves when the worker starts no more jobs.
    #[napi]
    pub fn drain(&self, worker: String) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.drain(&worker).await })
    }

    /// Sets a schedule. `schedule` is JSON.
    #[napi]
    pub fn schedule(&self, schedule: String) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.schedule(&to_schedule(&schedule)?).await })
    }

    /// All schedules: an array as JSON.
    #[napi]
    pub fn schedules(&self) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move {
            let shown = |(schedule, next): (Schedule, Option<u64>)| {
                let mut shown = json!(schedule);
                if let (Some(fields), Some(next)) = (shown.as_object_mut(), next) {
                    fields.insert("nextAt".to_owned(), next.into());
                }
                shown
            };
            let all = fleet.schedules().await?;
            Ok::<_, Error>(Value::from_iter(all.into_iter().map(shown)).to_string())
        })
    }

    /// Resolves with true when there was a schedule of this id.
    #[napi]
    pub fn unschedule(&self, id: String) -> Promised<bool> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.unschedule(&id).await })
    }

    /// Starts due runs of schedules until the fleet is closed.
    #[napi]
    pub fn keep_schedules(&self) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.keep_schedules() })
    }
}

/// A list of jobs that is being read.
#[napi]
pub struct NativeJobList {
    list: Arc<tokio::sync::Mutex<JobList>>,
}

#[napi]
impl NativeJobList {
    /// Some records: an array as JSON, empty after the last one.
    #[napi]
    pub fn next(&self) -> Promised<String> {
        let list = self.list.clone();
        settle(async move {
            let page = list.lock().await.next().await?;
            Ok::<_, Error>(Value::from_iter(page.iter().map(Listed::shown)).to_string())
        })
    }
}

/// A watch over jobs.
#[napi]
pub struct NativeJobWatch {
    watch: Arc<tokio::sync::Mutex<JobWatch>>,
}

#[napi]
impl NativeJobWatch {
    /// Records that changed: an array as JSON. Waits for one.
    #[napi]
    pub fn next(&self) -> Promised<String> {
        let watch = self.watch.clone();
        settle(async move {
            let page = watch.lock().await.next().await?;
            Ok::<_, Error>(Value::from_iter(page.iter().map(Listed::shown)).to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_no_schedule_has_is_named_and_not_dropped() {
        let mut given = json!({ "id": "a", "cron": "@daily", "job": { "handler": "check" } });
        assert!(to_schedule(&given.to_string()).is_ok());
        given["probeMs"] = json!(1);
        let error = to_schedule(&given.to_string()).map(|_| ()).unwrap_err();
        assert!(error.message().contains("probeMs"), "{error}");
    }
}
