//! The handshake with an agent: the version of the protocol, the session, its mode and its model.

use crate::acp::opening::fault::{Fault, is_resume, ways_in};
use crate::acp::opening::program::unenforced;
use crate::acp::opening::request::{McpServer, OpenRequest, PromptTakes};
use crate::acp::opening::resume_delay;
use crate::acp::opening::settings::{Settings, set_option};
use crate::acp::turn::heard::hear;
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::connection::{Connection, Inbox, Said, unknown_method};
use crate::acp::wire::update::{AgentFault, Update, owned};
use crate::harness::{AgentEvent, Digest, Provider};
use ground::error::{Error, ErrorCode};
use ground::json::object::put;
use serde_json::{Value, json};
use std::path::Path;
use wires::jsonrpc::is_closed_by_peer;

/// A session as its agent opened it.
pub(crate) struct Shaken {
    pub session: String,
    pub version: Version,
    pub can_steer: bool,
    pub takes: PromptTakes,
    pub settings: Settings,
    pub history: Vec<AgentEvent>,
    /// Put before the first prompt, for agents that take none otherwise.
    pub preamble: Option<String>,
    pub warnings: Vec<String>,
}

/// The state of the handshake. It keeps the agent's messages that arrive meanwhile.
pub(super) struct Handshake<'a> {
    pub(super) agent: Provider,
    /// Wanted modes; the first one that the agent offers is set.
    pub(super) modes: Vec<String>,
    /// Facts about the mode in the answer that begins the session.
    pub(super) meta: &'static str,
    pub(super) request: &'a OpenRequest,
    pub(super) connection: Connection,
    pub(super) inbox: Inbox,
    pub(super) heard: Vec<Update>,
    pub(super) heard_bytes: usize,
    pub(super) has_ended: bool,
    /// How the agent offers to be signed in.
    pub(super) ways_in: Vec<String>,
    /// The reason why the stream ended, if that was not the program's exit.
    pub(super) cause: Option<Error>,
}

