//! Converts an error to data from which lib/error.ts makes a JavaScript `Error`. No other module does this.
//!
//! A napi rejection can carry a code but no fields. So promises resolve with a [`Fault`], and lib/error.ts throws.

use super::option::twin;
use ground::error::{self, Error};
use ground::{each_code, each_error_kind, retry};
use napi_derive::napi;
use serde_json::{Map, Value, json};

macro_rules! codes {
    ($($list:tt)*) => { twin!(error::ErrorCode { $($list)* }); };
}

macro_rules! kinds {
    ($($list:tt)*) => { twin!(retry::ErrorKind { $($list)* }); };
}

each_code!(codes);
each_error_kind!(kinds);

/// An error on its way to JavaScript.
#[napi(object, object_from_js = false)]
pub struct Fault {
    pub code: ErrorCode,
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
            code: error.code().into(),
            message: error.message().to_owned(),
            facts: error.facts().clone(),
            cause: error.cause().map(|cause| json!(cause)),
        }
    }
}
