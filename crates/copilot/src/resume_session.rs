//! Resumes a session, and acts on the verdict of [`super::resume`] when that fails.

use super::connection::Connection;
use super::event_log::{self, Inspection};
use super::request_timeout::request_timeout;
use super::resume::{self, Fallback, Judgement, LogState, ResumeEvidence, ResumeVerdict};
use super::session_lock;
use ground::error::{Error, ErrorCode};
use serde_json::Value;
use std::path::PathBuf;
use wires::jsonrpc::quote;

/// The session to resume, and the way to open it afresh if it turns out to be empty.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    pub session_id: String,
    /// Parameters of `session.resume`, as JSON text.
    pub params: String,
    /// Parameters of `session.create`, as JSON text.
    pub create_params: String,
    /// The runtime's home, if it can be read.
    pub home: Option<PathBuf>,
    /// Number of turns that the caller knows of.
    pub known_turns: u64,
    /// Number of messages that this client sent to the session before.
    pub seen_turns: u64,
    pub fallback: Fallback,
    /// Remove the locks of processes that are gone, when the runtime says that the session is in use.
    pub take_over_stale: bool,
}

/// The way in which a session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// "resumed", "recreated" or "without-agent".
    pub how: &'static str,
    pub reason: String,
    /// The result as JSON text.
    pub response: String,
}

impl Resumed {
    /// The JSON text for the host.
    pub fn to_json(&self) -> String {
        let Resumed { how, reason, response } = self;
        format!(r#"{{"how":"{how}","reason":{},"response":{response}}}"#, quote(reason))
    }
}

impl Connection {
    /// Resumes a session. An empty session is opened afresh; a session whose agent is gone is resumed without it.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<Resumed, Error> {
        let first = self.resume_once(request).await;
        let Err(error) = first else { return first };
        if error.code() != ErrorCode::ResumeInUse {
            return Err(error);
        }
        let Some(home) = request.home.clone() else { return Err(error) };
        let (id, takes_over) = (request.session_id.clone(), request.take_over_stale);
        let looked = ground::os::blocking(move || {
            let locks = session_lock::locks_of(&home, &id);
            (locks, takes_over.then(|| session_lock::take_over(&home, &id)).flatten())
        });
        let Ok((locks, taken)) = looked.await else { return Err(error) };
        let Some(taken) = taken else {
            let holder = locks.iter().find(|lock| !lock.is_stale).or(locks.first());
            let is_stale = !locks.is_empty() && locks.iter().all(|lock| lock.is_stale);
            let error = error.with("stale", is_stale);
            return Err(match holder {
                Some(lock) => error.with("pid", lock.pid),
                None => error,
            });
        };
        let mut resumed = self.resume_once(request).await?;
        let pids: Vec<String> = taken.iter().map(ToString::to_string).collect();
        resumed.reason =
            format!("{}; taken over from process {}, which is gone", resumed.reason, pids.join(", "));
        Ok(resumed)
    }

    async fn ask(&self, method: &str, params: &str) -> Result<String, Error> {
        self.client().request(method, params, Some(request_timeout(method))).await
    }

    async fn resume_once(&self, request: &ResumeRequest) -> Result<Resumed, Error> {
        let error = match self.ask("session.resume", &request.params).await {
            Ok(response) => {
                return Ok(Resumed {
                    how: "resumed",
                    reason: "the runtime opened its history".to_owned(),
                    response,
                });
            }
            Err(error) => error,
        };
        let (params, has_agent) = without_agent(&request.params);
        let (judgement, evidence) = self.judge(request, &error, has_agent).await?;
        match judgement.verdict {
            ResumeVerdict::WithoutAgent => {}
            ResumeVerdict::Recreate => {
                return self.recreate(request, &request.create_params, error, &judgement).await;
            }
            _ => return Err(rejection(request, error, &judgement, evidence.log)),
        }
        let reason = format!("{}: {}", judgement.reason, error.message());
        match self.ask("session.resume", &params).await {
            Ok(response) => Ok(Resumed { how: "without-agent", reason, response }),
            Err(second) => {
                let (judgement, evidence) = self.judge(request, &second, false).await?;
                match judgement.verdict {
                    ResumeVerdict::Recreate => {
                        let (create, _) = without_agent(&request.create_params);
                        self.recreate(request, &create, second, &judgement).await
                    }
                    _ => Err(rejection(request, second, &judgement, evidence.log)),
                }
            }
        }
    }

