//! From a request to a session that can be prompted: the program found and started, hands shaken, the session made or resumed,
//! its mode and model set. Every request has a bound; whatever fails takes the process down before it is told.

use super::account::Account;
use super::agent::Agent;
use super::connection::{Connection, Inbox, Said};
use super::opening_fault::{Fault, is_resume};
use super::request::OpenRequest;
use super::session_record;
use super::settings::{Settings, set_option};
use super::tool_book::ToolBook;
use super::turn_state::Version;
use super::update::{AgentFault, Update, owned};
use crate::error::{Error, ErrorCode};
use crate::harness::folder::RunFolder;
use crate::harness::install::{find, locate};
use crate::harness::launch::{Launch, Wanted, path_text};
use crate::harness::level::{Level, Mode};
use crate::harness::package::Program;
use crate::harness::restraint::check_switches;
use crate::harness::turn_record::TurnRecord;
use crate::harness::workspace::{AgentSandbox, state_of};
use crate::harness::{AgentEvent, AgentRequest};
use crate::jsonrpc::Refusal;
use crate::os::blocking;
use crate::process::{Environment, ProcessSpec, Sandbox};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A session that can be prompted.
pub(crate) struct Opened {
    pub agent: &'static Agent,
    pub connection: Connection,
    pub inbox: Inbox,
    pub folder: RunFolder,
    pub cwd: PathBuf,
    pub session: String,
    pub version: Version,
    pub can_steer: bool,
    pub settings: Settings,
    pub history: Vec<AgentEvent>,
    /// Put before the first prompt, for agents that take none otherwise.
    pub preamble: Option<String>,
    pub warnings: Vec<String>,
    pub record: Option<TurnRecord>,
}

/// Opens a session, until `given_up` resolves. Call it within tokio.
pub(crate) async fn open(request: &OpenRequest, given_up: impl Future<Output = ()>) -> Result<Opened, Error> {
    let agent = Agent::of(request.agent.provider);
    let Some(mode) = agent.mode(request.agent.level, request.agent.sandbox.is_some()) else {
        let level = request.agent.level.as_str();
        return Err(Error::invalid_option(
            "permission",
            format!(
                "{} can't be held to {level:?} over this protocol{}: it never asks. Ask for another level by name",
                agent.name(),
                if request.agent.sandbox.is_some() { " in a sandbox" } else { "" }
            ),
        ));
    };
    check_switches(request.agent.provider, request.agent.level, &request.agent.environment.changes)?;
    if request.agent.limits.start == Some(Duration::ZERO) {
        return Err(Error::new(
            ErrorCode::AgentIdle,
            format!("{} was not started: startTimeoutMs is a deadline that has passed", agent.name()),
        ));
    }
    if agent.lacks_tools && !request.servers.is_empty() {
        return Err(Error::invalid_option(
            "tools",
            format!("{} takes no tools over this protocol", agent.name()),
        ));
    }
    let cwd = match &request.agent.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir().map_err(|error| {
            Error::new(ErrorCode::ProcessCwdMissing, format!("the working directory can't be found: {error}"))
        })?,
    };
    let program = program_of(agent, request, &cwd)?;
    let mut record = session_record::open(request, &cwd).await?;
    let (folder, sandbox) = make_room(request).await?;
    let mut spec = spec_of(agent, mode, request, &program, &cwd, folder.path());
    spec.sandbox = sandbox;
    spec.record = record.as_mut().map(|record| record.next_attempt(request.agent.provider));
    spec.name = Some(session_record::label(request));
    let (connection, inbox) = match Connection::start(spec).await {
        Ok(started) => started,
        Err(error) => {
            folder.remove().await;
            let error = not_started(agent, error);
            if let Some(record) = record {
                record.close(None, Some(&error), false).await;
            }
            return Err(error);
        }
    };
    let mut hall = Hall { agent, mode, request, connection, inbox, heard: Vec::new(), has_ended: false };
    let shaken = tokio::select! {
        shaken = hall.shake_hands(&cwd) => shaken,
        () = given_up => Err(Fault::Other(aborted())),
    };
    match shaken {
        Ok(shaken) => Ok(Opened {
            agent,
            session: shaken.session,
            version: shaken.version,
            can_steer: shaken.can_steer,
            settings: shaken.settings,
            history: shaken.history,
            preamble: shaken.preamble,
            warnings: shaken.warnings,
            connection: hall.connection,
            inbox: hall.inbox,
            folder,
            cwd,
            record,
        }),
        Err(fault) => {
            if !hall.has_ended {
                hall.connection.kill();
            }
            let exit = hall.connection.ended().await;
            folder.remove().await;
            let error = fault.into_error(agent, &exit);
            if let Some(record) = record {
                record.close(None, Some(&error), false).await;
            }
            Err(error)
        }
    }
}

