//! The types and functions that the fleet passes to and from JavaScript. Names and order match lib/fleet.ts. Records and specs
//! are passed as JSON.

use super::budget::NativeBudget;
use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
use super::fleet_agent::FleetAgent;
use super::fleet_job::{JsHost, NativeJob, storable};
use super::harness::TurnSpec;
use super::limit::{NativeConcurrencyLimit, all_limits};
use super::mcp_server::PairSpec;
use super::option::{Millis, give};
use super::promise::{Promised, done, settle};
use super::turn_observer::{NativeSeenTurn, showing};
use fleet::{
    Access, Fleet, FleetOptions, Follow, FollowedBatch, JobFault, JobSpec, ServerPlaces, Submitted,
    WeakFleet, Worker, WorkerOptions,
};
use ground::error::{Error, ErrorCode};
use napi::Env;
use napi::bindgen_prelude::{Function, ToNapiValue, within_runtime_if_available};
use napi_derive::napi;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Checked options of a connection. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct FleetSpec {
    pub memory: Option<bool>,
    pub servers: Vec<String>,
    pub dir: String,
    /// Value of the variable SHEEPDOG_NATS_SERVER.
    pub server_program: Option<String>,
    /// Value of the variable PATH.
    pub path: Option<String>,
    /// Path of the program in the optional package.
    pub server_package: Option<String>,
    pub credentials: Option<String>,
    pub ca: Option<String>,
    pub token: Option<String>,
    pub prefix: Option<String>,
    pub lease_ms: Option<Millis>,
    pub replicas: Option<f64>,
}

/// Checked options of a worker.
#[napi(object, object_to_js = false)]
pub struct WorkSpec {
    pub queues: Option<Vec<String>>,
    pub concurrency: Option<f64>,
    pub name: Option<String>,
    /// The names of the handlers.
    pub handlers: Vec<String>,
    /// Options of the agents' turns, for all agents or for the one that they name.
    pub agent: TurnSpec,
    pub drain_timeout_ms: Option<Millis>,
    pub git_dir: Option<String>,
    pub git_idle_timeout_ms: Option<Millis>,
}

/// Some events of one attempt. An event's cursor consists of `cursor` and the number of its line.
#[napi(object, object_from_js = false)]
pub struct FollowedEvents {
    pub attempt: u32,
    pub cursor: String,
    pub first_line: u32,
    /// Milliseconds since 1970 by the server's clock.
    pub stored_at_ms: f64,
    /// One JSON text per line.
    pub lines: String,
}

/// One per JavaScript environment. Its fleets end with the environment.
#[napi]
pub struct FleetHost {
    objects: EnvironmentObjects<WeakFleet>,
}

#[napi]
impl FleetHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        Ok(FleetHost { objects: EnvironmentObjects::of(&env)? })
    }

    #[napi]
    pub fn connect(&self, spec: FleetSpec) -> Promised<NativeFleet> {
        let objects = self.objects.clone();
        settle(async move {
            let fleet = Fleet::connect(to_options(spec)).await?;
            objects.add(fleet.downgrade());
            Ok::<_, Error>(NativeFleet { fleet })
        })
    }
}

impl EnvironmentObject for WeakFleet {
    fn end(&self) {
        if let Some(fleet) = self.upgrade() {
            within_runtime_if_available(|| fleet.abandon());
        }
    }

    fn is_over(&self) -> bool {
        self.upgrade().is_none_or(|fleet| fleet.is_closed())
    }
}

fn to_options(spec: FleetSpec) -> FleetOptions {
    let FleetSpec {
        memory,
        servers,
        dir,
        server_program,
        path,
        server_package,
        credentials,
        ca,
        token,
        prefix,
        lease_ms,
        replicas,
    } = spec;
    let mut options = FleetOptions::new(dir);
    options.memory = memory.unwrap_or(false);
    options.places = ServerPlaces {
        named: server_program.map(PathBuf::from),
        path: path.unwrap_or_default(),
        package: server_package.map(PathBuf::from),
    };
    options.access = Access {
        servers,
        token,
        credentials: credentials.map(PathBuf::from),
        ca: ca.map(PathBuf::from),
        prefix: prefix.unwrap_or(options.access.prefix),
        lease: lease_ms.map(|millis| millis.limit().unwrap_or(Duration::MAX)),
        replicas: replicas.map(|count| count as usize),
    };
    options
}

