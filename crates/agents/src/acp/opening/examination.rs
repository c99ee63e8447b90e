//! Checks the installed agents that speak the protocol: starts each, asks for its version, and ends it.

use crate::acp::opening::enter;
use crate::acp::opening::request::OpenRequest;
use crate::harness::program::doctor::{KILL_GRACE, examine_each, not_on_path};
use crate::harness::program::install::NOR_AROUND;
use crate::harness::program::node::old_node;
use crate::harness::{AgentRequest, Level};
use crate::model::AbortSwitch;
use ground::error::{Error, ErrorCode};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// For an answer to `initialize`. The slowest takes 2 s, and several at its first start.
const GREETING_TIMEOUT: Duration = Duration::from_secs(20);

/// The state of one agent's program for the protocol.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Speaker {
    #[serde(skip)]
    pub provider: &'static str,
    pub found: bool,
    /// Path of the program that speaks the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Version of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The command that installs it.
    pub install: String,
}

/// The sessions that an agent has kept of its working directory: `{ sessionId, title?, updatedAt? }`.
///
/// # Errors
/// `INVALID_OPTION` for an agent that does not list them, `AGENT_ABORTED` when the switch is thrown.
pub async fn list_sessions(mut agent: AgentRequest, switch: &AbortSwitch) -> Result<Vec<Value>, Error> {
    // No session is begun, so nothing has to hold it.
    agent.level = Level::Auto;
    agent.record = None;
    let request = OpenRequest::of(agent);
    let listed = enter(&request).await?.list(switch.clone().cancelled_owned()).await?;
    let session = |session: &Value| {
        let id = session["sessionId"].as_str()?;
        Some(
            json!({ "sessionId": id, "title": session["title"].as_str(), "updatedAt": session["updatedAt"].as_str() }),
        )
    };
    Ok(listed.iter().filter_map(session).collect())
}

/// Looks for the program of each agent and shakes hands with it. `AGENT_ABORTED` when the switch is thrown, after what was
/// started is gone.
pub async fn examine(agents: &[AgentRequest], switch: &AbortSwitch) -> Result<Vec<Speaker>, Error> {
    examine_each(agents, switch, |agent| examine_one(agent, switch.clone().cancelled_owned())).await
}

async fn examine_one(agent: AgentRequest, aborted: impl Future<Output = ()>) -> Speaker {
    let provider = agent.provider;
    let mut request = OpenRequest::of(agent);
    request.agent.kill_grace = KILL_GRACE;
    request.agent.limits.start = Some(GREETING_TIMEOUT);
    // The one level that every agent can be held to: nothing is asked of it.
    request.agent.level = Level::Auto;
    // A greeting needs no folder, and that of the host may have been deleted.
    request.agent.cwd.get_or_insert_with(|| "/".into());
    let mut speaker = Speaker {
        provider: provider.as_str(),
        found: false,
        path: None,
        protocol_version: None,
        problem: None,
        install: provider.protocol().install(),
    };
    match enter(&request).await {
        Ok(entered) => {
            speaker.found = true;
            speaker.path = Some(entered.path.clone());
            match entered.greet(aborted).await {
                Ok(version) => {
                    speaker.protocol_version = Some(version.number());
                    // Some greet with an old Node, and fail when a session is opened.
                    speaker.problem = old_node(&request.agent, speaker.path.as_deref()).await;
                }
                Err(error) => speaker.problem = Some(error.message().to_owned()),
            }
        }
        Err(error) => {
            speaker.found = error.code() != ErrorCode::AgentNotFound;
            speaker.problem = Some(match speaker.found {
                true => error.message().to_owned(),
                false if provider.is_other() => not_on_path(request.agent.command()) + NOR_AROUND,
                false => not_on_path(provider.protocol_program()) + NOR_AROUND,
            });
        }
    }
    speaker
}
