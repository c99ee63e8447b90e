//! Converts an error to data from which lib/error.ts makes a JavaScript `Error`. No other module does this.
//!
//! A napi rejection can carry a code but no fields. So promises resolve with a [`Fault`], and lib/error.ts throws.

use ground::error::Error;
use napi_derive::napi;
use serde_json::{Map, Value, json};

/// An error on its way to JavaScript.
#[napi(object, object_from_js = false)]
pub struct Fault {
    #[napi(ts_type = "import('../lib/error-facts').Code")]
    pub code: &'static str,
    pub message: String,
    /// The further fields of the error.
    #[napi(ts_type = "Record<string, unknown>")]
    pub facts: Map<String, Value>,
    #[napi(ts_type = "Fault")]
    pub cause: Option<Value>,
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        Fault {
            code: error.code().as_str(),
            message: error.message().to_owned(),
            facts: error.facts().clone(),
            cause: error.cause().map(|cause| json!(cause)),
        }
    }
}
