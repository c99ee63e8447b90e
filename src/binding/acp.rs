//! The types and functions that sessions pass to and from JavaScript. Names and order match lib/harness/session.ts.

use super::agent::{AgentSpec, to_agent};
use super::budget::NativeBudget;
use super::delivery::{Delivery, EventLines};
use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
use super::harness::{NativeTurn, compile};
use super::held::Held;
use super::limit::{NativeConcurrencyLimit, all_limits};
use super::mcp_server::{McpServerSpec, to_server};
use super::option::{Millis, give};
use super::promise::{Promised, done, settle};
use agents::acp::{
    self, Answer, Elicited, HostRequest, OpenRequest, OwnTool, Policy, PromptPart, PromptRequest, Rule,
    Session, WeakSession,
};
use agents::model::AbortSwitch;
use ground::error::{Error, ErrorCode};
use ground::json;
use ground::lock::lock;
use ground::mpsc::unbounded_channel;
use napi::Env;
use napi::bindgen_prelude::within_runtime_if_available;
use napi_derive::napi;
use process::{Strays, Stream};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Checked options of a session. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct OpenSpec {
    pub agent: AgentSpec,
    /// Globs of the commands that may run without a permission request.
    pub commands: Option<Vec<String>>,
    pub allow: Vec<RuleSpec>,
    pub deny: Vec<RuleSpec>,
    /// Whether the host answers permission requests that the rules leave open.
    pub has_handler: bool,
    /// Whether the host gives the input that the agent asks of the user.
    pub has_elicitation_handler: bool,
    pub permission_timeout_ms: Option<Millis>,
    pub servers: Vec<McpServerSpec>,
    pub tools: Vec<OwnToolSpec>,
    pub settle_ms: Option<Millis>,
    pub wait_for_reset_ms: Option<Millis>,
}

/// A tool of the caller.
#[napi(object, object_to_js = false)]
pub struct OwnToolSpec {
    pub name: String,
    pub reads_only: bool,
}

fn own_tool(spec: OwnToolSpec) -> OwnTool {
    let OwnToolSpec { name, reads_only } = spec;
    OwnTool { name, reads_only }
}

#[napi(object, object_to_js = false)]
pub struct RuleSpec {
    pub kind: Option<String>,
    pub name: Option<String>,
    pub command: Option<String>,
    pub path: Option<String>,
}

/// A checked part of a prompt.
#[napi(object, object_to_js = false)]
pub struct PromptPartSpec {
    /// `text`, `image` or `resource`.
    pub r#type: String,
    pub text: Option<String>,
    pub mime_type: Option<String>,
    /// In base64.
    pub data: Option<String>,
    pub uri: Option<String>,
}

/// Checked options of a prompt.
#[napi(object, object_to_js = false)]
pub struct PromptSpec {
    pub text: String,
    /// The prompt in its parts, if it has others than text.
    pub parts: Option<Vec<PromptPartSpec>>,
    /// A JSON Schema as JSON text.
    pub schema: Option<String>,
    pub idle_timeout_ms: Option<Millis>,
    pub tool_idle_timeout_ms: Option<Millis>,
    pub timeout_ms: Option<Millis>,
    /// Whether to wait for work that goes on after the turn.
    pub waits: bool,
    pub has_listener: bool,
}

/// One per JavaScript environment. Its sessions end with the environment.
#[napi]
pub struct SessionHost {
    sessions: EnvironmentObjects<WeakSession>,
}

#[napi]
impl SessionHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        Ok(SessionHost { sessions: EnvironmentObjects::of(&env)? })
    }

    /// A session that is not open yet. `waits`: once it has its slot, it waits for `begin`.
    #[napi]
    pub fn prepare(
        &self,
        spec: OpenSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        waits: bool,
    ) -> NativeSession {
        let request = to_open_request(spec, budget);
        let limits = all_limits(limits);
        let (held, preparation) = Held::new(waits);
        NativeSession {
            begin: Mutex::new(Some((request, limits, preparation))),
            held,
            session: Arc::default(),
            switch: AbortSwitch::default(),
            sessions: self.sessions.clone(),
            listeners: Mutex::default(),
        }
    }
}

impl EnvironmentObject for WeakSession {
    fn end(&self) {
        self.close();
    }

    fn is_over(&self) -> bool {
        WeakSession::is_over(self)
    }
}

type Begin = (
    Result<OpenRequest, Error>,
    Vec<agents::harness::ConcurrencyLimit>,
    Option<agents::harness::Preparation<OpenRequest>>,
);

/// A session.
#[napi]
pub struct NativeSession {
    begin: Mutex<Option<Begin>>,
    held: Held<OpenRequest>,
    session: Arc<Mutex<Option<Session>>>,
    switch: AbortSwitch,
    sessions: EnvironmentObjects<WeakSession>,
    /// Channels of events that are being read. The flag becomes true when the reader leaves.
    listeners: Mutex<HashMap<u32, Arc<AtomicBool>>>,
}

