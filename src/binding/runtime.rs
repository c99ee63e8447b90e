//! What crosses for the runtime capability. Names and order as in lib/runtime.ts.

use super::delivery::create_text;
use super::promise::{Settled, settle};
use crate::runtime::client::{
    ArtifactWanted, ClientEvent, ClientOptions, ClientRequest, RuntimeClient, SessionEnd,
};
use crate::runtime::handler::{
    AgentAnswer, AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender, CancelSignal,
};
use crate::runtime::reply::AgentData;
use crate::runtime::server::{self, RuntimeServer, ServerOptions};
use napi::bindgen_prelude::{Function, PromiseRaw, ToNapiValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, sys};
use napi_derive::napi;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Checked options of a server; what is absent has the core's default.
#[napi(object, object_to_js = false)]
pub struct ServeSpec {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub token: Option<String>,
    pub allowed_origins: Option<Vec<String>>,
    pub heartbeat_interval_ms: Option<f64>,
    pub drain_timeout_ms: Option<f64>,
    pub max_sessions: Option<f64>,
}

/// Listens; `onInvocation` is called for each prompt and answers by the invocation's own methods.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<NativeRuntimeServer>>")]
pub fn serve_runtime<'env>(
    env: &'env Env,
    spec: ServeSpec,
    #[napi(ts_arg_type = "(invocation: NativeInvocation) => void")] on_invocation: Function<
        'static,
        NativeInvocation,
        (),
    >,
) -> napi::Result<PromiseRaw<'env, Settled<NativeRuntimeServer>>> {
    let call = on_invocation
        .build_threadsafe_function::<NativeInvocation>()
        // Weak: what keeps the host alive is the server, as long as it is open.
        .weak::<true>()
        .callee_handled::<false>()
        .build()?;
    let mut options = ServerOptions::new(Arc::new(JsHandler { call }));
    if let Some(host) = spec.host {
        options.host = host;
    }
    if let Some(port) = spec.port {
        options.port = port;
    }
    options.token = spec.token;
    options.allowed_origins = spec.allowed_origins.unwrap_or_default();
    if let Some(millis) = spec.heartbeat_interval_ms {
        options.heartbeat_interval = limit(millis);
    }
    if let Some(millis) = spec.drain_timeout_ms {
        options.drain_timeout = limit(millis).unwrap_or(Duration::MAX);
    }
    if let Some(count) = spec.max_sessions {
        options.max_sessions = count as usize;
    }
    settle(
        env,
        async move { server::serve(options).await.map(|server| NativeRuntimeServer { server }).into() },
    )
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

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let server = self.server.clone();
        settle(env, async move {
            server.close().await;
            Settled::Value(())
        })
    }

    /// Resolves when the server was closed; until then it keeps the host alive.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn closed<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let server = self.server.clone();
        settle(env, async move {
            server.closed().await;
            Settled::Value(())
        })
    }
}

struct JsHandler {
    call: ThreadsafeFunction<NativeInvocation, (), NativeInvocation, napi::Status, false, true>,
}

type Answer = Result<AgentAnswer, AgentFault>;

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
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

#[napi]
impl NativeInvocation {
    /// What the handler is asked, as JSON.
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

    /// Takes the request's secrets out of a line for the log.
    #[napi]
    pub fn redact(&self, text: String) -> String {
        self.sender.redact(&text)
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn send_assistant_message<'env>(
        &self,
        env: &'env Env,
        text_blocks: Vec<String>,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let sender = self.sender.clone();
        settle(env, async move {
            sender.assistant(text_blocks).await;
            Settled::Value(())
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn send_error_message<'env>(
        &self,
        env: &'env Env,
        error: String,
        metadata: Map<String, Value>,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let sender = self.sender.clone();
        settle(env, async move {
            sender.error(AgentFault { error, metadata }).await;
            Settled::Value(())
        })
    }

    /// Resolves with true when the handler is to stop, with false when the request is over without.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<boolean>>")]
    pub fn stopped<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<bool>>> {
        let cancel: CancelSignal = self.invocation.cancel.clone();
        settle(env, async move { Settled::Value(cancel.stopped().await) })
    }

    #[napi]
    pub fn answer_text(&self, text: String, metadata: Map<String, Value>) {
        self.settle(Ok(AgentAnswer { data: AgentData::Text(text), metadata }));
    }

    /// `structured`: JSON.
    #[napi]
    pub fn answer_structured(&self, structured: String, metadata: Map<String, Value>) {
        let value = serde_json::from_str(&structured).unwrap_or_default();
        self.settle(Ok(AgentAnswer { data: AgentData::Structured(value), metadata }));
    }

    #[napi]
    pub fn fail(&self, error: String, metadata: Map<String, Value>) {
        self.settle(Err(AgentFault { error, metadata }));
    }

    fn settle(&self, answer: Answer) {
        if let Some(sender) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Fails when the request is over: a late answer.
            let _ = sender.send(answer);
        }
    }
}

/// Connects to a runtime.
#[napi(ts_return_type = "Promise<import('../lib/error').Settled<NativeRuntimeClient>>")]
pub fn connect_runtime<'env>(
    env: &'env Env,
    url: String,
    token: Option<String>,
    connect_timeout_ms: Option<f64>,
) -> napi::Result<PromiseRaw<'env, Settled<NativeRuntimeClient>>> {
    let mut options = ClientOptions { token, ..ClientOptions::default() };
    if let Some(millis) = connect_timeout_ms {
        options.connect_timeout = limit(millis);
    }
    settle(env, async move {
        RuntimeClient::connect(&url, options).await.map(|client| NativeRuntimeClient { client }).into()
    })
}

