//! A worker: pulls jobs, holds each by its lease, runs it and commits what came of it.
//!
//! [`Worker`] is the handle; the `owner` task pulls and counts slots; each job is an `attempt`: one task that claims, runs and
//! commits, with a `keeper` beside it that beats and watches the record. What an attempt runs is its [`JobHost`]'s business:
//! a turn of an agent ([`run_turn`]), or code of the host's own. Closing drains: nothing new is pulled, what runs has
//! `drain_timeout`, then it is stopped and given to others.

mod artifacts;
mod attempt;
mod checkout;
mod keeper;
mod log_writer;
mod owner;
mod session;
mod turn;

pub use checkout::GitPlace;
pub use turn::run_turn;

use super::engine::Engine;
use super::record::{Artifact, JobFault};
use super::spec::JobSpec;
use super::subject::Names;
use crate::error::Error;
use attempt::Book;
use bytes::Bytes;
use checkout::Checkout;
use log_writer::LogWriter;
use serde_json::Value;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What comes of a job's work.
pub type JobFuture = Pin<Box<dyn Future<Output = Result<Value, JobFault>> + Send>>;

/// Runs jobs.
pub trait JobHost: Send + Sync + 'static {
    /// Whether this host can run the job; others are given what it can't.
    fn accepts(&self, spec: &JobSpec) -> bool;

    /// The names of its own code, for `fleet status`.
    fn handlers(&self) -> Vec<String>;

    /// Runs it. After the run's stop signal the future has to end; what it then says does not count.
    fn run(&self, run: JobRun) -> JobFuture;
}

/// How a worker works.
pub struct WorkerOptions {
    pub queues: Vec<String>,
    /// Jobs at once.
    pub concurrency: usize,
    /// Made up when `None`.
    pub name: Option<String>,
    /// What runs has so long to end when the worker closes; `None`: as long as it takes.
    pub drain_timeout: Option<Duration>,
    pub git: GitPlace,
    pub host: Arc<dyn JobHost>,
}

impl WorkerOptions {
    pub const CONCURRENCY: usize = 4;
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

    pub fn new(host: Arc<dyn JobHost>) -> Self {
        WorkerOptions {
            queues: vec![super::subject::DEFAULT_QUEUE.to_owned()],
            concurrency: Self::CONCURRENCY,
            name: None,
            drain_timeout: Some(Self::DRAIN_TIMEOUT),
            git: GitPlace::of_user(),
            host,
        }
    }
}

/// A worker under way. Cloneable; dropping the last handle is an abrupt end: what runs is stopped and given to others.
#[derive(Clone)]
pub struct Worker {
    name: Arc<str>,
    commands: mpsc::Sender<owner::Command>,
    closed: watch::Receiver<bool>,
}

impl Worker {
    pub(crate) async fn start(engine: Engine, options: WorkerOptions) -> Result<Worker, Error> {
        for queue in &options.queues {
            super::spec::check_name("queues", queue)?;
        }
        let name: Arc<str> = options.name.clone().unwrap_or_else(made_up_name).into();
        super::spec::check_name("name", &name)?;
        let (commands, received) = mpsc::channel(4);
        let (closing, closed) = watch::channel(false);
        let owner = owner::Owner::new(engine, name.clone(), options, received).await?;
        tokio::spawn(async move {
            owner.run().await;
            closing.send_replace(true);
        });
        Ok(Worker { name, commands, closed })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drains, then ends; resolves when nothing of it runs any more. Again is the same.
    pub async fn close(&self) {
        let _ = self.commands.send(owner::Command::Close).await;
        self.closed().await;
    }

    /// Stops what runs and gives it to others; resolves when nothing runs any more.
    pub async fn stop(&self) {
        let _ = self.commands.send(owner::Command::Stop).await;
        self.closed().await;
    }

    pub async fn closed(&self) {
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

/// Tells the run that it has to end.
#[derive(Clone)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    pub async fn stopped(&self) {
        let mut stop = self.0.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

/// One attempt at a job, as its host sees it. Cloneable.
#[derive(Clone)]
pub struct JobRun {
    pub id: Arc<str>,
    pub attempt: u32,
    pub spec: Arc<JobSpec>,
    /// The agent's session to go on in: a tool ran in it before.
    pub resume: Option<String>,
    /// Its files, as an object.
    session_object: Option<String>,
    pub stop: StopSignal,
    engine: Engine,
    log: LogWriter,
    book: Arc<Book>,
    artifacts: Arc<Mutex<Vec<Artifact>>>,
    /// Where a turn works that its worker has a folder for.
    folder: Arc<OnceLock<PathBuf>>,
    /// Of a job with a repository, once it is there.
    checkout: Arc<OnceLock<Checkout>>,
}

impl JobRun {
    /// Puts an event (one JSON, one line) into the job's log; waits when the store is behind.
    pub async fn emit(&self, event: String) -> Result<(), Error> {
        self.log.emit(event).await
    }

    /// Where the job works: paths of artifacts are below it.
    pub fn cwd(&self) -> PathBuf {
        if let Some(checkout) = self.checkout.get() {
            return checkout.path().to_owned();
        }
        if let Some(folder) = self.folder.get() {
            return folder.clone();
        }
        let own = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        self.spec.cwd.as_ref().map_or_else(own, PathBuf::from)
    }

    /// Keeps a file as the attempt left it.
    pub async fn artifact(&self, path: &str) -> Result<(), Error> {
        let relative = artifacts::relative(&self.cwd(), Path::new(path))?;
        let kept = artifacts::keep(&self.engine, &self.id, self.attempt, &self.cwd(), &relative).await?;
        let mut artifacts = self.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
        artifacts.retain(|artifact| artifact.path != kept.path);
        artifacts.push(kept);
        Ok(())
    }

    /// Writes into the record what the next attempt has to know. Done before anything else happens.
    async fn note(&self, session_id: Option<String>, tools_ran: bool) {
        self.book.note(session_id, tools_ran, None).await;
    }

    /// Stores what the agent wrote for its session, and has the record name it.
    async fn keep_session(&self, packed: Bytes) -> Result<(), Error> {
        let name = Names::artifact(&self.id, self.attempt, "/session");
        self.engine.put_object(&name, packed).await?;
        self.book.note(None, false, Some(name)).await;
        Ok(())
    }
}

fn made_up_name() -> String {
    let mut bytes = [0_u8; 4];
    let _ = getrandom::fill(&mut bytes);
    let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "worker".to_owned());
    format!("{host}-{}-{random}", std::process::id())
}