    /// Classifies a failure. An error that does not come from the server is returned unchanged.
    async fn judge(
        &self,
        request: &ResumeRequest,
        error: &Error,
        has_agent: bool,
    ) -> Result<(Judgement, ResumeEvidence), Error> {
        if error.code() != ErrorCode::RpcError {
            return Err(error.clone());
        }
        let log = look(request.home.clone(), request.session_id.clone()).await;
        let state = log.as_ref().map_or(LogState::Unknown, |log| log.log);
        let evidence = ResumeEvidence {
            log: state,
            known_turns: match state {
                // The session may have been restarted since.
                LogState::NoTurns => request.known_turns,
                _ => request.known_turns.max(request.seen_turns),
            },
            fallback: request.fallback,
            agent: Some(has_agent),
            bad_line: log.and_then(|log| log.bad_line),
        };
        let code = error.facts().get("rpcCode").and_then(Value::as_i64);
        Ok((resume::classify_resume_error(code, error.message(), &evidence), evidence))
    }

    async fn recreate(
        &self,
        request: &ResumeRequest,
        params: &str,
        error: Error,
        judgement: &Judgement,
    ) -> Result<Resumed, Error> {
        match self.ask("session.create", params).await {
            Ok(response) => {
                let reason = format!("{}: {}", judgement.reason, error.message());
                Ok(Resumed { how: "recreated", reason, response })
            }
            Err(second) if second.code() == ErrorCode::RpcError => {
                let message = format!(
                    "Session {} could not be resumed ({}), nor opened afresh: {}",
                    request.session_id,
                    error.message(),
                    second.message()
                );
                let rpc_code = error.facts().get("rpcCode").cloned().unwrap_or_default();
                Err(Error::new(ErrorCode::ResumeFailed, message).with("rpcCode", rpc_code).caused_by(second))
            }
            Err(second) => Err(second),
        }
    }
}

async fn look(home: Option<PathBuf>, session_id: String) -> Option<Inspection> {
    let home = home?;
    // Reading a log of 100 MB takes long, so it runs on its own thread and the other sessions continue.
    ground::os::blocking(move || event_log::inspect(&home, &session_id)).await.ok()
}

/// The parameters without the agent, and whether there was one.
fn without_agent(params: &str) -> (String, bool) {
    match ground::json::read::<Value>(params) {
        Ok(Value::Object(mut params)) => {
            let had = params.shift_remove("agent").is_some_and(|agent| !agent.is_null());
            (Value::Object(params).to_string(), had)
        }
        _ => (params.to_owned(), false),
    }
}

fn rejection(request: &ResumeRequest, error: Error, judgement: &Judgement, log: LogState) -> Error {
    let rpc_code = error.facts().get("rpcCode").and_then(Value::as_i64);
    let code = match judgement.verdict {
        ResumeVerdict::Corrupt => ErrorCode::ResumeCorrupt,
        ResumeVerdict::InUse => ErrorCode::ResumeInUse,
        ResumeVerdict::Transient => ErrorCode::ResumeTransient,
        ResumeVerdict::NotFound => ErrorCode::ResumeNotFound,
        _ if rpc_code == Some(resume::INTERNAL_ERROR) && resume::is_agent_missing(error.message()) => {
            ErrorCode::ResumeAgentMissing
        }
        _ => ErrorCode::ResumeFailed,
    };
    let message = format!(
        "Session {} could not be resumed: {} ({})",
        request.session_id,
        error.message(),
        judgement.reason
    );
    let mut rejection = Error::new(code, message)
        .with("sessionId", request.session_id.clone())
        .with("rpcCode", error.facts().get("rpcCode").cloned().unwrap_or_default())
        .with("log", log.as_str());
    if let Some(line) = judgement.line {
        rejection = rejection.with("line", line);
    }
    rejection.caused_by(error)
}
