//! Publishes the start and the end of a run to its handles, each once.

use super::spec::Outcome;
use ground::error::{Error, ErrorCode, Result};
use std::sync::Arc;
use tokio::sync::watch;

/// The owner task's side: publishes the start and the end, each once. Only that task holds it, so the handles get an end however
/// the task ends, even by a panic or with its runtime.
pub(super) struct Publisher {
    command: String,
    started: watch::Sender<Option<Result<u32>>>,
    outcome: watch::Sender<Option<Arc<Outcome>>>,
}

/// The handles' side.
#[derive(Clone)]
pub(super) struct Published {
    pub started: watch::Receiver<Option<Result<u32>>>,
    pub outcome: watch::Receiver<Option<Arc<Outcome>>>,
}

impl Publisher {
    pub(super) fn new(command: String) -> (Publisher, Published) {
        let (started, hears_started) = watch::channel(None);
        let (outcome, hears_outcome) = watch::channel(None);
        let published = Published { started: hears_started, outcome: hears_outcome };
        (Publisher { command, started, outcome }, published)
    }

    pub(super) fn set_started(&self, started: Result<u32>) {
        self.started.send_replace(Some(started));
    }

    pub(super) fn set_outcome(&self, outcome: Arc<Outcome>) {
        self.outcome.send_replace(Some(outcome));
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.outcome.borrow().is_some() {
            return;
        }
        let command = &self.command;
        let error = if self.started.borrow().as_ref().is_some_and(Result::is_ok) {
            let message = format!(
                "the task that watched {command} ended before it: its processes are killed, its exit status is unknown"
            );
            Error::new(ErrorCode::ProcessLost, message)
        } else {
            let message = format!("{command} was not started: the addon is shutting down, or failed");
            Error::new(ErrorCode::ProcessSpawnFailed, message)
        };
        self.set_started(Err(error.clone()));
        self.set_outcome(Arc::new(Outcome { result: None, error: Some(error) }));
    }
}