/// A connection to a fleet.
#[napi]
pub struct NativeFleet {
    pub(super) fleet: Fleet,
}

/// A job as JavaScript gives it, and what no field of a job has taken.
#[derive(Deserialize)]
struct GivenJob {
    #[serde(flatten)]
    spec: JobSpec,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A field that is left out has the default of a new job. A field that no job has is an error: it would be dropped in silence.
pub(super) fn to_spec(given: Value) -> Result<JobSpec, Error> {
    let given = storable(given).map_err(|problem| Error::invalid_option("job", problem))?;
    let whole = serde_json::to_value(JobSpec::new()).and_then(|mut whole| {
        if let (Some(whole), Value::Object(given)) = (whole.as_object_mut(), given) {
            whole.extend(given);
        }
        ground::json::typed::<GivenJob>(whole)
    });
    let GivenJob { spec, unknown } = whole.map_err(|error| Error::invalid_option("job", error))?;
    match unknown.keys().next() {
        None => Ok(spec),
        Some(name) => Err(Error::invalid_option(name, "no such field of a job")),
    }
}

impl NativeFleet {
    /// Promises what a call of the fleet resolves with.
    pub(super) fn call<T, F>(&self, call: impl FnOnce(Fleet) -> F) -> Promised<T>
    where
        T: ToNapiValue + Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        settle(call(self.fleet.clone()))
    }
}

#[napi]
impl NativeFleet {
    /// Submits a job. `spec` is JSON. Resolves with the job's id.
    #[napi]
    pub fn submit(&self, spec: String) -> Promised<String> {
        self.call(async move |fleet| {
            let given = ground::json::read(&spec).map_err(|error| Error::invalid_option("job", error))?;
            fleet.submit(to_spec(given)?).await
        })
    }

    /// Submits many jobs. `specs` is a JSON array. Resolves with an answer for each, as JSON.
    #[napi]
    pub fn submit_many(&self, specs: String) -> Promised<String> {
        self.call(async move |fleet| {
            let given: Vec<Value> =
                ground::json::read(&specs).map_err(|error| Error::invalid_option("jobs", error))?;
            let answers = fleet.submit_many(given.into_iter().map(to_spec).collect()).await?;
            let shown = |answer: &Submitted| {
                serde_json::json!({
                    "id": answer.id,
                    "known": answer.is_known,
                    "error": answer.error.as_ref().map(JobFault::from),
                })
            };
            Ok(Value::from_iter(answers.iter().map(shown)).to_string())
        })
    }

    #[napi]
    pub fn record(&self, id: String) -> Promised<String> {
        self.call(async move |fleet| fleet.record(&id).await.map(|record| record.shown().to_string()))
    }

    /// Resolves with the record once the job is over.
    #[napi]
    pub fn settled(&self, id: String) -> Promised<String> {
        self.call(async move |fleet| fleet.settled(&id).await.map(|record| record.shown().to_string()))
    }

    /// Fetches a result that is not in the record but named by it, as JSON.
    #[napi]
    pub fn result_object(&self, name: String) -> Promised<String> {
        self.call(async move |fleet| {
            let bytes = fleet.result_object(&name).await?;
            String::from_utf8(bytes.into()).map_err(|_| {
                Error::new(ErrorCode::FleetStorage, format!("{name} is damaged: it is not text"))
            })
        })
    }

    #[napi]
    pub fn cancel(&self, id: String, is_forced: bool) -> Promised<String> {
        self.call(async move |fleet| {
            fleet.cancel(&id, is_forced).await.map(|record| record.shown().to_string())
        })
    }

    #[napi]
    pub fn retry(&self, id: String) -> Promised<()> {
        self.call(async move |fleet| fleet.retry(&id).await)
    }

    #[napi]
    pub fn follow(&self, id: String, from: Option<String>, live: bool) -> Promised<NativeFollow> {
        self.call(async move |fleet| {
            let follow = fleet.follow(&id, from.as_deref(), live).await?;
            Ok(NativeFollow { follow: Arc::new(tokio::sync::Mutex::new(follow)) })
        })
    }

    #[napi]
    pub fn download(&self, id: String, path: String, to: String) -> Promised<()> {
        self.call(async move |fleet| fleet.download(&id, &path, to.as_ref()).await)
    }

