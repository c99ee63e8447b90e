//! PURE: the error that a user gets when a session could not be opened.

use crate::acp::turn::verdict;
use crate::acp::wire::connection::Exit;
use crate::acp::wire::update::{AgentFault, owned};
use crate::harness::AgentRequest;
use crate::harness::clip::clip_to;
use crate::harness::limit::usage_limit::UsageLimit;
use crate::harness::verdict::Fault as HarnessFault;
use crate::harness::{AgentErrorKind, Provider};
use ground::error::{Error, ErrorCode};
use serde_json::Value;
use std::time::Duration;

/// Why a session could not be opened.
pub(crate) enum Fault {
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
    /// `ways_in`: how the agent offers to be signed in.
    pub(crate) fn into_error(self, agent: Provider, exit: &Exit, ways_in: &[String]) -> Error {
        let name = agent.as_str();
        let tail = exit.reason().map(|line| format!(": {line}")).unwrap_or_default();
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
                let kind = verdict::kind(agent, &fault);
                let offers = if kind == AgentErrorKind::Auth && !ways_in.is_empty() {
                    format!(". It can be signed in by: {}", ways_in.join("; "))
                } else {
                    String::new()
                };
                let message = format!("{name} refused {method}: {}{offers}", fault.words());
                Error::new(ErrorCode::AgentFailed, message).with("kind", kind.as_str())
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
            Fault::Gone { method, cause } => {
                exit.crash(agent, &format!(" before it answered {method}"), cause.as_ref())
            }
            Fault::Other(error) => error,
        }
    }
}

/// The error with the end of the usage limit that it tells of, if it does.
pub(crate) fn with_reset(error: Error, request: &AgentRequest) -> Error {
    let HarnessFault { error, reset, .. } = HarnessFault::from(error).resetting(None);
    match reset.and_then(|reset| UsageLimit::said(&reset, request)) {
        Some(limit) => limit.tell(error),
        None => error,
    }
}

/// Most ways that an error names.
const MAX_WAYS: usize = 8;

/// How the agent offers to be signed in, as its answer to `initialize` tells it.
pub(crate) fn ways_in(hello: &Value) -> Vec<String> {
    let ways = hello["authMethods"].as_array().into_iter().flatten().take(MAX_WAYS);
    ways.filter_map(|way| {
        let name = owned(&way["name"]).or_else(|| owned(&way["id"]))?;
        let told = owned(&way["description"]).map(|words| format!(" ({words})")).unwrap_or_default();
        Some(clip_to(&format!("{name}{told}"), 200).into_owned())
    })
    .collect()
}

const AUTH_REQUIRED: i64 = -32_000;

/// Whether this request begins a session or takes one up.
pub(crate) fn is_opening(method: &str) -> bool {
    matches!(method, "session/new" | "session/fork") || is_resume(method)
}

pub(crate) fn is_resume(method: &str) -> bool {
    matches!(method, "session/load" | "session/resume")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_that_is_not_signed_in_says_how_it_can_be() {
        let ways = ways_in(&json!({"authMethods":[
            {"id":"oauth","name":"Log in with Google","description":"opens a browser"},{"id":"api-key"},{}
        ]}));
        let fault = |code: i64, message: &str| Fault::Refused {
            method: "session/new",
            fault: AgentFault::read(&json!({"code":code,"message":message})),
        };
        let told =
            |fault: Fault| fault.into_error(Provider::Gemini, &Exit::default(), &ways).message().to_owned();
        assert_eq!(
            told(fault(-32_000, "Authentication required")),
            "gemini refused session/new: Authentication required. It can be signed in by: Log in with Google (opens a browser); api-key"
        );
        assert!(!told(fault(-32_603, "no such folder")).contains("signed in"));
    }
}