/// A file that the runtime wants an URL for.
#[napi(object)]
pub struct WantedArtifact {
    pub filename: String,
    pub filepath: String,
    pub upload_id: Option<String>,
}

/// What happened; the kind says which fields are there.
#[napi(object, object_from_js = false)]
pub struct RuntimeEvent {
    #[napi(ts_type = "'assistant' | 'output' | 'wanted' | 'ended'")]
    pub kind: &'static str,
    pub request: Option<f64>,
    pub text_blocks: Option<Vec<String>>,
    pub stream: Option<String>,
    #[napi(ts_type = "string")]
    pub text: Option<Text>,
    pub command: Option<String>,
    pub wanted: Option<WantedArtifact>,
    /// The runtime's message, as JSON.
    pub terminal: Option<String>,
    pub error: Option<super::error::Fault>,
}

/// Output on its way: plain ASCII goes over as it is.
pub struct Text(String);

impl ToNapiValue for Text {
    unsafe fn to_napi_value(raw_env: sys::napi_env, text: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let string = create_text(&env, &text.0)?;
        // SAFETY: the string was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, string) }
    }
}

/// How the session ended.
#[napi(object, object_from_js = false)]
pub struct RuntimeEnd {
    pub confirmed: bool,
    pub uploaded: f64,
    pub undelivered: Vec<UndeliveredArtifact>,
}

#[napi(object, object_from_js = false)]
pub struct UndeliveredArtifact {
    pub path: String,
    pub reason: String,
}

#[napi]
pub struct NativeRuntimeClient {
    client: RuntimeClient,
}

#[napi]
impl NativeRuntimeClient {
    /// Sends a request (JSON) and resolves with its number.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<number>>")]
    pub fn request<'env>(
        &self,
        env: &'env Env,
        message: String,
        timeout_ms: Option<f64>,
        idle_timeout_ms: Option<f64>,
    ) -> napi::Result<PromiseRaw<'env, Settled<f64>>> {
        let client = self.client.clone();
        settle(env, async move {
            let request = ClientRequest {
                message: serde_json::from_str(&message).unwrap_or_default(),
                timeout: timeout_ms.and_then(limit),
                idle_timeout: idle_timeout_ms.and_then(limit),
            };
            client.request(request).await.map(|number| number as f64).into()
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn abort<'env>(&self, env: &'env Env, request: f64) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.abort(request as u64).await;
            Settled::Value(())
        })
    }

    /// What happened next; empty when nothing will happen any more.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<RuntimeEvent[]>>")]
    pub fn next_events<'env>(
        &self,
        env: &'env Env,
    ) -> napi::Result<PromiseRaw<'env, Settled<Vec<RuntimeEvent>>>> {
        let client = self.client.clone();
        settle(
            env,
            async move { Settled::Value(client.next_events().await.into_iter().map(to_event).collect()) },
        )
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn answer<'env>(
        &self,
        env: &'env Env,
        wanted: WantedArtifact,
        presigned_url: String,
        content_type: String,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.answer(from_wanted(wanted), presigned_url, content_type).await;
            Settled::Value(())
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn decline<'env>(
        &self,
        env: &'env Env,
        wanted: WantedArtifact,
        reason: String,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.decline(from_wanted(wanted), reason).await;
            Settled::Value(())
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<RuntimeEnd>>")]
    pub fn end_session<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<RuntimeEnd>>> {
        let client = self.client.clone();
        settle(env, async move { Settled::Value(to_end(client.end_session().await)) })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.close().await;
            Settled::Value(())
        })
    }
}

fn from_wanted(wanted: WantedArtifact) -> ArtifactWanted {
    ArtifactWanted { filename: wanted.filename, filepath: wanted.filepath, upload_id: wanted.upload_id }
}

fn to_event(event: ClientEvent) -> RuntimeEvent {
    let mut out = RuntimeEvent {
        kind: "ended",
        request: None,
        text_blocks: None,
        stream: None,
        text: None,
        command: None,
        wanted: None,
        terminal: None,
        error: None,
    };
    match event {
        ClientEvent::Assistant { request, text_blocks } => {
            out.kind = "assistant";
            out.request = Some(request as f64);
            out.text_blocks = Some(text_blocks);
        }
        ClientEvent::Output { request, stream, text, command } => {
            out.kind = "output";
            out.request = Some(request as f64);
            out.stream = Some(stream);
            out.text = Some(Text(text));
            out.command = Some(command);
        }
        ClientEvent::Wanted(wanted) => {
            out.kind = "wanted";
            out.wanted = Some(WantedArtifact {
                filename: wanted.filename,
                filepath: wanted.filepath,
                upload_id: wanted.upload_id,
            });
        }
        ClientEvent::Ended { request, outcome } => {
            out.request = Some(request as f64);
            match outcome {
                Ok(terminal) => out.terminal = Some(Value::Object(terminal).to_string()),
                Err(error) => out.error = Some((&error).into()),
            }
        }
    }
    out
}

fn to_end(end: SessionEnd) -> RuntimeEnd {
    let undelivered = end.undelivered.into_iter().map(|(path, reason)| UndeliveredArtifact { path, reason });
    RuntimeEnd { confirmed: end.confirmed, uploaded: end.uploaded as f64, undelivered: undelivered.collect() }
}

/// Zero, negative and endless mean off. More than the clock can hold is endless.
fn limit(millis: f64) -> Option<Duration> {
    (millis > 0.0).then(|| Duration::try_from_secs_f64(millis / 1e3).ok()).flatten()
}
