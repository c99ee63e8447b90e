//! An MCP server that an agent is to use, as turns and sessions take it from JavaScript.

use agents::acp::McpServer;
use napi_derive::napi;

/// An MCP server: reached over HTTP when `url` is set, otherwise started as a program.
#[napi(object, object_to_js = false)]
pub struct McpServerSpec {
    pub name: String,
    pub url: Option<String>,
    pub headers: Vec<PairSpec>,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<PairSpec>,
}

#[napi(object, object_to_js = false)]
pub struct PairSpec {
    pub name: String,
    pub value: String,
}

pub(super) fn to_server(server: McpServerSpec) -> McpServer {
    let pairs = |pairs: Vec<PairSpec>| pairs.into_iter().map(|pair| (pair.name, pair.value)).collect();
    match server.url {
        Some(url) => McpServer::Http { name: server.name, url, headers: pairs(server.headers) },
        None => McpServer::Program {
            name: server.name,
            command: server.command.unwrap_or_default(),
            args: server.args,
            env: pairs(server.env),
        },
    }
}
