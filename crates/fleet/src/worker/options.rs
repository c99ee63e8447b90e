//! Options of a worker.

use super::job_run::JobHost;
use crate::name::DEFAULT_QUEUE;
use git::GitPlace;
use std::sync::Arc;
use std::time::Duration;

/// Options of a worker.
pub struct WorkerOptions {
    pub queues: Vec<String>,
    /// Most jobs at once.
    pub concurrency: usize,
    /// Name of the worker; generated when `None`.
    pub name: Option<String>,
    /// Time that running jobs have to end when the worker closes; unlimited when `None`.
    pub drain_timeout: Option<Duration>,
    pub git: GitPlace,
    pub host: Arc<dyn JobHost>,
}

impl WorkerOptions {
    pub const CONCURRENCY: usize = 4;
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

    pub fn new(host: Arc<dyn JobHost>) -> Self {
        WorkerOptions {
            queues: vec![DEFAULT_QUEUE.to_owned()],
            concurrency: Self::CONCURRENCY,
            name: None,
            drain_timeout: Some(Self::DRAIN_TIMEOUT),
            git: GitPlace::of_user(),
            host,
        }
    }
}
