//! The failure of an attempt, whether to retry it, and the error for the user. PURE.

use super::completion::{MAX_TOLD_CHARACTERS, Malformed, ServerError};
use ground::error::{Error, ErrorCode};
use ground::redaction::Redactor;
use ground::retry::{self, Classification, ErrorKind, Evidence};
use ground::tokens::Tokens;
use serde_json::Value;
use std::time::Duration;
use wires::http::{HttpError, Waiting};

/// The end of an attempt without an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The attempt took too long.
    TimedOut {
        after: Duration,
    },
    Http(HttpError),
    Malformed(Malformed),
    /// The answer does not fit the schema. `cut`: it was truncated at the model's limit.
    Misfit {
        problems: Vec<String>,
        text: String,
        cut: bool,
        usage: Option<Tokens>,
    },
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        Failure::Http(error)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}

impl Failure {
    /// Classifies the failure.
    ///
    /// | failure | code | retried |
    /// |---|---|---|
    /// | the attempt's timeout, silence in the answer, no connection in time | `MODEL_TIMED_OUT` | yes |
    /// | refused, unreachable, lost before or within the answer | `MODEL_UNREACHABLE` | yes |
    /// | TLS, a redirect that is not followed | `MODEL_UNREACHABLE` | no |
    /// | a status from 400 to 599 | `MODEL_FAILED` | 408, 409, 425, 429, 5xx |
    /// | an error in place of the answer | `MODEL_FAILED` | by its status, code or words; yes if they are inconclusive |
    /// | not JSON, not a completion, an end before the answer's | `MODEL_BAD_RESPONSE` | yes |
    /// | an answer that does not fit the schema | `MODEL_BAD_RESPONSE` | yes, unless it was truncated at the model's limit |
    pub fn verdict(&self) -> (ErrorCode, Classification) {
        use ErrorKind::*;
        let plain = |kind, retryable| Classification { kind, retryable, status: None, retry_after: None };
        match self {
            Failure::TimedOut { .. } | Failure::Http(HttpError::Timeout { .. }) => {
                (ErrorCode::ModelTimedOut, plain(Timeout, true))
            }
            Failure::Http(HttpError::Connect { .. } | HttpError::Reset { .. }) => {
                (ErrorCode::ModelUnreachable, plain(Network, true))
            }
            Failure::Http(HttpError::Tls { .. } | HttpError::Redirect { .. }) => {
                (ErrorCode::ModelUnreachable, plain(Network, false))
            }
            Failure::Http(HttpError::InvalidRequest { .. } | HttpError::File { .. }) => {
                (ErrorCode::ModelFailed, plain(InvalidRequest, false))
            }
            Failure::Http(HttpError::Status { status, body, retry_after }) => {
                let told = ServerError { status: Some(*status), ..ServerError::of_body(body) };
                // A wait may stand beside the message.
                let verdict = classify(&told, retry_after.or_else(|| retry::wait_in(body)));
                // The status is a redirect without a target, or one that no server should send.
                (ErrorCode::ModelFailed, Classification { status: Some(*status), ..verdict })
            }
            Failure::Malformed(Malformed::Error(told)) => {
                let verdict = classify(told, None);
                let unknown = verdict.kind == Unknown;
                (ErrorCode::ModelFailed, if unknown { plain(Server, true) } else { verdict })
            }
            Failure::Malformed(Malformed::Wrong(_)) => (ErrorCode::ModelBadResponse, plain(Server, true)),
            Failure::Misfit { cut, .. } => (ErrorCode::ModelBadResponse, plain(Server, !cut)),
        }
    }

    /// The error for the user, with all secrets redacted.
    pub fn into_error(self, origin: &str, attempts: u32, redactor: &Redactor) -> Error {
        let (code, verdict) = self.verdict();
        let what = match &self {
            Failure::TimedOut { after } => {
                format!(
                    "{origin} did not finish its answer within {} ms: raise timeoutMs if it needs longer",
                    after.as_millis()
                )
            }
            Failure::Http(HttpError::Timeout { waiting_for: Waiting::Chunk, after }) => {
                format!("{origin} fell silent for {} ms in the middle of its answer", after.as_millis())
            }
            Failure::Http(error @ HttpError::Timeout { .. }) => format!("{origin}: {error}"),
            Failure::Http(HttpError::Status { status, body, .. }) => {
                let message = ServerError::of_body(body).message;
                let colon = if message.is_empty() { "" } else { ": " };
                format!("{origin} answered with status {status}{colon}{message}{}", advice(verdict.kind))
            }
            Failure::Http(error) => format!("{origin}: {error}; check baseUrl and the network"),
            Failure::Malformed(Malformed::Error(told)) => {
                format!("{origin} answered with an error: {}{}", told.message, advice(verdict.kind))
            }
            Failure::Malformed(Malformed::Wrong(problem)) => {
                format!(
                    "{origin} did not answer with a chat completion: {problem}; check that baseUrl leads to an API of that kind"
                )
            }
            Failure::Misfit { cut: true, .. } => {
                "the answer was cut at the model's limit before it fitted the schema".to_owned()
            }
            Failure::Misfit { problems, .. } => {
                format!("the answer does not fit the schema: {}", problems.first().map_or("", String::as_str))
            }
        };
        let tries = if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
        let mut error = Error::new(code, redactor.redact(&format!("{what} ({tries})")))
            .with("attempts", attempts)
            .with("kind", verdict.kind.as_str());
        if let Some(status) = verdict.status {
            error = error.with("status", status);
        }
        if let Some(wait) = verdict.retry_after {
            error = error.with("retryAfterMs", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        if let Failure::Misfit { problems, text, .. } = self {
            let problems: Vec<Value> =
                problems.iter().map(|problem| redactor.redact(problem).into()).collect();
            let told: String = text.chars().take(MAX_TOLD_CHARACTERS).collect();
            error = error.with("problems", problems).with("text", redactor.redact(&told));
        }
        error
    }
}

fn classify(told: &ServerError, retry_after: Option<Duration>) -> Classification {
    let codes = told.codes.iter().map(String::as_str).collect();
    retry::classify(&Evidence { status: told.status, codes, message: &told.message, retry_after })
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Auth => "; check apiKey",
        ErrorKind::Permission => "; check what apiKey may do",
        ErrorKind::InvalidRequest => "; check model, messages, tools and schema",
        ErrorKind::ContextLength => "; send fewer or shorter messages",
        _ => "",
    }
}

/// The error for a deadline that had passed before the call began.
pub(crate) fn passed(path: &str) -> Error {
    Error::new(
        ErrorCode::ModelTimedOut,
        format!("no request was sent: the deadline of `{path}` has already passed"),
    )
    .with("attempts", 0)
    .with("kind", ErrorKind::Timeout.as_str())
}

/// The error for a call that its caller aborted.
pub fn aborted(attempts: u32) -> Error {
    Error::new(ErrorCode::ModelAborted, "the model call was aborted by its signal")
        .with("attempts", attempts)
        .with("kind", ErrorKind::Aborted.as_str())
}

#[cfg(test)]
#[path = "tests/failure.rs"]
mod tests;