#[napi]
impl NativeSession {
    /// Resolves with true when a session that waits has its slot, with false when it is given up.
    #[napi]
    pub fn granted(&self) -> Promised<bool> {
        self.held.granted()
    }

    /// Lets a session that waits go on, with these options.
    #[napi]
    pub fn begin(&self, spec: OpenSpec, budget: Option<&NativeBudget>) {
        self.held.begin(to_open_request(spec, budget));
    }

    /// Opens the session: `{ sessionId, protocolVersion, history, channel }` as JSON. The channel gets the permission requests as
    /// one JSON text per line: `{ question }`, `{ withdrawn }` or `{ stopped }`.
    #[napi]
    pub fn open(&self, delivery: &Delivery) -> Promised<String> {
        let begin = lock(&self.begin).take();
        let (place, switch, sessions) = (self.session.clone(), self.switch.clone(), self.sessions.clone());
        let mut channel = delivery.multiplexer.open();
        let number = channel.id();
        settle(async move {
            let (request, limits, preparation) = begin.ok_or_else(closed)?;
            let (host, mut asked) = unbounded_channel();
            let session =
                acp::open(request?, limits, preparation, host, switch.clone().cancelled_owned()).await?;
            sessions.add(session.downgrade());
            ground::task::spawn(async move {
                while let Some(asked) = asked.recv().await {
                    poll_fn(|context| channel.poll_room(context)).await;
                    let line = match asked {
                        HostRequest::Question(question) => json!({ "question": question }),
                        HostRequest::Elicitation(asked) => json!({ "elicitation": asked }),
                        HostRequest::Withdrawn { id } => json!({ "withdrawn": id }),
                        HostRequest::Stopped => json!({ "stopped": true }),
                    };
                    let text = line.to_string();
                    let weight = text.len();
                    channel.send(Stream::Stdout, text.into(), weight);
                }
                channel.end();
            });
            let facts = json!({
                "sessionId": session.id(),
                "protocolVersion": session.version().number(),
                "history": session.history(),
                "channel": number,
                "record": session.record(),
            });
            *lock(&place) = Some(session);
            Ok::<_, Error>(facts.to_string())
        })
    }

    /// Gives up opening the session.
    #[napi]
    pub fn abort(&self) {
        self.switch.cancel();
    }

    /// Sends a prompt. Errors are reported by the turn's promise.
    #[napi]
    pub fn start(&self, spec: PromptSpec) -> NativeTurn {
        let started = self.opened().and_then(|session| {
            let request = to_prompt(spec)?;
            Ok(within_runtime_if_available(|| session.start(request)))
        });
        NativeTurn::of(started)
    }

    /// Delivers all later events, one JSON text per line. Returns the channel's number.
    #[napi]
    pub fn events(&self, delivery: &Delivery) -> u32 {
        let channel = delivery.multiplexer.open();
        let id = channel.id();
        if let Ok(session) = self.opened() {
            let is_left = Arc::new(AtomicBool::new(false));
            lock(&self.listeners).insert(id, is_left.clone());
            session.listen(Box::new(EventLines::new(channel).until(is_left)));
        }
        id
    }

    /// Ends the delivery of events to this channel.
    #[napi]
    pub fn leave(&self, channel: u32) {
        let is_left = lock(&self.listeners).remove(&channel);
        if let Some(is_left) = is_left {
            is_left.store(true, Ordering::Relaxed);
        }
    }

    /// A call of one of the caller's tools begins (`begins`) or has ended.
    #[napi]
    pub fn own_tool(&self, begins: bool) {
        if let Ok(session) = self.opened() {
            session.own_tool(begins);
        }
    }

    /// Answers a permission request. `answer`: `allow`, `allow-always` or `reject`; with `isOption` the id of an option.
    /// `problem`: the error of a handler that failed.
    #[napi]
    pub fn answer(&self, id: String, answer: String, is_option: bool, problem: Option<String>) {
        let Ok(session) = self.opened() else { return };
        let answer = match (problem, is_option, answer.as_str()) {
            (Some(problem), _, _) => Err(problem),
            (None, true, _) => Ok(Answer::Option(answer)),
            (None, false, "allow") => Ok(Answer::Allow),
            (None, false, "allow-always") => Ok(Answer::AllowAlways),
            (None, false, _) => Ok(Answer::Reject),
        };
        session.answer(&id, answer);
    }

    /// Gives the input that the agent asked of the user. `action`: `accept`, `decline` or `cancel`. `content`: JSON of the fields.
    /// `problem`: the error of a handler that failed.
    #[napi]
    pub fn elicited(&self, id: String, action: String, content: Option<String>, problem: Option<String>) {
        let Ok(session) = self.opened() else { return };
        let content = content.map(|content| json::read(&content).map_err(|error| error.to_string()));
        let reply = match (problem, action.as_str()) {
            (Some(problem), _) => Err(problem),
            (None, "accept") => content.transpose().map(Elicited::Accept),
            (None, "decline") => Ok(Elicited::Decline),
            (None, _) => Ok(Elicited::Cancel),
        };
        session.elicited(&id, reply);
    }

