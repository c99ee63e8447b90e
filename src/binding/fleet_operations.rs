//! The calls for operators of a fleet: lists, prunes, retries of many jobs, pauses, drains, schedules. Names and order match
//! lib/fleet.ts.

use super::fleet::{NativeFleet, to_spec};
use super::option::Millis;
use super::promise::{Promised, settle};
use fleet::{CatchUp, Filter, JobList, JobState, JobWatch, Listed, Prune, Schedule};
use ground::error::Error;
use ground::record::epoch_ms;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;

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
    let now = epoch_ms(SystemTime::now());
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
    ) -> Promised<NativeJobPages> {
        self.call(async move |fleet| {
            let limit = limit.map(|limit| limit as usize);
            let list = fleet.list(to_filter(spec)?, after.as_deref(), limit).await?;
            Ok(NativeJobPages::of(Pages::List(list)))
        })
    }

    /// Watches the jobs that change from now on.
    #[napi]
    pub fn watch(&self, spec: FilterSpec) -> Promised<NativeJobPages> {
        self.call(async move |fleet| {
            let watch = fleet.watch(to_filter(spec)?).await?;
            Ok(NativeJobPages::of(Pages::Watch(watch)))
        })
    }

    /// Tries jobs again. Resolves with their number.
    #[napi]
    pub fn retry_many(&self, spec: FilterSpec) -> Promised<f64> {
        self.call(async move |fleet| fleet.retry_many(to_filter(spec)?).await.map(|count| count as f64))
    }

    /// Removes jobs. Resolves with the numbers of removed jobs and objects, as JSON.
    #[napi]
    pub fn prune(&self, spec: PruneSpec) -> Promised<String> {
        self.call(async move |fleet| {
            let PruneSpec { older_than_ms, states, queue, dry_run } = spec;
            let states = to_states(states)?;
            let prune = Prune { older_than: older_than_ms.duration(), states, queue, is_trial: dry_run };
            fleet.prune(&prune).await.map(|pruned| json!(pruned).to_string())
        })
    }

    /// Resolves when no worker starts a job of the queue any more.
    #[napi]
    pub fn pause(&self, queue: String) -> Promised<()> {
        self.call(async move |fleet| fleet.pause(&queue).await)
    }

    /// Resolves with true when the queue was paused.
    #[napi]
    pub fn resume(&self, queue: String) -> Promised<bool> {
        self.call(async move |fleet| fleet.resume(&queue).await)
    }

    /// Resolves when the worker starts no more jobs.
    #[napi]
    pub fn drain(&self, worker: String) -> Promised<()> {
        self.call(async move |fleet| fleet.drain(&worker).await)
    }

    /// Sets a schedule. `schedule` is JSON.
    #[napi]
    pub fn schedule(&self, schedule: String) -> Promised<()> {
        self.call(async move |fleet| fleet.schedule(&to_schedule(&schedule)?).await)
    }

    /// All schedules: an array as JSON.
    #[napi]
    pub fn schedules(&self) -> Promised<String> {
        self.call(async move |fleet| {
            let shown = |(schedule, next): (Schedule, Option<u64>)| {
                let mut shown = json!(schedule);
                if let (Some(fields), Some(next)) = (shown.as_object_mut(), next) {
                    fields.insert("nextAt".to_owned(), next.into());
                }
                shown
            };
            let all = fleet.schedules().await?;
            Ok(Value::from_iter(all.into_iter().map(shown)).to_string())
        })
    }

    /// Resolves with true when there was a schedule of this id.
    #[napi]
    pub fn unschedule(&self, id: String) -> Promised<bool> {
        self.call(async move |fleet| fleet.unschedule(&id).await)
    }

    /// Starts due runs of schedules until the fleet is closed.
    #[napi]
    pub fn keep_schedules(&self) -> Promised<()> {
        self.call(async move |fleet| fleet.keep_schedules())
    }
}

enum Pages {
    List(JobList),
    Watch(JobWatch),
}

/// A list of jobs that is being read, or a watch over jobs.
#[napi]
pub struct NativeJobPages {
    pages: Arc<tokio::sync::Mutex<Pages>>,
}

impl NativeJobPages {
    fn of(pages: Pages) -> Self {
        NativeJobPages { pages: Arc::new(tokio::sync::Mutex::new(pages)) }
    }
}

#[napi]
impl NativeJobPages {
    /// Some records: an array as JSON. Of a list it is empty after the last one. A watch waits for one.
    #[napi]
    pub fn next(&self) -> Promised<String> {
        let pages = self.pages.clone();
        settle(async move {
            let page = match &mut *pages.lock().await {
                Pages::List(list) => list.next().await?,
                Pages::Watch(watch) => watch.next().await?,
            };
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
