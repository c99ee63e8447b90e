//! PURE: an error in the form in which the store keeps it.

use ground::error::{Error, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Longest code, message and facts that a record takes: an error may quote whatever its program printed.
const MAX_CODE_BYTES: usize = 200;
const MAX_MESSAGE_BYTES: usize = 16 << 10;
const MAX_FACTS_BYTES: usize = 64 << 10;
/// Longest message of an earlier attempt. A record lists many of them.
const MAX_BRIEF_BYTES: usize = 500;

/// An error on its journey: a handler's may have any code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFault {
    pub code: String,
    pub message: String,
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl JobFault {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        JobFault { code: code.to_owned(), message: message.into(), facts: Map::new() }
    }

    /// Short enough for a record. The longest facts are left out first.
    pub(super) fn bounded(mut self) -> JobFault {
        cut(&mut self.code, MAX_CODE_BYTES);
        cut(&mut self.message, MAX_MESSAGE_BYTES);
        let mut sizes: Vec<(usize, String)> = self
            .facts
            .iter()
            .map(|(name, value)| (name.len() + value.to_string().len(), name.clone()))
            .collect();
        sizes.sort();
        let mut left: usize = sizes.iter().map(|(size, _)| size).sum();
        while left > MAX_FACTS_BYTES
            && let Some((size, name)) = sizes.pop()
        {
            self.facts.remove(&name);
            left -= size;
        }
        self
    }

    /// Code and the beginning of the message, without facts.
    pub(super) fn brief(&self) -> JobFault {
        let mut brief = JobFault::new(&self.code, self.message.as_str());
        cut(&mut brief.code, MAX_CODE_BYTES);
        cut(&mut brief.message, MAX_BRIEF_BYTES);
        brief
    }

    pub(super) fn as_value(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}

impl From<&Error> for JobFault {
    fn from(error: &Error) -> Self {
        JobFault {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            facts: facts_of(error),
        }
    }
}

/// The facts of an error, and the reason behind it.
fn facts_of(error: &Error) -> Map<String, Value> {
    let mut facts = error.facts().clone();
    if let Some(cause) = error.cause() {
        let mut inner = facts_of(cause);
        inner.insert("code".to_owned(), cause.code().as_str().into());
        inner.insert("message".to_owned(), cause.message().into());
        facts.insert("cause".to_owned(), inner.into());
    }
    facts
}

pub(super) fn no_random() -> Error {
    Error::new(ErrorCode::FleetStorage, "the system provides no random numbers")
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let length = text.len();
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!(" ... ({length} bytes)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_program_says_has_room_in_a_record() {
        let mut fault = JobFault::new(&"E".repeat(10_000), "ü".repeat(10_000_000));
        for n in 0..50_000 {
            fault.facts.insert(format!("fact{n}"), json!("x".repeat(n / 100)));
        }
        fault.facts.insert("kind".to_owned(), json!("auth"));
        let bounded = fault.bounded();
        assert!(serde_json::to_vec(&bounded).unwrap().len() < 256 << 10);
        assert_eq!(bounded.facts["kind"], "auth", "the longest go first");
        let short = JobFault::new("E", "no");
        assert_eq!(short.clone().bounded(), short);
    }
}