/// A folder of the session's own, and the sandbox that it is part of.
async fn make_room(request: &OpenRequest) -> Result<(RunFolder, Option<Sandbox>), Error> {
    let parent = request.agent.temporary_folder();
    let held = match &request.agent.sandbox {
        Some(sandbox) => {
            Some((sandbox.clone(), state_of(request.agent.provider, |name| request.agent.variable(name))?))
        }
        None => None,
    };
    let level = request.agent.level;
    let made = blocking(move || {
        let folder = RunFolder::create(&parent)?;
        let prepare = |(sandbox, state): (AgentSandbox, _)| sandbox.prepare(level, state, folder.path());
        let sandbox = held.map(prepare).transpose()?;
        Ok((folder, sandbox))
    });
    made.await.map_err(|error| Error::new(ErrorCode::ProcessSpawnFailed, error.to_string()))?
}

/// The program that speaks the protocol: as given, on PATH, or in the packages of the folder and those around it.
fn program_of(agent: &Agent, request: &OpenRequest, cwd: &Path) -> Result<Program, Error> {
    let path = request.agent.search_path();
    let around: Vec<String> =
        cwd.ancestors().map(|folder| path_text(&folder.join("node_modules").join(".bin"))).collect();
    let path = format!("{path}:{}", around.join(":"));
    let found = match (&request.agent.binary, agent.program) {
        (None, Some(program)) => {
            find(program, &path).map(|file| Program { command: path_text(&file), ..Program::default() })
        }
        (binary, _) => locate(agent.provider, binary.as_deref(), &path),
    };
    found.ok_or_else(|| not_found(agent, agent.program()))
}

fn not_found(agent: &Agent, command: &str) -> Error {
    let install = agent.install();
    let message = format!(
        "{} can't be opened: {command}, which speaks the Agent Client Protocol for it, is no program on PATH. Install it with: {install}",
        agent.name()
    );
    Error::new(ErrorCode::AgentNotFound, message).with("install", install).with("command", command)
}

fn not_started(agent: &Agent, error: Error) -> Error {
    match error.code() {
        ErrorCode::ProcessNotFound => {
            let command = error.facts().get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
            not_found(agent, &command).caused_by(error)
        }
        _ => error,
    }
}

fn spec_of(
    agent: &Agent,
    mode: &Mode,
    request: &OpenRequest,
    program: &Program,
    cwd: &Path,
    folder: &Path,
) -> ProcessSpec {
    let mut args = program.arguments.clone();
    args.extend(agent.args.iter().map(|arg| (*arg).to_owned()));
    if let (Some(flag), Some(model)) = (agent.model_flag, &request.agent.model) {
        args.extend([flag.to_owned(), model.clone()]);
    }
    args.extend(mode.args.iter().map(|arg| (*arg).to_owned()));
    let mut spec = ProcessSpec::new(&program.command, args);
    spec.cwd = Some(cwd.to_path_buf());
    spec.kill_grace = request.agent.kill_grace;
    spec.containment = request.agent.containment;
    spec.environment = environment_of(agent, mode, &request.agent, program, folder);
    spec
}

