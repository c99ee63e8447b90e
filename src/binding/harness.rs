//! The types and functions that the harness passes to and from JavaScript. Names and order match lib/harness.ts.

use super::agent::{AgentSpec, to_agent};
use super::budget::NativeBudget;
use super::delivery::{Delivery, EventLines, create_text};
use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
use super::held::Held;
use super::limit::{NativeConcurrencyLimit, all_limits};
use super::mcp_server::{McpServerSpec, to_server};
use super::option::{Background, Millis, give};
use super::promise::{Promised, Settled, settle};
use agents::acp;
use agents::harness::verdict::Ending;
use agents::harness::verdict::result::TurnResult;
use agents::harness::{
    self, AgentEvent, AgentRequest, Provider, RecordedFiles, Recording, Replay, Turn, TurnOutcome,
    TurnRequest, WeakTurn,
};
use agents::model::{AbortSwitch, Schema};
use agents::{each_provider, harness::doctor};
use ground::error::Error;
use ground::json::{self, object::put};
use napi::bindgen_prelude::{Either, Object, ToNapiValue, Uint8Array, within_runtime_if_available};
use napi::{Env, sys};
use napi_derive::napi;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Checked options of a turn. A missing option has the core's default.
#[napi(object, object_to_js = false)]
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnSpec {
    #[serde(skip)]
    pub agent: AgentSpec,
    #[serde(skip)]
    pub prompt: String,
    pub cli_tools: Option<Vec<String>>,
    pub max_turns: Option<f64>,
    pub allow: Option<Vec<String>>,
    pub background: Option<Background>,
    /// A JSON Schema as JSON text.
    #[serde(deserialize_with = "text_of")]
    pub schema: Option<String>,
    pub retry: Option<TurnRetrySpec>,
    pub images: Option<Vec<String>>,
    #[serde(rename = "mcpServers")]
    pub servers: Option<Vec<McpServerSpec>>,
    pub extra_args: Option<Vec<String>>,
    /// Whether the events may get a listener.
    #[serde(skip)]
    pub has_listener: bool,
}

#[napi(object, object_to_js = false)]
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TurnRetrySpec {
    pub attempts: Option<f64>,
    pub base_delay_ms: Option<Millis>,
    pub max_delay_ms: Option<Millis>,
    pub after_tools: Option<bool>,
    pub wait_for_reset_ms: Option<Millis>,
}

/// One per JavaScript environment. Its turns end with the environment.
#[napi]
pub struct AgentHost {
    turns: EnvironmentObjects<WeakTurn>,
}

#[napi]
impl AgentHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        Ok(AgentHost { turns: EnvironmentObjects::of(&env)? })
    }

    /// Starts a turn. Errors are reported by the turn's promise. `waits`: once it has its slot, it waits for `begin`.
    #[napi]
    pub fn start(
        &self,
        spec: TurnSpec,
        limits: Vec<&NativeConcurrencyLimit>,
        budget: Option<&NativeBudget>,
        waits: bool,
    ) -> NativeTurn {
        let limits = all_limits(limits);
        match to_request(spec, budget) {
            Ok(request) => {
                let (held, preparation) = Held::new(waits);
                let turn =
                    within_runtime_if_available(|| agents::start_prepared(request, limits, preparation));
                self.turns.add(turn.downgrade());
                NativeTurn { turn: Ok(turn), held }
            }
            Err(error) => NativeTurn::of(Err(error)),
        }
    }
}

impl EnvironmentObject for WeakTurn {
    fn end(&self) {
        self.abort();
    }

    fn is_over(&self) -> bool {
        WeakTurn::is_over(self)
    }
}

/// An examination of the installed agents. It ends early when it is aborted, or with its JavaScript environment.
#[napi]
#[derive(Default)]
pub struct AgentExamination {
    switch: AbortSwitch,
}

#[napi]
impl AgentExamination {
    #[napi(constructor)]
    pub fn new() -> Self {
        AgentExamination::default()
    }

    /// Resolves with the findings: an array as JSON.
    #[napi]
    pub fn examine(&self, specs: Vec<AgentSpec>) -> Promised<String> {
        let agents: Result<Vec<_>, _> = specs.into_iter().map(to_agent).collect();
        let switch = self.switch.clone();
        settle(async move { Ok::<_, Error>(examined(&agents?, &switch).await?.to_string()) })
    }

    /// Resolves with the sessions that an agent has kept of its folder: an array as JSON.
    #[napi]
    pub fn list_sessions(&self, spec: AgentSpec) -> Promised<String> {
        let (agent, switch) = (to_agent(spec), self.switch.clone());
        settle(async move { Ok::<_, Error>(json!(acp::list_sessions(agent?, &switch).await?).to_string()) })
    }

    #[napi]
    pub fn abort(&self) {
        self.switch.cancel();
    }
}

/// The findings for each agent. The field `session` has those for the program that speaks the session protocol for it.
async fn examined(agents: &[AgentRequest], switch: &AbortSwitch) -> Result<Value, Error> {
    let mut findings = json!(doctor::examine(agents, switch).await?);
    let speakers = acp::examine(agents, switch).await?;
    for finding in findings.as_array_mut().into_iter().flatten() {
        let speaker = speakers.iter().find(|speaker| finding["provider"] == speaker.provider);
        put(finding, "session", json!(speaker));
    }
    Ok(findings)
}

