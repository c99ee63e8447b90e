//! The types and functions for Copilot sessions on disk, and for the classification of a failed resume. Names and order match
//! lib/copilot/resume.ts.

use super::option::twin;
use super::promise::{Promised, settle};
use copilot::event_log;
use copilot::resume::{self, ResumeEvidence};
use ground::error::{Error, ErrorCode};
use napi_derive::napi;
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
twin!(resume::ResumeVerdict {
    Recreate = "recreate",
    WithoutAgent = "without-agent",
    Corrupt = "corrupt",
    NotFound = "not-found",
    InUse = "in-use",
    Transient = "transient",
    Failed = "failed",
});

/// Evidence about a session that could not be resumed.
#[napi(object, object_to_js = false)]
pub struct CopilotResumeEvidence {
    pub log: Option<LogState>,
    pub known_turns: Option<f64>,
    pub fallback: Option<Fallback>,
    pub agent: Option<bool>,
}

#[napi(object, object_from_js = false)]
pub struct CopilotJudgement {
    pub verdict: ResumeVerdict,
    pub reason: String,
    pub line: Option<f64>,
}

#[napi(object, object_from_js = false)]
pub struct CopilotInspection {
    pub log: LogState,
    pub turns: f64,
    pub last_event_id: Option<String>,
    pub bad_line: Option<f64>,
    pub path: String,
}

#[napi(object, object_from_js = false)]
pub struct CopilotSalvage {
    pub session_id: String,
    pub kept: f64,
    pub left_out: Vec<CopilotLeftOut>,
}

#[napi(object, object_from_js = false)]
pub struct CopilotLeftOut {
    pub line: f64,
    pub reason: String,
}

/// Classifies a failed resume.
#[napi]
pub fn classify_copilot_resume(
    code: Option<f64>,
    message: String,
    evidence: CopilotResumeEvidence,
) -> CopilotJudgement {
    let evidence = ResumeEvidence {
        log: evidence.log.map(Into::into).unwrap_or_default(),
        known_turns: evidence.known_turns.map_or(0, |turns| turns as u64),
        fallback: evidence.fallback.map(Into::into).unwrap_or_default(),
        agent: evidence.agent,
        bad_line: None,
    };
    let judgement = resume::classify_resume_error(code.map(|code| code as i64), &message, &evidence);
    CopilotJudgement {
        verdict: judgement.verdict.into(),
        reason: judgement.reason,
        line: judgement.line.map(|line| line as f64),
    }
}

/// Reads a session's log.
#[napi]
pub fn inspect_copilot_session(home: String, session_id: String) -> Promised<CopilotInspection> {
    settle(async move {
        let look = ground::os::blocking(move || event_log::inspect(&PathBuf::from(home), &session_id));
        let found = look.await.map_err(not_finished)?;
        Ok::<_, Error>(CopilotInspection {
            log: found.log.into(),
            turns: found.turns as f64,
            last_event_id: found.last_event_id,
            bad_line: found.bad_line.map(|line| line as f64),
            path: found.path.to_string_lossy().into_owned(),
        })
    })
}

/// Size of a session's log in bytes, 0 when there is none.
#[napi]
pub fn copilot_log_size(home: String, session_id: String) -> f64 {
    event_log::log_size(&PathBuf::from(home), &session_id) as f64
}

/// Copies the valid lines of a session's log to a new session.
#[napi]
pub fn salvage_copilot_session(home: String, session_id: String, new_id: String) -> Promised<CopilotSalvage> {
    settle(async move {
        let copy = move || event_log::salvage(&PathBuf::from(home), &session_id, &new_id);
        let made = ground::os::blocking(copy).await.map_err(not_finished)??;
        let left_out = made.left_out.into_iter();
        let left_out = left_out.map(|one| CopilotLeftOut { line: one.line as f64, reason: one.reason });
        Ok::<_, Error>(CopilotSalvage {
            session_id: made.session_id,
            kept: made.kept as f64,
            left_out: left_out.collect(),
        })
    })
}

fn not_finished(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::ResumeFailed, format!("the log could not be inspected: {error}"))
}
