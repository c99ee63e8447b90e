//! The types and functions for Copilot sessions on disk, and for the classification of a failed resume. Names and order match
//! lib/copilot/resume.ts.

use super::option::twin;
use super::promise::{Promised, settle};
use copilot::event_log;
use copilot::resume::{self, ResumeEvidence};
use ground::error::{Error, ErrorCode};
use napi_derive::napi;
use serde_json::json;
use std::path::PathBuf;

twin!(resume::Fallback { Evidence = "evidence", UnlessCorrupt = "unless-corrupt", Never = "never" });
twin!(resume::LogState {
    Absent = "absent",
    Empty = "empty",
    NoTurns = "no-turns",
    Turns = "turns",
    Unreadable = "unreadable",
    Unknown = "unknown",
});
/// Evidence about a session that could not be resumed.
#[napi(object, object_to_js = false)]
pub struct CopilotResumeEvidence {
    pub log: Option<LogState>,
    pub known_turns: Option<f64>,
    pub fallback: Option<Fallback>,
    pub agent: Option<bool>,
}

/// Classifies a failed resume. The judgement is JSON.
#[napi]
pub fn classify_copilot_resume(
    code: Option<f64>,
    message: String,
    evidence: CopilotResumeEvidence,
) -> String {
    let evidence = ResumeEvidence {
        log: evidence.log.map(Into::into).unwrap_or_default(),
        known_turns: evidence.known_turns.map_or(0, |turns| turns as u64),
        fallback: evidence.fallback.map(Into::into).unwrap_or_default(),
        agent: evidence.agent,
        bad_line: None,
    };
    json!(resume::classify_resume_error(code.map(|code| code as i64), &message, &evidence)).to_string()
}

/// Reads a session's log. Resolves with the findings as JSON.
#[napi]
pub fn inspect_copilot_session(home: String, session_id: String) -> Promised<String> {
    settle(async move {
        let look = ground::os::blocking(move || event_log::inspect(&PathBuf::from(home), &session_id));
        look.await.map(|found| json!(found).to_string()).map_err(not_finished)
    })
}

/// Size of a session's log in bytes, 0 when there is none.
#[napi]
pub fn copilot_log_size(home: String, session_id: String) -> f64 {
    event_log::log_size(&PathBuf::from(home), &session_id) as f64
}

/// Copies the valid lines of a session's log to a new session. Resolves with the result as JSON.
#[napi]
pub fn salvage_copilot_session(home: String, session_id: String, new_id: String) -> Promised<String> {
    settle(async move {
        let copy = move || event_log::salvage(&PathBuf::from(home), &session_id, &new_id);
        let made = ground::os::blocking(copy).await.map_err(not_finished)??;
        Ok::<_, Error>(json!(made).to_string())
    })
}

fn not_finished(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::ResumeFailed, format!("the log could not be inspected: {error}"))
}