impl Drop for AgentExamination {
    fn drop(&mut self) {
        self.switch.cancel();
    }
}

/// A turn under way.
#[napi]
pub struct NativeTurn {
    turn: Result<Turn, Error>,
    held: Held<TurnRequest>,
}

impl NativeTurn {
    pub(super) fn of(turn: Result<Turn, Error>) -> Self {
        NativeTurn { turn, held: Held::default() }
    }
}

#[napi]
impl NativeTurn {
    /// Resolves with true when a turn that waits has its slot, with false when it ended before.
    #[napi]
    pub fn granted(&self) -> Promised<bool> {
        self.held.granted()
    }

    /// Lets a turn that waits go on, with these options.
    #[napi]
    pub fn begin(&self, spec: TurnSpec, budget: Option<&NativeBudget>) {
        self.held.begin(to_request(spec, budget));
    }

    /// The turn's outcome: `{ text, facts }`, the facts as JSON.
    #[napi(ts_return_type = "Promised<import('../lib/harness/result').TurnEnd>")]
    pub fn outcome(&self) -> Promised<TurnEnd> {
        let turn = self.turn.clone();
        settle(async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => return Settled::Failed { error, partial: None },
            };
            let outcome = turn.outcome().await;
            let end = |result: &TurnResult| {
                let facts = json!(result.facts).to_string();
                TurnEnd { facts, outcome: outcome.clone() }
            };
            match &*outcome {
                TurnOutcome::Succeeded(result) => Settled::Value(end(result)),
                TurnOutcome::Failed { error, partial } => {
                    Settled::Failed { error: error.clone(), partial: partial.as_ref().map(end) }
                }
            }
        })
    }

    #[napi]
    pub fn abort(&self) {
        if let Ok(turn) = &self.turn {
            turn.abort();
        }
    }

    /// Delivers the events, one JSON text per line. Returns the channel's number.
    #[napi]
    pub fn events(&self, delivery: &Delivery) -> u32 {
        let channel = delivery.multiplexer.open();
        let id = channel.id();
        if let Ok(turn) = &self.turn {
            turn.listen(Box::new(EventLines::new(channel)));
        }
        id
    }

    #[napi]
    pub fn leave(&self) {
        if let Ok(turn) = &self.turn {
            turn.leave();
        }
    }
}

/// The end of a turn. Its text may be long and is passed on without a copy in between.
pub struct TurnEnd {
    outcome: Arc<TurnOutcome>,
    facts: String,
}

impl ToNapiValue for TurnEnd {
    unsafe fn to_napi_value(raw_env: sys::napi_env, end: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let mut object = Object::new(&env)?;
        let text = end.outcome.result().map_or("", |result| &result.text);
        object.set("text", create_text(&env, text)?)?;
        object.set("facts", create_text(&env, &end.facts)?)?;
        // SAFETY: the object was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, object) }
    }
}

/// Events and verdict of a recorded run, as JSON. With neither an exit code nor a signal, the run's end counts as unknown.
#[napi]
pub fn replay_recording(
    provider: String,
    stdout: Either<String, Uint8Array>,
    stderr: String,
    exit_code: Option<f64>,
    signal: Option<String>,
) -> napi::Result<String> {
    let provider = Provider::parse(&provider).map_err(|error| napi::Error::from_reason(error.message()))?;
    let stdout = match &stdout {
        Either::A(text) => text.as_bytes(),
        Either::B(bytes) => bytes,
    };
    let ending = ending_of(exit_code, signal);
    Ok(json_text(&shown(harness::replay(provider, &Recording { stdout, stderr: &stderr, ending }))))
}

fn ending_of(exit_code: Option<f64>, signal: Option<String>) -> Ending {
    match (signal, exit_code) {
        (Some(signal), _) => Ending::Signalled(signal),
        // Another system's exit code may not fit this system's type.
        (None, Some(code)) => Ending::Exited(code as i32),
        (None, None) => Ending::Unknown,
    }
}

/// Does the same for a run whose output is in files.
#[napi]
pub fn replay_files(
    provider: String,
    stdout: String,
    stderr: Option<String>,
    exit_code: Option<f64>,
    signal: Option<String>,
) -> Promised<String> {
    let (stderr, ending) = (stderr.map(Into::into), ending_of(exit_code, signal));
    let recorded = RecordedFiles { stdout: stdout.into(), stderr, ending };
    settle(async move {
        let replay = harness::replay_files(Provider::parse(&provider)?, recorded).await?;
        Ok::<_, Error>(json_text(&shown(replay)))
    })
}

/// The reason why a record has no end, determined from the host that its `run.json` names.
#[napi]
pub fn record_unfinished(host: String) -> String {
    harness::unfinished_by(&host).as_str().to_owned()
}

