//! An MCP server that an agent is to use, as turns and sessions take it from JavaScript.

use agents::acp::McpServer;
use napi_derive::napi;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// An MCP server: reached over HTTP when `url` is set, otherwise started as a program.
#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServerSpec {
    pub name: String,
    pub url: Option<String>,
    #[serde(default, deserialize_with = "pairs")]
    pub headers: Vec<PairSpec>,
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "pairs")]
    pub env: Vec<PairSpec>,
}

#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct PairSpec {
    pub name: String,
    pub value: String,
}

/// In JSON the pairs are an object.
fn pairs<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<PairSpec>, D::Error> {
    let pairs = BTreeMap::deserialize(json)?;
    Ok(pairs.into_iter().map(|(name, value)| PairSpec { name, value }).collect())
}

pub(super) fn to_server(server: McpServerSpec) -> McpServer {
    let McpServerSpec { name, url, headers, command, args, env } = server;
    let pairs = |pairs: Vec<PairSpec>| pairs.into_iter().map(|pair| (pair.name, pair.value)).collect();
    match url {
        Some(url) => McpServer::Http { name, url, headers: pairs(headers) },
        None => McpServer::Program { name, command: command.unwrap_or_default(), args, env: pairs(env) },
    }
}
