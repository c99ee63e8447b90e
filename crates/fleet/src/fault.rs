//! PURE: an error on its journey through the store.

use ground::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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

    pub(super) fn as_value(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}

impl From<&Error> for JobFault {
    fn from(error: &Error) -> Self {
        JobFault {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            facts: error.facts().clone(),
        }
    }
}
