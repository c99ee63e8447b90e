//! The types and functions of the runtime's server for JavaScript. Names and order match lib/runtime/server.ts and
//! lib/runtime/handler.ts.

use super::acp::{OpenSpec, to_open_request};
use super::budget::NativeBudget;
use super::harness::{TurnSpec, to_request};
use super::limit::{NativeConcurrencyLimit, all_limits};
use super::mcp_server::PairSpec;
use super::option::{Millis, give};
use super::process::{VariableChange, environment_base};
use super::promise::{Promised, done, settle};
use super::runtime_host::{RuntimeHost, RuntimeObject};
use super::turn_observer::{NativeSeenTurn, showing};
use ground::error::Error;
use ground::lock::lock;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use runtime::agent::HarnessAgent;
use runtime::handler::{
    AgentAnswer, AgentData, AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender,
    CancelSignal, NoAgent,
};
use runtime::kept_agent::KeptAgent;
use runtime::server::{self, RuntimeServer, ServerOptions};
use runtime::wire::json;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Checked options of a server. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct ServeSpec {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub token: Option<String>,
    pub allowed_origins: Option<Vec<String>>,
    pub heartbeat_interval_ms: Option<Millis>,
    pub drain_timeout_ms: Option<Millis>,
    pub max_sessions: Option<f64>,
    /// The environment of commands, where JavaScript alone knows it.
    pub inherited: Option<Vec<VariableChange>>,
}

/// A coding agent that answers prompts.
#[napi]
pub struct NativeAgent {
    agent: Result<Arc<dyn AgentHandler>, Error>,
}

#[napi]
impl NativeAgent {
    /// `spec` has the options that the client does not set; its prompt is ignored. An error in it is reported by
    /// [`serve_runtime`]'s promise. `onTurn` is called for each turn as it begins.
    #[napi(constructor)]
    pub fn new(
        spec: TurnSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        #[napi(ts_arg_type = "(turn: NativeSeenTurn) => { name: string; value: string }[]")]
        on_turn: Function<'static, NativeSeenTurn, Vec<PairSpec>>,
    ) -> napi::Result<Self> {
        let on_turn = showing(&on_turn)?;
        let agent = to_request(spec, budget).map(|request| -> Arc<dyn AgentHandler> {
            Arc::new(HarnessAgent::new(request, all_limits(limits)).showing(on_turn))
        });
        Ok(NativeAgent { agent })
    }

    /// An agent whose session is kept for all prompts of a client.
    #[napi(factory)]
    pub fn kept(
        spec: OpenSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        #[napi(ts_arg_type = "(turn: NativeSeenTurn) => { name: string; value: string }[]")]
        on_turn: Function<'static, NativeSeenTurn, Vec<PairSpec>>,
    ) -> napi::Result<Self> {
        let on_turn = showing(&on_turn)?;
        let agent = to_open_request(spec, budget).map(|request| -> Arc<dyn AgentHandler> {
            Arc::new(KeptAgent::new(request, all_limits(limits)).showing(on_turn))
        });
        Ok(NativeAgent { agent })
    }

    /// Aborts the turns under way, and each later one as soon as it is requested.
    #[napi]
    pub fn stop(&self) {
        if let Ok(agent) = &self.agent {
            agent.stop();
        }
    }
}

/// Starts a server. `onInvocation` is called for each prompt and answers through the invocation's own methods; with an agent, the
/// agent answers. Without both, the server runs commands only.
#[napi]
pub fn serve_runtime(
    spec: ServeSpec,
    #[napi(ts_arg_type = "((invocation: NativeInvocation) => void) | undefined")] on_invocation: Option<
        Function<'static, NativeInvocation, ()>,
    >,
    agent: Option<&NativeAgent>,
    host: &RuntimeHost,
) -> napi::Result<Promised<NativeRuntimeServer>> {
    let handler: Result<Arc<dyn AgentHandler>, Error> = match (on_invocation, agent) {
        (Some(on_invocation), _) => Ok(Arc::new(JsHandler::new(&on_invocation)?)),
        (None, Some(agent)) => agent.agent.clone(),
        (None, None) => Ok(Arc::new(NoAgent)),
    };
    let options = handler.map(|handler| to_options(spec, handler));
    let objects = host.objects();
    Ok(settle(async move {
        let server = server::serve(options?).await?;
        objects.add(RuntimeObject::Server(server.downgrade()));
        Ok::<_, Error>(NativeRuntimeServer { server })
    }))
}