/// The caller's environment, with what the provider and its mode need. The caller's own changes win.
fn environment_of(
    agent: &Agent,
    mode: &Mode,
    request: &AgentRequest,
    program: &Program,
    folder: &Path,
) -> Environment {
    let mut launch = Launch::new(&Wanted::default());
    if request.level != Level::Auto {
        launch.removed.extend(request.provider.descriptor().switches);
    }
    let set = agent.set.iter().chain(mode.set);
    launch.set.extend(set.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    request.environment_for(&launch, program, folder)
}

struct Shaken {
    session: String,
    version: Version,
    can_steer: bool,
    settings: Settings,
    history: Vec<AgentEvent>,
    preamble: Option<String>,
    warnings: Vec<String>,
}

/// Where hands are shaken: what the agent says meanwhile is kept.
struct Hall<'a> {
    agent: &'static Agent,
    mode: &'static Mode,
    request: &'a OpenRequest,
    connection: Connection,
    inbox: Inbox,
    heard: Vec<Update>,
    has_ended: bool,
}

impl Hall<'_> {
    async fn shake_hands(&mut self, cwd: &Path) -> Result<Shaken, Fault> {
        let hello = self.ask("initialize", &hello()).await?;
        let version = match hello["protocolVersion"].as_u64() {
            Some(1) => Version::One,
            Some(2) => Version::Two,
            other => {
                let spoken = other.map_or("none".to_owned(), |version| version.to_string());
                let message = format!(
                    "{} speaks version {spoken} of the protocol, versions 1 and 2 are understood: install {}",
                    self.agent.name(),
                    self.agent.package
                );
                return Err(Fault::Other(Error::new(ErrorCode::ProtocolMismatch, message)));
            }
        };
        let mut warnings = Vec::new();
        let (method, mut params) = self.beginning(version, &hello, cwd);
        let mut preamble = None;
        if let Some(text) = &self.request.agent.system_prompt {
            if takes_system_prompt(&hello) {
                params["systemPrompt"] =
                    json!({ "mode": "append", "content": [{ "type": "text", "text": text }] });
            } else {
                warnings.push("systemPrompt: this agent takes none over this protocol, so it stands before the first prompt".to_owned());
                preamble = Some(text.clone());
            }
        }
        self.heard.clear();
        let opened = self.ask(method, &params).await?;
        let heard = std::mem::take(&mut self.heard);
        let session = match (&self.request.agent.resume, owned(&opened["sessionId"])) {
            (Some(asked), Some(given)) if *asked != given => {
                let message = format!(
                    "{} was asked to go on with session {asked} but began {given}",
                    self.agent.name()
                );
                return Err(Fault::Other(Error::new(ErrorCode::AgentResumeFailed, message)));
            }
            (Some(asked), _) => asked.clone(),
            (None, Some(given)) => given,
            (None, None) => {
                let message = format!("{} answered session/new without a session", self.agent.name());
                return Err(Fault::Other(
                    Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown"),
                ));
            }
        };
        let mut settings = Settings::read(&opened);
        let history = if is_resume(method) { history(heard) } else { Vec::new() };
        self.set_mode(version, &session, &mut settings).await?;
        if let Some(warning) = self.set_model(version, &session, &mut settings).await? {
            warnings.push(warning);
        }
        let can_steer =
            [&hello["_meta"], &hello["capabilities"]["_meta"], &hello["agentCapabilities"]["_meta"]]
                .iter()
                .any(|meta| meta["steering"]["supported"] == true);
        Ok(Shaken { session, version, can_steer, settings, history, preamble, warnings })
    }

    /// The request that makes the session, or takes it up.
    fn beginning(&self, version: Version, hello: &Value, cwd: &Path) -> (&'static str, Value) {
        let servers: Vec<Value> = self.request.servers.iter().map(|server| server.to_json()).collect();
        let mut params = json!({ "cwd": cwd, "mcpServers": servers });
        let Some(session) = &self.request.agent.resume else { return ("session/new", params) };
        params["sessionId"] = json!(session);
        if version == Version::Two {
            params["replayFrom"] = json!({ "type": "start" });
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
        let mode = self.mode.id;
        if mode.is_empty() || settings.mode().as_deref() == Some(mode) {
            return Ok(());
        }
        let cannot = |found: String| {
            Fault::Other(Error::invalid_option(
                "permission",
                format!(
                    "{} can't be held to {:?}: {found}. Install {}",
                    self.agent.name(),
                    self.request.agent.level.as_str(),
                    self.agent.package
                ),
            ))
        };
        let modes = settings.modes();
        if !modes.iter().any(|known| known.id == mode) {
            let names = modes.iter().map(|known| known.id.as_str()).collect::<Vec<_>>().join(", ");
            return Err(cannot(format!("it offers the modes {names:?}, not {mode}")));
        }
        let Some((method, params)) = settings.set_mode(version, session, mode) else { return Ok(()) };
        match self.ask(method, &params).await {
            Ok(answer) => {
                settings.on_options(&answer["configOptions"]);
                settings.on_mode(mode);
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
        let Some(model) = self.request.agent.model.as_ref().filter(|_| self.agent.model_flag.is_none())
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
        while let Some(letter) = self.inbox.recv().await {
            match letter.said {
                Said::Answered { answer, .. } => return answer.map_err(|error| self.fault(method, &error)),
                Said::Update { update, .. } => self.heard.push(update),
                Said::Asked { id, method, .. } => {
                    self.connection.client.respond(&id, Err(&unknown_method(&method)));
                }
                Said::Ended => self.has_ended = true,
                Said::Withdrawn { .. } | Said::Noise(_) | Said::Other => {}
            }
        }
        self.has_ended = true;
        Err(Fault::Gone { method })
    }

    fn fault(&mut self, method: &'static str, error: &Error) -> Fault {
        match error.code() {
            ErrorCode::RpcError => Fault::Refused { method, fault: agent_fault(error) },
            ErrorCode::ConnectionTimedOut => {
                Fault::Silent { method, limit: self.request.agent.limits.start.unwrap_or_default() }
            }
            // The stream may be over though the process lives on.
            _ => Fault::Gone { method },
        }
    }
}

/// It was aborted before it was open.
pub(crate) fn aborted() -> Error {
    Error::new(ErrorCode::AgentAborted, "the session was aborted before it was open")
}

/// The agent's own error, from the one that the connection made of it.
pub(crate) fn agent_fault(error: &Error) -> AgentFault {
    let facts = error.facts();
    AgentFault::read(&json!({
        "code": facts.get("rpcCode").cloned().unwrap_or_default(),
        "message": error.message(),
        "data": facts.get("data").cloned().unwrap_or_default(),
    }))
}

pub(crate) fn unknown_method(method: &str) -> Refusal {
    Refusal { code: -32_601, message: format!("Method not found: {method}"), data: None }
}

/// One request for both versions: an agent takes what it knows of it.
fn hello() -> Value {
    let info = json!({ "name": "sheepdog", "title": "Sheepdog", "version": env!("CARGO_PKG_VERSION") });
    json!({ "protocolVersion": 2, "info": info, "clientInfo": info, "capabilities": {}, "clientCapabilities": {} })
}

fn takes_system_prompt(hello: &Value) -> bool {
    [&hello["capabilities"]["session"], &hello["agentCapabilities"]["sessionCapabilities"]]
        .iter()
        .any(|capabilities| capabilities["systemPrompt"].is_object())
}

/// What a resumed agent repeats, as events.
fn history(heard: Vec<Update>) -> Vec<AgentEvent> {
    let mut book = ToolBook::default();
    let mut account = Account::default();
    let mut events = Vec::new();
    for update in heard {
        match update {
            Update::Text { text, message, whole, .. } => {
                events.extend(account.on_text(&text, message.as_deref(), whole));
            }
            Update::Thought { text } => events.extend(account.on_thought(&text)),
            // Codex repeats what it put around a prompt as words without words.
            Update::Prompt { text, .. } if text.is_empty() => {}
            Update::Prompt { text, .. } => events.push(AgentEvent::Prompt { text }),
            Update::Tool(tool) => events.extend(book.on_update(tool).0),
            Update::Terminal { id, data, whole, exit_code } => {
                book.on_terminal(&id, data.as_deref(), whole, exit_code);
            }
            Update::Plan(entries) => events.push(AgentEvent::Plan { entries }),
            _ => {}
        }
    }
    events.extend(book.close_all());
    events
}
