//! The functions for the process trees of this user, for JavaScript. Names and order match lib/process/tree.ts.

use super::promise::{Promised, settle};
use napi_derive::napi;
use process;
use serde_json::json;

/// All trees that this user's hosts started on this machine: an array as JSON.
#[napi]
pub fn list_trees() -> Promised<String> {
    settle(async { process::census().await.map(|trees| json!(trees).to_string()) })
}

/// Ends trees whose host is gone: all of them, or those with these ids. Resolves with the outcome of each, an array as JSON.
#[napi]
pub fn reap_trees(ids: Option<Vec<String>>) -> Promised<String> {
    settle(async move { process::reap(ids).await.map(|reaped| json!(reaped).to_string()) })
}

/// Ends one tree, whether its host is alive or gone. Resolves with the outcome as JSON.
#[napi]
pub fn stop_tree(id: String) -> Promised<String> {
    settle(async move { process::stop_tree(&id).await.map(|reaped| json!(reaped).to_string()) })
}
