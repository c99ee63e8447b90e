//! Log lines about the decisions of a turn's owner (`trace`).

use super::next::{Next, Wait};
use super::request::TurnRequest;
use crate::harness::event::AgentErrorKind;
use ground::error::Error;
use ground::trace::{TURN, debug};

pub(super) fn log_begin(id: u64, request: &TurnRequest) {
    let (resumes, has_schema) = (request.agent.resume.is_some(), request.schema.is_some());
    debug!(target: TURN, id, provider = request.agent.provider.as_str(), resumes, has_schema, "begins");
}

pub(super) fn log_end(id: u64, attempts: u32, error: Option<&Error>) {
    let error = error.map_or("none", |error| error.code().as_str());
    debug!(target: TURN, id, error, attempts, "ended");
}

/// Logs the step that follows an attempt. Text from agents is left out, because it may hold anything.
pub(super) fn log_next(id: u64, attempts: u32, next: &Next) {
    match next {
        Next::Done { .. } => debug!(target: TURN, id, attempts, "decided: done"),
        Next::Failed(fault) => {
            let kind = fault.kind().map_or("none", AgentErrorKind::as_str);
            debug!(target: TURN, id, attempts, error = fault.error.code().as_str(), kind, "decided: failed");
        }
        Next::Anew => debug!(target: TURN, id, attempts, "decided: begun anew, its session was not kept"),
        Next::Misfit { .. } => debug!(target: TURN, id, attempts, "decided: the answer does not fit"),
        Next::Retry { delay, .. } => {
            debug!(target: TURN, id, attempts, after_ms = delay.as_millis(), "decided: tried again");
        }
        Next::Wait(Wait { least, counts }) => {
            debug!(target: TURN, id, attempts, after_ms = least.as_millis(), counts, "decided: the limit is waited out");
        }
        Next::Reask { .. } => {
            debug!(target: TURN, id, attempts, "decided: asked once more for an answer that fits")
        }
    }
}
