//! The handle of a fleet for its users.

use super::engine::{Access, Key, Local, ServerPlaces, Shared, open_memory};
use super::filter::Filter;
use super::follow::Follow;
use super::lease::DEFAULT_LEASE;
use super::listed::Listed;
use super::listing::JobList;
use super::name::{DEFAULT_PREFIX, artifact_object, is_prefix};
use super::operation::retry_many;
use super::prune::{Prune, Pruned};
use super::record::JobRecord;
use super::schedule::Schedule;
use super::scheduler::keep_schedules;
use super::spec::JobSpec;
use super::status::FleetStatus;
use super::submitter::Submitted;
use super::watching::JobWatch;
use super::worker::{Gate, Worker, WorkerOptions};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

const MIN_LEASE: Duration = Duration::from_secs(1);
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// How to get to a fleet.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// The fleet is in the memory of this process, and everything else but the lease means nothing.
    pub memory: bool,
    /// Store of the fleet's own server, if `access` names no servers.
    pub dir: PathBuf,
    pub places: ServerPlaces,
    pub access: Access,
}

impl FleetOptions {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let access = Access { prefix: DEFAULT_PREFIX.to_owned(), ..Access::default() };
        FleetOptions { memory: false, dir: dir.into(), places: ServerPlaces::default(), access }
    }

    fn check(&self) -> Result<(), Error> {
        let Access { prefix, lease, .. } = &self.access;
        if !is_prefix(prefix) {
            let problem = format!("expected 1 to 32 lower-case letters, digits and \"-\", got {prefix:?}");
            return Err(Error::invalid_option("prefix", problem));
        }
        if lease.is_some_and(|lease| !(MIN_LEASE..=MAX_LEASE).contains(&lease)) {
            let problem = format!("expected {} to {} ms", MIN_LEASE.as_millis(), MAX_LEASE.as_millis());
            return Err(Error::invalid_option("leaseMs", problem));
        }
        Ok(())
    }
}

/// A connection to a fleet. Cloneable; its own server ends with the last handle.
#[derive(Clone)]
pub struct Fleet(Arc<Parts>);

struct Parts {
    engine: Shared,
    local: Option<Local>,
    workers: Mutex<Vec<Worker>>,
    gate: Gate,
    scheduler: Mutex<Option<Keeping>>,
    closed: OnceCell<()>,
}

