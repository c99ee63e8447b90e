//! The types and functions that the fleet passes to and from JavaScript. Names and order match lib/fleet.ts. Records and specs
//! are passed as JSON.

use super::budget::NativeBudget;
use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
use super::fleet_job::{JsHost, NativeJob};
use super::limit::NativeConcurrencyLimit;
use super::option::Millis;
use super::promise::{Promised, Settled, settle};
use fleet::{
    Fleet, FleetOptions, Follow, FollowedBatch, JobFault, JobRecord, JobSpec, ServerPlaces, Submitted,
    WeakFleet, Worker, WorkerOptions,
};
use ground::error::{Error, ErrorCode};
use napi::Env;
use napi::bindgen_prelude::{Function, within_runtime_if_available};
use napi_derive::napi;
use serde_json::Value;
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
    /// Whether the worker runs turns of agents.
    pub runs_agents: bool,
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
            let connected = Fleet::connect(to_options(spec)).await;
            connected
                .map(|fleet| {
                    objects.add(fleet.downgrade());
                    NativeFleet { fleet }
                })
                .into()
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
    let mut options = FleetOptions::new(spec.dir);
    options.memory = spec.memory.unwrap_or(false);
    options.servers = spec.servers;
    options.places = ServerPlaces {
        named: spec.server_program.map(PathBuf::from),
        path: spec.path.unwrap_or_default(),
        package: spec.server_package.map(PathBuf::from),
    };
    options.credentials = spec.credentials.map(PathBuf::from);
    options.ca = spec.ca.map(PathBuf::from);
    options.token = spec.token;
    if let Some(prefix) = spec.prefix {
        options.prefix = prefix;
    }
    options.lease = spec.lease_ms.map(|millis| millis.limit().unwrap_or(Duration::MAX));
    options.replicas = spec.replicas.map(|count| count as usize);
    options
}

/// A connection to a fleet.
#[napi]
pub struct NativeFleet {
    pub(super) fleet: Fleet,
}

/// A field that is left out has the default of a new job.
pub(super) fn to_spec(given: Value) -> Result<JobSpec, Error> {
    let whole = serde_json::to_value(JobSpec::new()).and_then(|mut whole| {
        if let (Some(whole), Value::Object(given)) = (whole.as_object_mut(), given) {
            whole.extend(given);
        }
        serde_json::from_value::<JobSpec>(whole)
    });
    whole.map_err(|error| Error::invalid_option("job", error))
}

fn shown(record: Result<JobRecord, Error>) -> Settled<String> {
    record.map(|record| record.shown().to_string()).into()
}

