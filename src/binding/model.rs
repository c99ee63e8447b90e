//! The types and functions that model calls pass to and from JavaScript. Names and order match lib/model.ts.

use super::mcp_server::PairSpec;
use super::option::{Millis, give, millis};
use super::process::{VariableChange, environment_base};
use super::promise::{Promised, done, settle};
use agents::model::{self, AbortSwitch, CompletionRequest, ErrorLayer, Schema, TextListener};
use ground::error::Error;
use ground::mpsc::{UnboundedReceiver, unbounded_channel};
use ground::random;
use ground::redaction::Secret;
use ground::retry::RetryPolicy;
use napi_derive::napi;
use process::EnvironmentBase;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Mutex;
use wires::http::Proxies;

/// Checked options of a call. A missing option has the core's default. JSON is passed as text.
#[napi(object, object_to_js = false)]
pub struct CompletionSpec {
    pub base_url: String,
    pub api_key: Option<String>,
    pub model: String,
    pub messages: String,
    pub tools: Option<String>,
    pub tool_choice: Option<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<f64>,
    pub seed: Option<f64>,
    pub extra_body: Option<String>,
    pub schema: Option<String>,
    pub timeout_ms: Option<Millis>,
    pub idle_timeout_ms: Option<Millis>,
    pub retry: RetrySpec,
    pub headers: Vec<PairSpec>,
    /// Whether the text is read as it comes, by [`ModelCall::next_text`].
    pub has_listener: bool,
}

/// A piece of the answer. The text of a later attempt starts from its beginning.
#[napi(object, object_from_js = false)]
pub struct TextPiece {
    pub text: String,
    pub attempt: u32,
}

#[napi(object, object_to_js = false)]
pub struct RetrySpec {
    pub attempts: Option<f64>,
    pub base_delay_ms: Option<Millis>,
    pub max_delay_ms: Option<Millis>,
    /// The calling thread's environment, where it is not the system's own.
    pub inherited: Option<Vec<VariableChange>>,
}

/// One layer of an error: see `model::ErrorLayer`.
#[napi(object, object_to_js = false)]
pub struct ErrorLayerSpec {
    pub codes: Vec<String>,
    pub status: Option<u32>,
    pub kind: Option<String>,
    pub message: Option<String>,
    pub retry_after: Option<String>,
    pub date: Option<String>,
    pub retry_after_ms: Option<f64>,
}

#[napi(object, object_from_js = false)]
pub struct ErrorClass {
    #[napi(ts_type = "import('../lib/harness/result').AgentErrorKind | 'timeout' | 'aborted'")]
    pub kind: &'static str,
    pub retryable: bool,
    pub status: Option<u32>,
    pub retry_after_ms: Option<f64>,
}

/// A call that can be aborted, also before it begins.
#[napi]
#[derive(Default)]
pub struct ModelCall {
    switch: AbortSwitch,
    pieces: Arc<Mutex<Option<UnboundedReceiver<TextPiece>>>>,
}

/// The call ends with its JavaScript environment, such as a worker thread that is terminated.
impl Drop for ModelCall {
    fn drop(&mut self) {
        self.switch.cancel();
    }
}

#[napi]
impl ModelCall {
    #[napi(constructor)]
    pub fn new() -> Self {
        ModelCall::default()
    }

    /// The completion as JSON.
    #[napi]
    pub fn complete(&self, mut spec: CompletionSpec) -> Promised<String> {
        let aborted = self.switch.clone().cancelled_owned();
        let mut listener = None;
        if spec.has_listener {
            // Unbounded, because an answer is limited, and one call of the reader takes all pieces that are there.
            let (told, pieces) = unbounded_channel();
            let tell: TextListener = Arc::new(move |attempt, text| {
                // Sending fails when the call is gone, and then the text has no listener.
                let _ = told.send(TextPiece { text: text.to_owned(), attempt });
            });
            listener = Some(tell);
            if let Ok(mut slot) = self.pieces.try_lock() {
                *slot = Some(pieces);
            }
        }
        let environment = environment_base(spec.retry.inherited.take(), None);
        settle(complete(environment, spec, listener, aborted))
    }

    /// The pieces since the last call, in order. Null at the end.
    #[napi(ts_return_type = "Promised<TextPiece[] | null>")]
    pub fn next_text(&self) -> Promised<Option<Vec<TextPiece>>> {
        let pieces = self.pieces.clone();
        done(async move {
            let mut pieces = pieces.lock().await;
            let mut taken = Vec::new();
            let count = match pieces.as_mut() {
                Some(pieces) => pieces.recv_many(&mut taken, usize::MAX).await,
                None => 0,
            };
            (count > 0).then_some(taken)
        })
    }