    /// `onJob` is called for each job with a handler. It answers through the job's own methods. `onTurn` is called for each turn of
    /// an agent as it begins.
    #[napi]
    pub fn work(
        &self,
        spec: WorkSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        #[napi(ts_arg_type = "(job: NativeJob) => void")] on_job: Function<'static, NativeJob, ()>,
        #[napi(ts_arg_type = "(turn: NativeSeenTurn) => { name: string; value: string }[]")]
        on_turn: Function<'static, NativeSeenTurn, Vec<PairSpec>>,
    ) -> napi::Result<Promised<NativeWorker>> {
        let budget = budget.map(|budget| budget.budget.clone());
        let WorkSpec {
            queues,
            concurrency,
            name,
            handlers,
            agent,
            drain_timeout_ms,
            git_dir,
            git_idle_timeout_ms,
        } = spec;
        let agent = FleetAgent::new(agent, all_limits(limits), budget, showing(&on_turn)?);
        let host = JsHost::new(&on_job, handlers, agent)?;
        let mut options = WorkerOptions::new(Arc::new(host));
        give(&mut options.queues, queues);
        give(&mut options.concurrency, concurrency.map(|count| count as usize));
        options.name = name;
        give(&mut options.drain_timeout, drain_timeout_ms.map(Millis::grace));
        give(&mut options.git.folder, git_dir.map(PathBuf::from));
        let idle = git_idle_timeout_ms.map(|millis| millis.limit().unwrap_or(Duration::MAX));
        give(&mut options.git.idle_timeout, idle);
        let fleet = self.fleet.clone();
        Ok(settle(async move { fleet.work(options).await.map(|worker| NativeWorker { worker }) }))
    }

    /// The status as JSON.
    #[napi]
    pub fn status(&self) -> Promised<String> {
        self.call(async move |fleet| fleet.status().await.map(|status| serde_json::json!(status).to_string()))
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        let fleet = self.fleet.clone();
        done(async move { fleet.close().await })
    }
}

/// A reader of a job's events.
#[napi]
pub struct NativeFollow {
    follow: Arc<tokio::sync::Mutex<Follow>>,
}

#[napi]
impl NativeFollow {
    /// The next events. Null when the job is over and all its events were delivered.
    #[napi(ts_return_type = "Promised<FollowedEvents | null>")]
    pub fn next(&self) -> Promised<Option<FollowedEvents>> {
        let follow = self.follow.clone();
        settle(async move {
            let batch = follow.lock().await.next().await?;
            Ok::<_, Error>(batch.map(to_events))
        })
    }

    /// Ends the reading and releases the server's state for it.
    #[napi]
    pub fn close(&self) -> Promised<()> {
        let follow = self.follow.clone();
        done(async move { follow.lock().await.close() })
    }
}

fn to_events(batch: FollowedBatch) -> FollowedEvents {
    FollowedEvents {
        attempt: batch.attempt,
        cursor: batch.cursor,
        first_line: u32::try_from(batch.first_line).unwrap_or(u32::MAX),
        stored_at_ms: batch.stored_at as f64,
        lines: String::from_utf8_lossy(&batch.lines).into_owned(),
    }
}

/// A worker under way.
#[napi]
pub struct NativeWorker {
    worker: Worker,
}

#[napi]
impl NativeWorker {
    #[napi(getter)]
    pub fn name(&self) -> String {
        self.worker.name().to_owned()
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        let worker = self.worker.clone();
        done(async move { worker.close().await })
    }

    /// Resolves when the worker was closed. Until then it keeps the host alive.
    #[napi]
    pub fn closed(&self) -> Promised<()> {
        let worker = self.worker.clone();
        done(async move { worker.closed().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_that_no_job_has_is_named_and_not_dropped() {
        let job = json!({ "handler": "check", "priority": 7, "at": 12, "options": { "model": "m" } });
        let spec = to_spec(job.clone()).unwrap();
        assert_eq!((spec.handler.as_deref(), spec.priority, spec.attempts), (Some("check"), 7, 3));
        let mut more = job;
        more["probeMs"] = json!(1);
        assert_eq!(to_spec(more).unwrap_err().message(), "probeMs: no such field of a job");
    }
}