impl Handshake<'_> {
    /// The version that the agent speaks, and all that it says of itself.
    pub(super) async fn greet(&mut self) -> Result<(Version, Value), Fault> {
        let hello = self.ask("initialize", &hello(self.request.has_elicitation_handler)).await?;
        self.ways_in = ways_in(&hello);
        let version = spoken(self.agent, &hello, Some(2)).map_err(Fault::Other)?;
        Ok((version, hello))
    }

    /// The sessions that the agent has kept of this folder.
    pub(super) async fn list(&mut self, cwd: &Path) -> Result<Vec<Value>, Fault> {
        let (version, hello) = self.greet().await?;
        let first = &hello["agentCapabilities"]["sessionCapabilities"]["list"];
        if version == Version::One && !first.is_object() {
            let message = format!(
                "{} does not list its sessions{}",
                self.agent.as_str(),
                self.agent.protocol().advice()
            );
            return Err(Fault::Other(Error::invalid_option("provider", message)));
        }
        let (mut sessions, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut params = json!({ "cwd": cwd });
            if cursor.is_string() {
                put(&mut params, "cursor", cursor.clone());
            }
            let page = self.ask("session/list", &params).await?;
            sessions.extend(page["sessions"].as_array().into_iter().flatten().cloned());
            let next = page["nextCursor"].clone();
            // An agent that repeats a page would be asked for ever.
            if !next.is_string() || next == cursor || sessions.len() >= MAX_LISTED {
                return Ok(sessions);
            }
            cursor = next;
        }
    }

    pub(super) async fn shake_hands(&mut self, cwd: &Path) -> Result<Shaken, Fault> {
        let (version, hello) = self.greet().await?;
        let mut warnings = Vec::new();
        self.check_offered(version, &hello)?;
        let (method, mut params) = self.beginning(version, &hello, cwd);
        let mut preamble = None;
        if let Some(text) = &self.request.agent.system_prompt {
            if takes_system_prompt(&hello) {
                let content = json!({ "mode": "append", "content": [{ "type": "text", "text": text }] });
                put(&mut params, "systemPrompt", content);
            } else {
                warnings.push("systemPrompt: this agent has no system prompt over ACP; the text was put before the first prompt".to_owned());
                preamble = Some(text.clone());
            }
        }
        if self.agent.protocol().forgets_young && is_resume(method) {
            warnings.extend(self.wait_until_old().await);
        }
        self.heard.clear();
        self.heard_bytes = 0;
        let opened = self.ask(method, &params).await?;
        let heard = std::mem::take(&mut self.heard);
        let session = match (&self.request.agent.resume, owned(&opened["sessionId"])) {
            (Some(asked), Some(given)) if *asked != given => {
                let message = format!(
                    "{} was asked to go on with session {asked} but began {given}",
                    self.agent.as_str()
                );
                return Err(Fault::Other(Error::new(ErrorCode::AgentResumeFailed, message)));
            }
            (Some(asked), _) => asked.clone(),
            (None, Some(given)) => given,
            (None, None) => {
                let message = format!("{} answered session/new without a session", self.agent.as_str());
                return Err(Fault::Other(
                    Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown"),
                ));
            }
        };
        let mut settings = Settings::read(&opened);
        let history = if is_resume(method) { history(heard) } else { Vec::new() };
        let has_prompt = history.iter().any(|event| matches!(event, AgentEvent::Prompt { .. }));
        if method != "session/new" && replays(version, method) && !has_prompt {
            warnings.push(format!(
                "resume: {} sent no history of session {session}: the agent may have lost the conversation",
                self.agent.as_str()
            ));
        }
        self.set_mode(version, &session, &mut settings).await?;
        if let Some(warning) = self.set_model(version, &session, &mut settings).await? {
            warnings.push(warning);
        }
        let can_steer =
            [&hello["_meta"], &hello["capabilities"]["_meta"], &hello["agentCapabilities"]["_meta"]]
                .iter()
                .any(|meta| meta["steering"]["supported"] == true);
        let takes = PromptTakes::of(&hello);
        Ok(Shaken { session, version, can_steer, takes, settings, history, preamble, warnings })
    }

    /// Refuses options that the agent says it does not support. Version 2 has no such capabilities: they are part of the protocol.
    fn check_offered(&self, version: Version, hello: &Value) -> Result<(), Fault> {
        if version == Version::Two {
            return Ok(());
        }
        let offered = &hello["agentCapabilities"];
        let lacks = |option: &str, what: &str| {
            let message =
                format!("{} says that it {what}{}", self.agent.as_str(), self.agent.protocol().advice());
            Err(Fault::Other(Error::invalid_option(option, message)))
        };
        let can_resume =
            offered["loadSession"] == true || offered["sessionCapabilities"]["resume"].is_object();
        if self.request.agent.resume.is_some() && !can_resume {
            return lacks("resume", "can't take up an earlier session");
        }
        let wants_http = self.request.servers.iter().any(McpServer::is_http);
        if wants_http && offered["mcpCapabilities"]["http"] != true {
            return lacks("tools", "takes no tools over HTTP");
        }
        Ok(())
    }

    /// A warning if it had to be waited.
    async fn wait_until_old(&self) -> Option<String> {
        let session = self.request.agent.resume.as_deref()?;
        let wait = resume_delay::wait(|name| self.request.agent.variable(name), session).await?;
        tokio::time::sleep(wait).await;
        let name = self.agent.as_str();
        Some(format!(
            "resume: {} s were waited, for {name} empties a session that is taken up in the minute it was begun in",
            wait.as_secs()
        ))
    }

    /// The request that makes the session, or takes it up.
    fn beginning(&self, version: Version, hello: &Value, cwd: &Path) -> (&'static str, Value) {
        let agent = &self.request.agent;
        let protocol = self.agent.protocol();
        let written =
            |server: &McpServer| agent.shown_server(server).written_for(protocol.replaced).to_json();
        let by_request = |server: &&McpServer| !protocol.is_by_command_line(server);
        let servers: Vec<Value> = self.request.servers.iter().filter(by_request).map(written).collect();
        let mut params = json!({ "cwd": cwd, "mcpServers": servers });
        if let Ok(meta) = ground::json::read::<Value>(self.meta) {
            put(&mut params, "_meta", meta);
        }
        let Some(session) = &self.request.agent.resume else { return ("session/new", params) };
        put(&mut params, "sessionId", session.as_str());
        if version == Version::Two {
            put(&mut params, "replayFrom", json!({ "type": "start" }));
            return ("session/resume", params);
        }
        // Loading replays what was said; resuming does not.
        let can_load = hello["agentCapabilities"]["loadSession"] == true;
        let can_resume = hello["agentCapabilities"]["sessionCapabilities"]["resume"].is_object();
        (if can_resume && !can_load { "session/resume" } else { "session/load" }, params)
    }

    async fn set_mode(
        &mut self,
        version: Version,
        session: &str,
        settings: &mut Settings,
    ) -> Result<(), Fault> {
        if self.modes.is_empty() {
            return Ok(());
        }
        let (agent, level) = (self.agent, self.request.agent.level);
        let cannot = |why: String| Fault::Other(unenforced(agent, level, &why));
        let to_mode = settings.to_mode(&self.modes, version, session);
        let (mode, (method, params)) = to_mode.map_err(cannot)?;
        settings.choose(&mode);
        if settings.mode().as_ref() == Some(&mode) {
            return Ok(());
        }
        match self.ask(method, &params).await {
            Ok(answer) => {
                settings.on_options(&answer["configOptions"]);
                settings.on_mode(&mode);
                Ok(())
            }
            Err(Fault::Refused { fault, .. }) => Err(cannot(fault.words())),
            Err(fault) => Err(fault),
        }
    }

    /// A warning if the agent does not know the model.
    async fn set_model(
        &mut self,
        version: Version,
        session: &str,
        settings: &mut Settings,
    ) -> Result<Option<String>, Fault> {
        let Some(model) =
            self.request.agent.model.as_ref().filter(|_| self.agent.protocol().model_flag.is_none())
        else {
            return Ok(None);
        };
        let chosen = settings.model(model).map(|(id, value)| set_option(version, session, id, &json!(value)));
        let Some((method, params)) = chosen else {
            return Ok(Some(format!("model: this agent offers none named {model}, so its own was kept")));
        };
        let answer = self.ask(method, &params).await?;
        settings.on_options(&answer["configOptions"]);
        Ok(None)
    }

    /// Sends a request and waits for its answer; what is said meanwhile is kept.
    async fn ask(&mut self, method: &'static str, params: &Value) -> Result<Value, Fault> {
        let limit = self.request.agent.limits.start;
        self.connection.send(method, params, limit, 0);
        while let Some(said) = self.inbox.next().await {
            match said {
                Said::Answered { answer, .. } => return answer.map_err(|error| self.fault(method, &error)),
                Said::Update { update, weight, .. } => {
                    self.heard_bytes += weight;
                    if self.heard_bytes > MAX_HEARD_BYTES || self.heard.len() >= MAX_HEARD {
                        return Err(Fault::Other(too_much(self.agent, method)));
                    }
                    self.heard.push(update);
                }
                Said::Asked { id, method, .. } => {
                    self.connection.client.respond(&id, Err(&unknown_method(&method)));
                }
                Said::Ended(cause) => {
                    self.has_ended = true;
                    self.cause = Some(cause).filter(|cause| !is_closed_by_peer(cause));
                }
                Said::Withdrawn { .. } | Said::Noise(_) | Said::Other => {}
            }
        }
        self.has_ended = true;
        Err(Fault::Gone { method, cause: self.cause.take() })
    }

    fn fault(&mut self, method: &'static str, error: &Error) -> Fault {
        match error.code() {
            ErrorCode::RpcError => Fault::Refused { method, fault: AgentFault::of(error) },
            ErrorCode::ConnectionTimedOut => {
                Fault::Silent { method, limit: self.request.agent.limits.start.unwrap_or_default() }
            }
            // The stream may be over though the process lives on.
            _ => Fault::Gone { method, cause: self.cause.take() },
        }
    }
}

