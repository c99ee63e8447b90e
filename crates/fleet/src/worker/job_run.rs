//! The host of a job, and one attempt at the job as the host sees it.

use super::artifacts;
use super::book::Book;
use super::log_writer::LogWriter;
use crate::engine::Shared;
use crate::fault::JobFault;
use crate::name::artifact_object;
use crate::record::{Artifact, JobRecord};
use crate::spec::JobSpec;
use agents::harness::Usage;
use bytes::Bytes;
use git::Checkout;
use ground::error::Error;
use ground::lock::lock;
use serde_json::Value;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::watch;

/// The result of a job's work; `None` if it returned none.
pub type JobFuture = Pin<Box<dyn Future<Output = Result<Option<Value>, JobFault>> + Send>>;

/// Runs jobs.
pub trait JobHost: Send + Sync + 'static {
    /// Whether this host can run the job; a job that it can't run is given to others.
    fn accepts(&self, spec: &JobSpec) -> bool;

    /// The names of the host's own handlers, for `fleet status`.
    fn handlers(&self) -> Vec<String>;

    /// Runs it. After the run's stop signal the future has to end; what it then says does not count.
    fn run(&self, run: JobRun) -> JobFuture;
}

/// Why a run has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The job was cancelled.
    Cancelled,
    /// Another worker has the job now.
    Lost,
    /// The worker closes. Another one gets the job.
    Closing,
}

/// Tells the run that it has to end.
#[derive(Clone)]
pub struct StopSignal(pub(super) watch::Receiver<Option<StopCause>>);

impl StopSignal {
    pub async fn stopped(&self) -> StopCause {
        let mut stop = self.0.clone();
        let cause = stop.wait_for(Option::is_some).await.ok().and_then(|cause| *cause);
        match cause {
            Some(cause) => cause,
            None => std::future::pending().await,
        }
    }
}

/// One attempt at a job, as its host sees it. Cloneable.
#[derive(Clone)]
pub struct JobRun {
    pub id: Arc<str>,
    pub attempt: u32,
    pub spec: Arc<JobSpec>,
    pub(super) past: Arc<Past>,
    pub(super) worker: Arc<str>,
    pub stop: StopSignal,
    pub(super) engine: Shared,
    pub(super) log: LogWriter,
    pub(super) book: Arc<Book>,
    pub(super) files: Arc<Files>,
}

/// The attempts before this one.
pub(super) struct Past {
    /// The agent's session to resume: a tool ran in it before.
    pub resume: Option<String>,
    /// Name of the object with the session's files.
    pub session_object: Option<String>,
    /// Usage of earlier attempts; `budgeted` is the part of it that counts for the job's budget.
    pub usage: Usage,
    pub budgeted: Usage,
    /// The worker of the previous attempt.
    pub last_worker: Option<String>,
}

impl Past {
    pub(super) fn new(record: &JobRecord, last_worker: Option<String>) -> Past {
        Past {
            resume: record.session_to_resume().map(str::to_owned),
            session_object: record.session_object.clone(),
            usage: record.usage.unwrap_or_default(),
            budgeted: record.used(),
            last_worker,
        }
    }
}

/// The files of an attempt.
#[derive(Default)]
pub(super) struct Files {
    /// Artifacts that were kept so far.
    artifacts: Mutex<Vec<Artifact>>,
    /// Working directory of a turn, if its worker has chosen a folder for it.
    pub folder: OnceLock<PathBuf>,
    /// The checkout of a job with a repository, once it is ready.
    pub checkout: OnceLock<Checkout>,
}

impl JobRun {
    /// Puts an event (one line of JSON) into the job's log; waits when the store is behind.
    pub async fn emit(&self, event: String) -> Result<(), Error> {
        self.log.emit(event).await
    }

    /// The job's working directory; paths of artifacts are below it.
    pub fn cwd(&self) -> PathBuf {
        if let Some(checkout) = self.files.checkout.get() {
            return checkout.path().to_owned();
        }
        if let Some(folder) = self.files.folder.get() {
            return folder.clone();
        }
        let own = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        self.spec.cwd.as_ref().map_or_else(own, PathBuf::from)
    }

    /// Whether what an attempt before this one left in its working directory may be missing here.
    pub(super) fn lacks_files(&self) -> bool {
        match self.files.checkout.get() {
            Some(checkout) => !checkout.goes_on(),
            None => self.past.last_worker.as_deref().is_some_and(|last| last != self.worker.as_ref()),
        }
    }

    /// Keeps a file as the attempt left it.
    pub async fn artifact(&self, path: &str) -> Result<(), Error> {
        let relative = artifacts::relative(&self.cwd(), Path::new(path))?;
        let kept = artifacts::keep(&self.engine, &self.id, self.attempt, &self.cwd(), &relative).await?;
        let mut artifacts = lock(&self.files.artifacts);
        artifacts.retain(|artifact| artifact.path != kept.path);
        artifacts.push(kept);
        Ok(())
    }

    /// Artifacts that were kept so far, by path.
    pub(super) fn kept_artifacts(&self) -> Vec<Artifact> {
        let mut kept = lock(&self.files.artifacts).clone();
        kept.sort_by(|left, right| left.path.cmp(&right.path));
        kept
    }

    /// Writes into the record what the next attempt has to know. Done before anything else happens.
    pub(super) async fn note(&self, session_id: Option<String>, tools_ran: bool) {
        self.book.note(session_id, tools_ran, None, None).await;
    }

    /// Writes into the record what this attempt used so far.
    pub(super) async fn note_usage(&self, used: Usage) {
        self.book.note(None, false, None, Some(self.past.usage.plus(used))).await;
    }

    /// Stores what the agent wrote for its session, and has the record name it.
    pub(super) async fn keep_session(&self, packed: Bytes) -> Result<(), Error> {
        let name = artifact_object(&self.id, self.attempt, "/session");
        self.engine.put_object(&name, packed).await?;
        self.book.note(None, false, Some(name), None).await;
        Ok(())
    }
}