/// A task that ends with its owner.
struct Keeping(JoinHandle<()>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Fleet {
    pub async fn connect(options: FleetOptions) -> Result<Fleet, Error> {
        options.check()?;
        let FleetOptions { memory, dir, places, access } = options;
        if memory {
            return Ok(Fleet::of(open_memory(access.lease.unwrap_or(DEFAULT_LEASE)), None));
        }
        if !access.servers.is_empty() {
            return Ok(Fleet::of(super::engine::connect(&access).await?, None));
        }
        let connect = |url, token| {
            let access = Access { servers: vec![url], token: Some(token), ..access.clone() };
            async move { super::engine::connect(&access).await }
        };
        let (local, engine) = Local::join(&dir, &places, connect).await?;
        local.watch_over(engine.is_connected()).await;
        Ok(Fleet::of(engine, Some(local)))
    }

    fn of(engine: Shared, local: Option<Local>) -> Fleet {
        Fleet(Arc::new(Parts {
            engine,
            local,
            workers: Mutex::default(),
            gate: Gate::new(),
            scheduler: Mutex::default(),
            closed: OnceCell::new(),
        }))
    }

    fn engine(&self) -> Result<&Shared, Error> {
        if self.0.closed.initialized() {
            return Err(Error::new(
                ErrorCode::FleetClosed,
                "the fleet was closed: connect again with Fleet.connect()",
            ));
        }
        Ok(&self.0.engine)
    }

    /// Resolves with the job's id once the fleet has it: from then on it will be run.
    pub async fn submit(&self, spec: JobSpec) -> Result<String, Error> {
        self.engine()?.submit(spec).await
    }

    /// Takes many jobs in; one answer for each, in order.
    pub async fn submit_many(&self, specs: Vec<Result<JobSpec, Error>>) -> Result<Vec<Submitted>, Error> {
        Ok(self.engine()?.submit_many(specs).await)
    }

    pub async fn record(&self, id: &str) -> Result<Listed, Error> {
        let engine = self.engine()?;
        match engine.read_listed(id).await? {
            Some(record) => Ok(record),
            None => Ok(Listed::Known(Box::new(engine.look_up(id).await?.record))),
        }
    }

    /// `after`: behind the job of this id.
    pub async fn list(
        &self,
        filter: Filter,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<JobList, Error> {
        JobList::open(self.engine()?, filter, after, limit).await
    }

    /// Tells of jobs that change from now on.
    pub async fn watch(&self, filter: Filter) -> Result<JobWatch, Error> {
        JobWatch::open(self.engine()?, filter).await
    }

    /// Tries jobs again; failed, dead and cancelled ones if no state is named. Returns their number.
    pub async fn retry_many(&self, filter: Filter) -> Result<u64, Error> {
        retry_many(self.engine()?, filter).await
    }

    /// Resolves when no worker starts a job of the queue any more.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        self.engine()?.pause(queue).await
    }

    /// True when it was paused.
    pub async fn resume(&self, queue: &str) -> Result<bool, Error> {
        self.engine()?.resume(queue).await
    }

    /// Resolves when the worker starts no more jobs.
    pub async fn drain(&self, worker: &str) -> Result<(), Error> {
        self.engine()?.drain(worker).await
    }

    /// Sets a schedule, in place of any earlier one of its id; and starts due runs from now on.
    pub async fn schedule(&self, schedule: &Schedule) -> Result<(), Error> {
        let engine = self.engine()?;
        engine.write_schedule(schedule, None).await?;
        self.keep_schedules()
    }

    /// All schedules, and the epoch milliseconds of their next runs.
    pub async fn schedules(&self) -> Result<Vec<(Schedule, Option<u64>)>, Error> {
        self.engine()?.schedules().await
    }

    /// True when there was one.
    pub async fn unschedule(&self, id: &str) -> Result<bool, Error> {
        self.engine()?.unset(&Key::Schedule(id.to_owned())).await
    }

    /// Starts due runs of schedules until the fleet is closed.
    pub fn keep_schedules(&self) -> Result<(), Error> {
        let engine = self.engine()?.clone();
        lock(&self.0.scheduler).get_or_insert_with(|| Keeping(ground::task::spawn(keep_schedules(engine))));
        Ok(())
    }

    /// The record of the job once it is over.
    pub async fn settled(&self, id: &str) -> Result<JobRecord, Error> {
        self.engine()?.settled(id).await
    }

    /// The result of a record that names it instead of having it; JSON.
    pub async fn result_object(&self, name: &str) -> Result<Bytes, Error> {
        self.engine()?.object(name).await
    }

    pub async fn cancel(&self, id: &str, is_forced: bool) -> Result<JobRecord, Error> {
        self.engine()?.cancel(id, is_forced).await
    }

    pub async fn retry(&self, id: &str) -> Result<(), Error> {
        self.engine()?.retry(id).await
    }

    /// The job's events from this cursor on; `None`: all of them.
    pub async fn follow(&self, id: &str, from: Option<&str>, live: bool) -> Result<Follow, Error> {
        let engine = self.engine()?;
        engine.look_up(id).await?;
        Follow::open(engine, id, from, live).await
    }

    /// Writes an artifact of the attempt that counts into a file.
    pub async fn download(&self, id: &str, path: &str, to: &Path) -> Result<(), Error> {
        let engine = self.engine()?;
        let record = engine.look_up(id).await?.record;
        if !record.artifacts.iter().any(|artifact| artifact.path == path) {
            let problem = format!("job {id} has no artifact {path:?}");
            return Err(Error::invalid_option("path", problem));
        }
        engine.fetch_object(&artifact_object(id, record.attempt, path), to).await
    }

    pub async fn work(&self, options: WorkerOptions) -> Result<Worker, Error> {
        let worker = Worker::start(self.engine()?.clone(), options, self.0.gate.clone()).await?;
        self.keep_schedules()?;
        let mut workers = lock(&self.0.workers);
        workers.retain(|worker| !worker.is_closed());
        workers.push(worker.clone());
        Ok(worker)
    }

    /// Removes jobs that are over, with all that is kept of them.
    pub async fn prune(&self, asked: &Prune) -> Result<Pruned, Error> {
        self.engine()?.prune(asked).await
    }

    pub async fn status(&self) -> Result<FleetStatus, Error> {
        self.engine()?.status().await
    }

    /// Drains its workers, then closes the connection, and its own server with it. Again is the same.
    pub async fn close(&self) {
        self.0
            .closed
            .get_or_init(async || {
                lock(&self.0.scheduler).take();
                let workers: Vec<Worker> = lock(&self.0.workers).clone();
                for worker in &workers {
                    worker.close().await;
                }
                self.0.engine.close().await;
                if let Some(local) = &self.0.local {
                    local.close().await;
                }
            })
            .await;
    }

    /// The JavaScript environment is gone: nobody waits for anything.
    pub fn abandon(&self) {
        let workers = lock(&self.0.workers).clone();
        let fleet = self.clone();
        ground::task::spawn(async move {
            for worker in workers {
                worker.stop().await;
            }
            fleet.close().await;
        });
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.initialized()
    }

    pub fn downgrade(&self) -> WeakFleet {
        WeakFleet(Arc::downgrade(&self.0))
    }
}

/// A handle that keeps nothing alive.
#[derive(Clone)]
pub struct WeakFleet(Weak<Parts>);

impl WeakFleet {
    pub fn upgrade(&self) -> Option<Fleet> {
        self.0.upgrade().map(Fleet)
    }
}
