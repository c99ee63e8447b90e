//! The functions for the process trees of this user, for JavaScript. Names and order match lib/process/tree.ts.

use super::promise::{Settled, settle};
use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use process;
use serde_json::json;

/// All trees that this user's hosts started on this machine: an array as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn list_trees(env: &Env) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async { process::census().await.map(|trees| json!(trees).to_string()).into() })
}

/// Ends trees whose host is gone: all of them, or those with these ids. Resolves with the outcome of each, an array as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn reap_trees(env: &Env, ids: Option<Vec<String>>) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async move { process::reap(ids).await.map(|reaped| json!(reaped).to_string()).into() })
}

/// Ends one tree, whether its host is alive or gone. Resolves with the outcome as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn stop_tree(env: &Env, id: String) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async move { process::stop_tree(&id).await.map(|reaped| json!(reaped).to_string()).into() })
}