/// Most sessions that are listed.
const MAX_LISTED: usize = 10_000;

/// Most bytes in which an agent may repeat a resumed session, as they arrive; in memory they take several times as much.
const MAX_HEARD_BYTES: usize = 128 << 20;
const MAX_HEARD: usize = 500_000;

fn too_much(agent: Provider, method: &str) -> Error {
    let message = format!(
        "{} sent more than {} MiB or {MAX_HEARD} messages before it answered {method}: the session's history is too long to be taken up here",
        agent.as_str(),
        MAX_HEARD_BYTES >> 20
    );
    match is_resume(method) {
        true => Error::new(ErrorCode::AgentResumeFailed, message),
        false => Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown"),
    }
}

/// The version that the agent speaks, by its answer to `initialize`. `wanted`: the newest that its client speaks, if that is known.
pub(crate) fn spoken(agent: Provider, hello: &Value, wanted: Option<u64>) -> Result<Version, Error> {
    let number = match Version::of(hello) {
        Ok(Version::Two) if wanted == Some(1) => Some(2),
        Ok(version) => return Ok(version),
        Err(number) => number,
    };
    let spoken = number.map_or("none".to_owned(), |version| version.to_string());
    let understood = match wanted {
        Some(1) => "version 1 is",
        _ => "versions 1 and 2 are",
    };
    let message = format!(
        "{} speaks version {spoken} of the protocol, {understood} understood{}",
        agent.as_str(),
        agent.protocol().advice()
    );
    Err(Error::new(ErrorCode::ProtocolMismatch, message).with("protocolVersion", number))
}

