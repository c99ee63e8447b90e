//! Publishes the start and the end of a run to its handles, each once.

use super::once::Once;
use super::spec::Outcome;
use ground::error::{Error, ErrorCode, Result};
use std::sync::Arc;

/// The owner task's side: publishes the start and the end, each once. Only that task holds it, so the handles get an end however
/// the task ends, even by a panic or with its runtime.
pub(super) struct Publisher {
    command: String,
    published: Published,
}

/// The handles' side.
#[derive(Clone)]
pub(super) struct Published {
    pub started: Once<Result<u32>>,
    pub outcome: Once<Arc<Outcome>>,
}

impl Publisher {
    pub(super) fn new(command: String) -> (Publisher, Published) {
        let published = Published { started: Once::new(), outcome: Once::new() };
        (Publisher { command, published: published.clone() }, published)
    }

    pub(super) fn set_started(&self, started: Result<u32>) {
        self.published.started.set(started);
    }

    pub(super) fn set_outcome(&self, outcome: Arc<Outcome>) {
        self.published.outcome.set(outcome);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.published.outcome.get().is_some() {
            return;
        }
        let command = &self.command;
        let error = if self.published.started.get().is_some_and(|started| started.is_ok()) {
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
