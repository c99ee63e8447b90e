//! PURE: MCP servers as settings of Codex CLI. Values that may be secret go by the environment, because others can read arguments.

use crate::harness::launch::Launch;
use crate::harness::mcp_server::McpServer;
use ground::error::Error;
use serde_json::Value;

/// Adds the servers to a launch.
pub(super) fn add(servers: &[McpServer], launch: &mut Launch) -> Result<(), Error> {
    for (index, server) in servers.iter().enumerate() {
        let mut setting = |key: &str, value: String| {
            launch.args(["-c", &format!("mcp_servers.{}.{key}={value}", server.name())]);
        };
        match server {
            McpServer::Program { command, args, env, .. } => {
                setting("command", quoted(command));
                setting("args", list(args));
                setting("env_vars", list(env.iter().map(|(name, _)| name)));
                for (name, value) in env {
                    hold(launch, index, name, value)?;
                }
            }
            McpServer::Http { url, headers, .. } => {
                setting("url", quoted(url));
                let variable = |header: usize| format!("SHEEPDOG_MCP_{index}_{header}");
                let names: Vec<String> = headers
                    .iter()
                    .enumerate()
                    .map(|(at, (name, _))| format!("{}={}", quoted(name), quoted(&variable(at))))
                    .collect();
                setting("env_http_headers", format!("{{{}}}", names.join(",")));
                for (at, (_, value)) in headers.iter().enumerate() {
                    launch.hold(&variable(at), value);
                }
            }
        }
    }
    Ok(())
}

/// Two servers get a variable of the same name from the same place.
fn hold(launch: &mut Launch, index: usize, name: &str, value: &str) -> Result<(), Error> {
    if launch.held.iter().any(|(known, other)| known == name && other != value) {
        let path = format!("mcpServers[{index}].env[{name:?}]");
        return Err(Error::invalid_option(&path, "codex gives all its servers the same value of a variable"));
    }
    launch.hold(name, value);
    Ok(())
}

/// A TOML string: JSON's escapes are a subset of TOML's, save for the delete character.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn list<Text: AsRef<str>>(texts: impl IntoIterator<Item = Text>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(","))
}
