//! Future -> Promise. The one home of that translation.
//!
//! The promise never rejects for a fault of the core: it resolves with a [`Settled`], and `settle()` of lib/error.ts either
//! returns the value or throws a JavaScript error with code, fields and the partial result.

use super::error::Fault;
use crate::error::Error;
use napi::bindgen_prelude::{Object, PromiseRaw, ToNapiValue};
use napi::{Env, sys};
use std::future::Future;

/// What a promise resolves with: `{ value }`, or `{ error, partial }`.
pub enum Settled<T> {
    Value(T),
    Failed { error: Error, partial: Option<T> },
}

impl<T> From<Result<T, Error>> for Settled<T> {
    fn from(result: Result<T, Error>) -> Self {
        match result {
            Ok(value) => Settled::Value(value),
            Err(error) => Settled::Failed { error, partial: None },
        }
    }
}

impl<T: ToNapiValue> ToNapiValue for Settled<T> {
    unsafe fn to_napi_value(raw_env: sys::napi_env, settled: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let mut object = Object::new(&env)?;
        match settled {
            Settled::Value(value) => object.set("value", value)?,
            Settled::Failed { error, partial } => {
                object.set("error", Fault::from(&error))?;
                if let Some(partial) = partial {
                    object.set("partial", partial)?;
                }
            }
        }
        // SAFETY: the object was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, object) }
    }
}

/// Runs the future on the addon's threads. Costs about 15 us (a threadsafe function of its own): one a run, never one a line.
pub fn settle<'env, T, F>(env: &'env Env, future: F) -> napi::Result<PromiseRaw<'env, Settled<T>>>
where
    T: ToNapiValue + Send + 'static,
    F: Future<Output = Settled<T>> + Send + 'static,
{
    env.spawn_future_with_callback(async move { Ok(future.await) }, |_, settled| Ok(settled))
}