fn to_options(spec: ServeSpec, handler: Arc<dyn AgentHandler>) -> ServerOptions {
    let ServeSpec {
        host,
        port,
        token,
        allowed_origins,
        heartbeat_interval_ms,
        drain_timeout_ms,
        max_sessions,
        inherited,
    } = spec;
    let mut options = ServerOptions::new(handler);
    give(&mut options.host, host);
    give(&mut options.port, port);
    if inherited.is_some() {
        options.environment = environment_base(inherited, None);
    }
    options.token = token;
    options.allowed_origins = allowed_origins.unwrap_or_default();
    give(&mut options.heartbeat_interval, heartbeat_interval_ms.map(Millis::interval));
    let drain = drain_timeout_ms.map(|timeout| timeout.grace().unwrap_or(Duration::MAX));
    give(&mut options.drain_timeout, drain);
    give(&mut options.max_sessions, max_sessions.map(|count| count as usize));
    options
}

/// A server that listens.
#[napi]
pub struct NativeRuntimeServer {
    server: RuntimeServer,
}

#[napi]
impl NativeRuntimeServer {
    #[napi(getter)]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    #[napi(getter)]
    pub fn url(&self) -> String {
        self.server.url().to_owned()
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        let server = self.server.clone();
        done(async move { server.close().await })
    }

    /// Resolves when the server was closed. Until then it keeps the host alive.
    #[napi]
    pub fn closed(&self) -> Promised<()> {
        let server = self.server.clone();
        done(async move { server.closed().await })
    }
}

struct JsHandler {
    call: ThreadsafeFunction<NativeInvocation, (), NativeInvocation, napi::Status, false, true>,
}

impl JsHandler {
    fn new(on_invocation: &Function<'static, NativeInvocation, ()>) -> napi::Result<Self> {
        let call = on_invocation
            .build_threadsafe_function::<NativeInvocation>()
            // Weak: the server keeps the host alive as long as it is open.
            .weak::<true>()
            .callee_handled::<false>()
            .build()?;
        Ok(JsHandler { call })
    }
}

type HandlerAnswer = Result<AgentAnswer, AgentFault>;

impl AgentHandler for JsHandler {
    fn run(&self, invocation: AgentInvocation, sender: AgentSender) -> AgentFuture {
        let (answer, answered) = oneshot::channel();
        let invocation = NativeInvocation { invocation, sender, answer: Mutex::new(Some(answer)) };
        self.call.call(invocation, ThreadsafeFunctionCallMode::NonBlocking);
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                Err(AgentFault {
                    error: "the handler is gone without an answer".to_owned(),
                    metadata: Map::new(),
                })
            })
        })
    }
}

/// One prompt on its way to the handler in JavaScript.
#[napi]
pub struct NativeInvocation {
    invocation: AgentInvocation,
    sender: AgentSender,
    answer: Mutex<Option<oneshot::Sender<HandlerAnswer>>>,
}

#[napi]
impl NativeInvocation {
    /// The request for the handler, as JSON.
    #[napi(getter)]
    pub fn request(&self) -> String {
        let invocation = &self.invocation;
        serde_json::json!({
            "requestId": &*invocation.request_id,
            "sourceId": invocation.source_id,
            "systemPrompt": invocation.system_prompt,
            "userPrompt": invocation.user_prompt,
            "outputFormat": invocation.output_format,
            "model": invocation.model,
            "env": invocation.env,
            "secrets": invocation.secrets,
        })
        .to_string()
    }

    /// Redacts the request's secrets in a line for the log.
    #[napi]
    pub fn redact(&self, text: String) -> String {
        self.sender.redact(&text)
    }

    #[napi]
    pub fn send_assistant_message(&self, text_blocks: Vec<String>) -> Promised<()> {
        let sender = self.sender.clone();
        done(async move { sender.assistant(text_blocks).await })
    }

    #[napi]
    pub fn send_error_message(&self, error: String, metadata: Map<String, Value>) -> Promised<()> {
        let sender = self.sender.clone();
        done(async move { sender.error(AgentFault { error, metadata }).await })
    }

    /// Resolves with true when the handler has to stop, with false when the request is over by itself.
    #[napi]
    pub fn stopped(&self) -> Promised<bool> {
        let cancel: CancelSignal = self.invocation.cancel.clone();
        done(async move { cancel.stopped().await })
    }

    #[napi]
    pub fn answer_text(&self, text: String, metadata: Map<String, Value>) {
        self.settle(Ok(AgentAnswer { data: AgentData::Text(text), metadata }));
    }

    /// Answers with a structure. `structured` is JSON.
    #[napi]
    pub fn answer_structured(&self, structured: String, metadata: Map<String, Value>) {
        self.settle(match json::read(&structured) {
            Ok(value) => Ok(AgentAnswer { data: AgentData::Structured(value), metadata }),
            Err(problem) => Err(AgentFault {
                error: format!("the structured output can't be sent: {problem}"),
                metadata: Map::new(),
            }),
        });
    }

    #[napi]
    pub fn fail(&self, error: String, metadata: Map<String, Value>) {
        self.settle(Err(AgentFault { error, metadata }));
    }

    fn settle(&self, answer: HandlerAnswer) {
        if let Some(sender) = lock(&self.answer).take() {
            // Sending fails when the request is over, and then the answer is too late.
            let _ = sender.send(answer);
        }
    }
}