/// Whether the agent repeats what was said: a version 1 agent that resumes without loading does not.
fn replays(version: Version, method: &str) -> bool {
    version == Version::Two || method == "session/load"
}

/// One request for both versions: an agent takes what it knows of it. `has_elicitation_handler`: the user may be asked for input.
fn hello(has_elicitation_handler: bool) -> Value {
    let info = json!({ "name": "sheepdog", "title": "Sheepdog", "version": env!("CARGO_PKG_VERSION") });
    let can =
        if has_elicitation_handler { json!({ "elicitation": { "form": {}, "url": {} } }) } else { json!({}) };
    json!({ "protocolVersion": 2, "info": info, "clientInfo": info, "capabilities": can, "clientCapabilities": can })
}

fn takes_system_prompt(hello: &Value) -> bool {
    [&hello["capabilities"]["session"], &hello["agentCapabilities"]["sessionCapabilities"]]
        .iter()
        .any(|capabilities| capabilities["systemPrompt"].is_object())
}

/// The messages that a resumed agent repeats, as events.
fn history(heard: Vec<Update>) -> Vec<AgentEvent> {
    let (mut book, mut digest) = (ToolBook::default(), Digest::new(true));
    for update in heard {
        match update {
            // Codex repeats what it put around a prompt as words without words.
            Update::Prompt { text, .. } if text.is_empty() => {}
            Update::Prompt { text, .. } => {
                digest.begin_answer();
                digest.tell(AgentEvent::Prompt { text });
            }
            Update::Text { .. }
            | Update::Thought { .. }
            | Update::Tool(_)
            | Update::Terminal { .. }
            | Update::Plan(_) => _ = hear(update, &mut digest, &mut book),
            _ => {}
        }
    }
    let mut events = digest.take_events();
    events.extend(book.close_all());
    events
}
