//! An error that a session reported, PURE.

use ground::error::{Error, ErrorCode};
use serde_json::Value;

/// An error that the session reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedError {
    pub error_type: String,
    pub message: String,
    pub error_code: Option<Value>,
    pub status_code: Option<Value>,
    /// Message id of the prompt that failed, where the runtime names it.
    pub origin: Option<String>,
    pub url: Option<String>,
    pub stack: Option<String>,
}

impl ReportedError {
    /// `SESSION_ERROR` with the facts.
    pub fn into_error(self) -> Error {
        let message = match self.message.is_empty() {
            true => "The session reported an error without a message".to_owned(),
            false => self.message,
        };
        let mut error = Error::new(ErrorCode::SessionError, message).with("errorType", self.error_type);
        let facts = [("statusCode", self.status_code), ("errorCode", self.error_code)];
        for (name, value) in facts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            error = error.with(name, value);
        }
        for (name, value) in [("url", self.url), ("remoteStack", self.stack)] {
            if let Some(value) = value {
                error = error.with(name, value);
            }
        }
        error
    }
}
