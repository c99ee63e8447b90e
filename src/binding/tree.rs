//! What crosses of the trees of this user. Names and order as in lib/process/tree.ts.

use super::promise::{Settled, settle};
use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use process;
use serde_json::json;

/// All trees that were started here, by whatever host; an array as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn list_trees(env: &Env) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async { process::census().await.map(|trees| json!(trees).to_string()).into() })
}

/// Ends the trees whose host is gone, all or these; what became of each, an array as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn reap_trees(env: &Env, ids: Option<Vec<String>>) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async move { process::reap(ids).await.map(|reaped| json!(reaped).to_string()).into() })
}

/// Ends one tree whatever its host; what became of it, as JSON.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<string>>")]
pub fn stop_tree(env: &Env, id: String) -> napi::Result<PromiseRaw<'_, Settled<String>>> {
    settle(env, async move { process::stop_tree(&id).await.map(|reaped| json!(reaped).to_string()).into() })
}