    #[napi]
    pub fn abort(&self) {
        self.switch.cancel();
    }
}

async fn complete(
    environment: EnvironmentBase,
    spec: CompletionSpec,
    listener: Option<TextListener>,
    abort: impl Future<Output = ()>,
) -> Result<String, Error> {
    let mut request = to_request(spec, &environment)?;
    request.listener = listener;
    let client = model::shared_client(Proxies::read(|name| environment.variable(name)));
    let completion = model::complete(&client, request, abort).await?;
    Ok(json!(completion).to_string())
}

/// Number of attempts for `withRetry`, whose operation runs in JavaScript.
#[napi]
pub fn retry_attempts(mut spec: RetrySpec) -> u32 {
    let environment = environment_base(spec.inherited.take(), None);
    to_policy(&spec, &environment).attempts
}

/// Milliseconds to wait after this many failures. `null`: the server asks for a wait that is too long.
#[napi]
pub fn retry_delay(spec: RetrySpec, failures: u32, retry_after_ms: Option<Millis>) -> Option<f64> {
    to_policy(&spec, &EnvironmentBase::Empty)
        .wait(failures, retry_after_ms.map(Millis::duration), random::fraction())
        .map(millis)
}

#[napi]
pub fn classify_error(layers: Vec<ErrorLayerSpec>) -> ErrorClass {
    let layers: Vec<ErrorLayer> = layers
        .into_iter()
        .map(|layer| ErrorLayer {
            codes: layer.codes,
            status: layer.status,
            kind: layer.kind,
            message: layer.message,
            retry_after: layer.retry_after,
            date: layer.date,
            retry_after_ms: layer.retry_after_ms,
        })
        .collect();
    let verdict = model::classify_described(&layers, SystemTime::now());
    ErrorClass {
        kind: verdict.kind.as_str(),
        retryable: verdict.retryable,
        status: verdict.status.map(u32::from),
        retry_after_ms: verdict.retry_after.map(millis),
    }
}

fn to_request(spec: CompletionSpec, environment: &EnvironmentBase) -> Result<CompletionRequest, Error> {
    let CompletionSpec {
        base_url,
        api_key,
        model,
        messages,
        tools,
        tool_choice,
        temperature,
        max_tokens,
        seed,
        extra_body,
        schema,
        timeout_ms,
        idle_timeout_ms,
        retry,
        headers,
        has_listener: _,
    } = spec;
    let mut request = CompletionRequest::new(base_url, model, parse("messages", &messages)?);
    request.api_key = api_key.map(Secret::from);
    request.tools = tools.map(|tools| parse("tools", &tools)).transpose()?;
    request.tool_choice = tool_choice.map(|choice| parse("toolChoice", &choice)).transpose()?;
    request.temperature = temperature;
    request.max_tokens = max_tokens.map(|tokens| tokens as u64);
    request.seed = seed.map(|seed| seed as i64);
    if let Some(Value::Object(fields)) = extra_body.map(|body| parse("extraBody", &body)).transpose()? {
        request.extra_body = fields;
    }
    let schema = schema.map(|schema| Schema::compile(parse("schema", &schema)?, "schema"));
    request.schema = schema.transpose()?;
    give(&mut request.timeout, timeout_ms.map(Millis::limit));
    give(&mut request.idle_timeout, idle_timeout_ms.map(Millis::limit));
    request.retry = to_policy(&retry, environment);
    request.headers = headers.into_iter().map(|header| (header.name, header.value)).collect();
    Ok(request)
}

fn to_policy(spec: &RetrySpec, environment: &EnvironmentBase) -> RetryPolicy {
    let RetrySpec { attempts, base_delay_ms, max_delay_ms, inherited: _ } = spec;
    let mut policy = model::retry_policy(|name| environment.variable(name));
    give(&mut policy.attempts, attempts.map(|attempts| attempts as u32));
    give(&mut policy.base_delay, base_delay_ms.map(Millis::duration));
    give(&mut policy.max_delay, max_delay_ms.map(Millis::duration));
    policy
}

fn parse(path: &str, text: &str) -> Result<Value, Error> {
    ground::json::read(text)
        .map_err(|error| Error::invalid_option(path, format!("cannot be written as JSON: {error}")))
}
