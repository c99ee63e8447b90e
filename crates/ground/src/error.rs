//! Errors as values: one code for programs, one message for people, facts as fields.
//!
//! `binding/error.rs` turns an [`Error`] into a JavaScript `Error` with the same `code`, `message` and fields. A partial result
//! travels beside the error, never inside it (see `process::Outcome`).

use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal [$($fact:literal),*],)*) => {
        $crate::named! {
            /// The stable names of all errors. JavaScript sees the text of [`ErrorCode::as_str`] as `error.code`.
            #[derive(Hash)]
            pub enum ErrorCode { $($(#[$doc])* $name = $text,)* }
        }

        impl ErrorCode {
            /// Whether an error with this code may have the field.
            pub fn has_fact(self, field: &str) -> bool {
                let own: &[&str] = match self { $(ErrorCode::$name => &[$($fact),*],)* };
                own.contains(&field) || OF_ANY.contains(&field)
            }
        }
    };
}

mod code;

pub use code::ErrorCode;

/// An error: `code` for programs, `message` for people (it says what to do next), `facts` as the fields of the JS error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Parts {
    code: ErrorCode,
    message: String,
    facts: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Error>,
}

/// The result type of the Rust crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Error(Box::new(Parts { code, message: message.into(), facts: Map::new(), cause: None }))
    }

    /// `ADDON_FAULT` for a panic inside of this package that was caught. The message contains the panic's text.
    pub fn of_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let fault = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no words");
        let message = format!(
            "the work was ended by a fault inside of sheepdog ({fault}): if this machine has no threads or memory left, \
             free some and try again; else please report it"
        );
        Error::new(ErrorCode::AddonFault, message).with("fault", fault)
    }

    /// The error of the first of these limits that is zero, which means a deadline that has passed before the start. `refused` begins
    /// its message.
    pub fn of_passed(refused: &str, limits: &[(ErrorCode, &str, Option<Duration>)]) -> Option<Self> {
        let (code, path, _) = limits.iter().find(|(.., limit)| *limit == Some(Duration::ZERO))?;
        let message = format!("{refused}: the deadline of `{path}` has already passed");
        Some(Error::new(*code, message).with(path, 0))
    }

    pub fn invalid_option(path: &str, problem: impl fmt::Display) -> Self {
        Error::new(ErrorCode::InvalidOption, format!("{path}: {problem}"))
    }

    /// Adds a field that the JS error carries. The table of codes (`error/table.json`) declares it.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        let code = self.0.code;
        debug_assert!(code.has_fact(field), "table.json declares no field {field} of {}", code.as_str());
        self.0.facts.insert(field.to_owned(), value.into());
        self
    }

    /// Adds the error underneath, `error.cause` in JS.
    pub fn caused_by(mut self, cause: Error) -> Self {
        self.0.cause = Some(cause);
        self
    }

    /// Adds a sentence to the message.
    pub fn adding(mut self, words: &str) -> Self {
        self.0.message.push_str(". ");
        self.0.message.push_str(words);
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn facts(&self) -> &Map<String, Value> {
        &self.0.facts
    }

    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.code.as_str(), self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_code_has_its_own_name_in_capitals() {
        let names: HashSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{name}");
        }
    }

    #[test]
    fn carries_facts_and_cause_beside_the_message() {
        let error = Error::new(ErrorCode::ConnectionLost, "the runtime exited")
            .with("exitCode", 1)
            .caused_by(Error::new(ErrorCode::ProcessKilled, "killed"));
        assert_eq!(error.facts()["exitCode"], 1);
        assert_eq!(error.cause().map(Error::code), Some(ErrorCode::ProcessKilled));
        assert_eq!(error.to_string(), "CONNECTION_LOST: the runtime exited");
    }

    #[test]
    fn an_invalid_option_begins_with_its_path() {
        let error = Error::invalid_option("idleTimeoutMs", "expected a number, got \"5s\"");
        assert_eq!(error.message(), "idleTimeoutMs: expected a number, got \"5s\"");
    }
}