#[napi]
impl NativeFleet {
    /// Submits a job. `spec` is JSON. Resolves with the job's id.
    #[napi]
    pub fn submit(&self, spec: String) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move {
            let given = serde_json::from_str(&spec).map_err(|error| Error::invalid_option("job", error));
            match given.and_then(to_spec) {
                Ok(spec) => fleet.submit(spec).await.into(),
                Err(error) => Err(error).into(),
            }
        })
    }

    /// Submits many jobs. `specs` is a JSON array. Resolves with an answer for each, as JSON.
    #[napi]
    pub fn submit_many(&self, specs: String) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move {
            let given: Vec<Value> = match serde_json::from_str(&specs) {
                Ok(given) => given,
                Err(error) => return Err(Error::invalid_option("jobs", error)).into(),
            };
            let answers = fleet.submit_many(given.into_iter().map(to_spec).collect()).await;
            let shown = |answer: &Submitted| {
                serde_json::json!({
                    "id": answer.id,
                    "known": answer.is_known,
                    "error": answer.error.as_ref().map(JobFault::from),
                })
            };
            answers.map(|answers| Value::from_iter(answers.iter().map(shown)).to_string()).into()
        })
    }

    #[napi]
    pub fn record(&self, id: String) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.record(&id).await.map(|record| record.shown().to_string()).into() })
    }

    /// Resolves with the record once the job is over.
    #[napi]
    pub fn settled(&self, id: String) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move { shown(fleet.settled(&id).await) })
    }

    /// Fetches a result that is not in the record but named by it, as JSON.
    #[napi]
    pub fn result_object(&self, name: String) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move {
            let object = fleet.result_object(&name).await;
            object
                .and_then(|bytes| {
                    String::from_utf8(bytes.into()).map_err(|_| {
                        Error::new(ErrorCode::FleetStorage, format!("{name} is damaged: it is not text"))
                    })
                })
                .into()
        })
    }

    #[napi]
    pub fn cancel(&self, id: String, is_forced: bool) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move { shown(fleet.cancel(&id, is_forced).await) })
    }

    #[napi]
    pub fn retry(&self, id: String) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.retry(&id).await.into() })
    }

    #[napi]
    pub fn follow(&self, id: String, from: Option<String>, live: bool) -> Promised<NativeFollow> {
        let fleet = self.fleet.clone();
        settle(async move {
            let follow = fleet.follow(&id, from.as_deref(), live).await;
            let reader = |follow| NativeFollow { follow: Arc::new(tokio::sync::Mutex::new(follow)) };
            follow.map(reader).into()
        })
    }

    #[napi]
    pub fn download(&self, id: String, path: String, to: String) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.download(&id, &path, to.as_ref()).await.into() })
    }

    /// `onJob` is called for each job. It answers through the job's own methods.
    #[napi]
    pub fn work(
        &self,
        spec: WorkSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        #[napi(ts_arg_type = "(job: NativeJob) => void")] on_job: Function<'static, NativeJob, ()>,
    ) -> napi::Result<Promised<NativeWorker>> {
        let limits = limits.into_iter().map(|limit| limit.limit.clone()).collect();
        let host = JsHost::new(
            &on_job,
            spec.handlers,
            spec.runs_agents,
            limits,
            budget.map(|budget| budget.budget.clone()),
        )?;
        let mut options = WorkerOptions::new(Arc::new(host));
        if let Some(queues) = spec.queues {
            options.queues = queues;
        }
        if let Some(concurrency) = spec.concurrency {
            options.concurrency = concurrency as usize;
        }
        options.name = spec.name;
        if let Some(millis) = spec.drain_timeout_ms {
            options.drain_timeout = millis.limit();
        }
        if let Some(folder) = spec.git_dir {
            options.git.folder = PathBuf::from(folder);
        }
        if let Some(millis) = spec.git_idle_timeout_ms {
            options.git.idle_timeout = millis.limit().unwrap_or(Duration::MAX);
        }
        let fleet = self.fleet.clone();
        Ok(settle(async move { fleet.work(options).await.map(|worker| NativeWorker { worker }).into() }))
    }

    /// The status as JSON.
    #[napi]
    pub fn status(&self) -> Promised<String> {
        let fleet = self.fleet.clone();
        settle(async move { fleet.status().await.map(|status| serde_json::json!(status).to_string()).into() })
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        let fleet = self.fleet.clone();
        settle(async move {
            fleet.close().await;
            Settled::Value(())
        })
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
            let batch = follow.lock().await.next().await;
            batch.map(|batch| batch.map(to_events)).into()
        })
    }

    /// Ends the reading and releases the server's state for it.
    #[napi]
    pub fn close(&self) -> Promised<()> {
        let follow = self.follow.clone();
        settle(async move {
            follow.lock().await.close();
            Settled::Value(())
        })
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
        settle(async move {
            worker.close().await;
            Settled::Value(())
        })
    }

    /// Resolves when the worker was closed. Until then it keeps the host alive.
    #[napi]
    pub fn closed(&self) -> Promised<()> {
        let worker = self.worker.clone();
        settle(async move {
            worker.closed().await;
            Settled::Value(())
        })
    }
}