/// The result of a replay in the form that JavaScript gets.
#[derive(Serialize)]
struct Shown {
    ok: bool,
    events: Vec<AgentEvent>,
    result: TurnResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

fn shown(replay: Replay) -> Shown {
    let error = replay.fault.map(|fault| {
        let mut error = json!({ "code": fault.error.code().as_str(), "message": fault.error.message() });
        if let Some(kind) = fault.kind() {
            put(&mut error, "kind", kind.as_str());
        }
        error
    });
    Shown { ok: error.is_none(), events: replay.events, result: replay.result, error }
}

#[derive(Serialize)]
struct ShownRecord {
    start: Value,
    end: Option<Value>,
    unfinished: Option<&'static str>,
    turn: Option<Shown>,
}

/// Serialises directly, because there may be many events. The values can't fail to serialise.
pub(super) fn json_text(shown: &impl Serialize) -> String {
    serde_json::to_string(shown).unwrap_or_default()
}

/// The content of a record's folder, as JSON: `run.json`, `end.json`, the reason for a missing end, and for a turn its events and
/// verdict.
#[napi]
pub fn replay_folder(folder: String) -> Promised<String> {
    settle(async move {
        let read = harness::replay_folder(folder.into()).await?;
        let unfinished = read.unfinished.map(|why| why.as_str());
        let turn = read.turn.map(shown);
        Ok::<_, Error>(json_text(&ShownRecord { start: read.start, end: read.end, unfinished, turn }))
    })
}

macro_rules! provider_name {
    ($($variant:ident = $file:ident $name:literal,)*) => {
        /// An agent that the harness can run.
        #[napi(string_enum)]
        pub enum ProviderName {
            $(#[napi(value = $name)] $variant,)*
        }
    };
}
each_provider!(provider_name);

/// The names of the providers.
#[napi(ts_return_type = "ProviderName[]")]
pub fn provider_names() -> Vec<String> {
    Provider::ALL.iter().map(|provider| provider.as_str().to_owned()).collect()
}

/// The reason why a JSON Schema is invalid; null when it is valid.
#[napi]
pub fn schema_problem(schema: String) -> Option<String> {
    compile(&schema).err().map(|error| error.message().to_owned())
}

/// The reasons why a JSON value does not fit a JSON Schema. Empty when it does, or when the schema is invalid.
#[napi]
pub fn schema_problems(schema: String, value: String) -> Vec<String> {
    match json::read(&value) {
        Ok(value) => {
            let problems = compile(&schema).map(|schema| schema.problems(&value)).unwrap_or_default();
            problems.iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![format!("cannot be read as JSON: {error}")],
    }
}

pub(super) fn compile(schema: &str) -> Result<Schema, Error> {
    let source: Value = ground::json::read(schema)
        .map_err(|error| Error::invalid_option("schema", format!("expected a JSON Schema: {error}")))?;
    Schema::compile(source, "schema")
}

pub(super) fn to_request(mut spec: TurnSpec, budget: Option<&NativeBudget>) -> Result<TurnRequest, Error> {
    let (agent, prompt) = (std::mem::take(&mut spec.agent), std::mem::take(&mut spec.prompt));
    let mut request = TurnRequest::of(to_agent(agent)?, prompt);
    request.has_listener = spec.has_listener;
    request.agent.budget = budget.map(|budget| budget.budget.clone());
    spec.apply(&mut request)?;
    Ok(request)
}

impl TurnSpec {
    /// Sets what is given; everything else stays as it is. The agent, the prompt and the listener are the caller's.
    pub(super) fn apply(self, request: &mut TurnRequest) -> Result<(), Error> {
        let TurnSpec {
            agent: _,
            prompt: _,
            cli_tools,
            max_turns,
            allow,
            background,
            schema,
            retry,
            images,
            servers,
            extra_args,
            has_listener: _,
        } = self;
        give(&mut request.cli_tools, cli_tools.map(Some));
        give(&mut request.max_turns, max_turns.map(|turns| Some(turns as u64)));
        give(&mut request.allow, allow);
        give(&mut request.background, background.map(Into::into));
        let schema = schema.map(|schema| compile(&schema)).transpose()?;
        give(&mut request.schema, schema.map(|schema| Some(Arc::new(schema))));
        let TurnRetrySpec { attempts, base_delay_ms, max_delay_ms, after_tools, wait_for_reset_ms } =
            retry.unwrap_or_default();
        give(&mut request.retry.attempts, attempts.map(|attempts| attempts as u32));
        give(&mut request.retry.base_delay, base_delay_ms.map(Millis::duration));
        give(&mut request.retry.max_delay, max_delay_ms.map(Millis::duration));
        give(&mut request.retry_after_tools, after_tools);
        give(&mut request.wait_for_reset, wait_for_reset_ms.map(Millis::duration));
        give(&mut request.images, images.map(|images| images.into_iter().map(Into::into).collect()));
        give(&mut request.mcp_servers, servers.map(|servers| servers.into_iter().map(to_server).collect()));
        give(&mut request.extra_args, extra_args);
        Ok(())
    }
}

/// In JSON the schema is a value.
fn text_of<'de, D: Deserializer<'de>>(json: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Value>::deserialize(json)?.map(|schema| schema.to_string()))
}