    /// The session's title, once the agent has told one.
    #[napi]
    pub fn title(&self) -> Option<String> {
        self.opened().ok().and_then(|session| session.title())
    }

    /// The session's modes as JSON.
    #[napi]
    pub fn modes(&self) -> String {
        self.opened().map_or_else(|_| "[]".to_owned(), |session| json!(session.modes()).to_string())
    }

    /// The session's options as JSON.
    #[napi]
    pub fn options(&self) -> String {
        self.opened().map_or_else(|_| "[]".to_owned(), |session| json!(session.options()).to_string())
    }

    #[napi]
    pub fn set_mode(&self, mode: String) -> Promised<()> {
        answered(self.opened().map(|session| session.set_mode(mode)))
    }

    /// Sets an option. `value` is JSON.
    #[napi]
    pub fn set_option(&self, id: String, value: String) -> Promised<()> {
        let value = json::read::<Value>(&value).map_err(|error| Error::invalid_option("value", error));
        answered(self.opened().and_then(|session| Ok(session.set_option(id, value?))))
    }

    #[napi]
    pub fn steer(&self, text: String) -> Promised<()> {
        answered(self.opened().map(|session| session.steer(text)))
    }

    #[napi]
    pub fn cancel(&self, kills_strays: bool) -> Promised<()> {
        let strays = if kills_strays { Strays::Kill } else { Strays::Keep };
        answered(self.opened().map(|session| session.cancel(strays)))
    }

    #[napi]
    pub fn idle(&self) -> Promised<()> {
        answered(self.opened().map(|session| session.idle()))
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        self.switch.cancel();
        let closing = self.opened().map(|session| session.close());
        done(async move {
            if let Ok(closing) = closing {
                closing.await;
            }
        })
    }

    fn opened(&self) -> Result<Session, Error> {
        lock(&self.session).clone().ok_or_else(closed)
    }
}

impl Drop for NativeSession {
    fn drop(&mut self) {
        self.switch.cancel();
    }
}

/// A promise for the agent's answer to a request that was sent.
fn answered(answer: Result<impl acp::Answered, Error>) -> Promised<()> {
    settle(async move { answer?.await })
}

fn closed() -> Error {
    Error::new(ErrorCode::SessionClosed, "the session is not open")
}

pub(super) fn to_open_request(spec: OpenSpec, budget: Option<&NativeBudget>) -> Result<OpenRequest, Error> {
    let OpenSpec {
        agent,
        commands,
        allow,
        deny,
        has_handler,
        has_elicitation_handler,
        permission_timeout_ms,
        servers,
        tools,
        settle_ms,
        wait_for_reset_ms,
    } = spec;
    let mut request = OpenRequest::of(to_agent(agent)?);
    request.policy = Policy {
        allow: allow.into_iter().map(Into::into).collect(),
        deny: deny.into_iter().map(Into::into).collect(),
    };
    request.allow_commands(commands.unwrap_or_default())?;
    request.agent.budget = budget.map(|budget| budget.budget.clone());
    request.has_handler = has_handler;
    request.has_elicitation_handler = has_elicitation_handler;
    give(&mut request.permission_timeout, permission_timeout_ms.map(Millis::limit));
    request.servers = servers.into_iter().map(to_server).collect();
    request.tools = tools.into_iter().map(own_tool).collect();
    give(&mut request.settle, settle_ms.map(Millis::duration));
    give(&mut request.wait_for_reset, wait_for_reset_ms.map(Millis::duration));
    Ok(request)
}

impl From<RuleSpec> for Rule {
    fn from(rule: RuleSpec) -> Self {
        let RuleSpec { kind, name, command, path } = rule;
        Rule { kind, name, command, path }
    }
}

fn to_part(spec: PromptPartSpec) -> PromptPart {
    let PromptPartSpec { r#type, text, mime_type, data, uri } = spec;
    match r#type.as_str() {
        "image" => {
            PromptPart::Image { mime_type: mime_type.unwrap_or_default(), data: data.unwrap_or_default() }
        }
        "resource" => PromptPart::Resource { uri: uri.unwrap_or_default(), text, mime_type },
        _ => PromptPart::Text(text.unwrap_or_default()),
    }
}

fn to_prompt(spec: PromptSpec) -> Result<PromptRequest, Error> {
    let PromptSpec {
        text,
        parts,
        schema,
        idle_timeout_ms,
        tool_idle_timeout_ms,
        timeout_ms,
        waits,
        has_listener,
    } = spec;
    let mut request = PromptRequest::new(text);
    request.parts = parts.unwrap_or_default().into_iter().map(to_part).collect();
    request.schema = schema.map(|schema| compile(&schema)).transpose()?.map(Arc::new);
    request.idle = idle_timeout_ms.map(Millis::limit);
    request.tool_idle = tool_idle_timeout_ms.map(Millis::limit);
    request.total = timeout_ms.map(Millis::limit);
    request.leaves = !waits;
    request.has_listener = has_listener;
    Ok(request)
}
