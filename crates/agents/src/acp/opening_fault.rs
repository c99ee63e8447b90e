//! PURE: the error that a user gets when a session could not be opened.

use super::connection::Exit;
use super::update::AgentFault;
use super::verdict;
use crate::harness::Provider;
use ground::error::{Error, ErrorCode};
use std::time::Duration;

/// Why a session could not be opened.
pub(super) enum Fault {
    /// The agent answered this request with an error.
    Refused {
        method: &'static str,
        fault: AgentFault,
    },
    Silent {
        method: &'static str,
        limit: Duration,
    },
    /// Its stream is over.
    Gone {
        method: &'static str,
        /// Why, where that was not the program's exit.
        cause: Option<Error>,
    },
    Other(Error),
}

impl Fault {
    pub(super) fn into_error(self, agent: Provider, exit: &Exit) -> Error {
        let name = agent.as_str();
        let tail = exit.last_line().map(|line| format!(": {line}")).unwrap_or_default();
        match self {
            Fault::Refused { method, fault } if is_resume(method) && fault.code != AUTH_REQUIRED => {
                let hint = match agent {
                    Provider::Gemini => " (gemini takes up only what a prompt was answered in)",
                    _ => "",
                };
                let message = format!(
                    "{name} could not go on with the session: {}{hint}. Resume it in the folder that it was begun in",
                    fault.words()
                );
                Error::new(ErrorCode::AgentResumeFailed, message).with("rpcCode", fault.code)
            }
            Fault::Refused { method, fault } => {
                let message = format!("{name} refused {method}: {}", fault.words());
                Error::new(ErrorCode::AgentFailed, message)
                    .with("kind", verdict::kind(agent, &fault).as_str())
            }
            Fault::Silent { method, limit } => {
                let seconds = limit.as_secs_f64();
                let message = format!(
                    "{name} did not answer {method} within {seconds} s (startTimeoutMs): is it a version that speaks the protocol?{tail}"
                );
                Error::new(ErrorCode::AgentIdle, message)
                    .with("startTimeoutMs", seconds * 1e3)
                    .with("method", method)
            }
            Fault::Gone { cause: Some(cause), .. } if cause.code() == ErrorCode::AddonFault => cause,
            Fault::Gone { method, cause: Some(cause) } => {
                let message =
                    format!("{name}'s connection was lost before it answered {method}: {}", cause.message());
                exit.tell(Error::new(ErrorCode::AgentCrashed, message).caused_by(cause))
            }
            Fault::Gone { method, cause: None } => {
                let message = format!("{name} {} before it answered {method}{tail}", exit.words());
                exit.tell(Error::new(ErrorCode::AgentCrashed, message))
            }
            Fault::Other(error) => error,
        }
    }
}

const AUTH_REQUIRED: i64 = -32_000;

/// Whether this request begins a session or takes one up.
pub(super) fn is_opening(method: &str) -> bool {
    matches!(method, "session/new" | "session/fork") || is_resume(method)
}

pub(super) fn is_resume(method: &str) -> bool {
    matches!(method, "session/load" | "session/resume")
}
