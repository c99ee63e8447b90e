//! The types that an agent's options have on their way from JavaScript, for turns and sessions. Names and order match
//! lib/harness/request.ts.

use super::budget::{PricesSpec, to_caps};
use super::error::Fault;
use super::host::absolute;
use super::option::{Containment, Level, Millis, give};
use super::process::{VariableChange, environment_base};
use super::sandbox::AgentSandboxSpec;
use agents::harness::{AgentRequest, AgentTraits, Provider};
use ground::error::{Error, ErrorCode};
use ground::os::HostFolder;
use ground::redaction::Redactor;
use napi_derive::napi;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Checked options that turns and sessions share. A missing option has the core's default. The names of the fields are those of the
/// options, in JSON too (a fleet's job). What a job can't set is skipped there.
#[napi(object, object_to_js = false)]
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpec {
    #[serde(skip)]
    pub provider: String,
    /// The agent is not known by name: `provider` is the name that its caller gave it.
    #[serde(skip)]
    pub traits: Option<AgentTraitsSpec>,
    #[serde(skip)]
    pub binary: Option<Vec<String>>,
    #[serde(skip)]
    pub cwd: Option<String>,
    #[serde(deserialize_with = "changes")]
    pub env: Vec<VariableChange>,
    /// Inherit only the variables with these names.
    #[serde(skip)]
    pub inherit_only: Option<Vec<String>>,
    /// The environment of a worker thread, which replaces that of the process.
    #[serde(skip)]
    pub inherited: Option<Vec<VariableChange>>,
    pub kill_grace_ms: Option<Millis>,
    pub containment: Option<Containment>,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub permission: Option<Level>,
    pub sandbox: Option<AgentSandboxSpec>,
    pub resume: Option<String>,
    pub start_timeout_ms: Option<Millis>,
    pub idle_timeout_ms: Option<Millis>,
    pub tool_idle_timeout_ms: Option<Millis>,
    pub timeout_ms: Option<Millis>,
    pub redact: Option<Vec<String>>,
    pub record: Option<String>,
    pub max_record_bytes: Option<f64>,
    pub name: Option<String>,
    pub max_tokens: Option<f64>,
    pub max_cost_usd: Option<f64>,
    pub prices: Option<PricesSpec>,
}

/// The traits of an agent that has no name here, besides its command and its environment.
#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct AgentTraitsSpec {
    /// Paths that it writes wherever it works.
    pub state: Vec<String>,
    /// Ids of its modes for the levels "plan", "edit", "ask" and "auto"; empty: none is named.
    pub modes: Vec<String>,
    pub reports_usage: bool,
}

pub(super) fn to_provider(name: String, traits: Option<AgentTraitsSpec>) -> Result<Provider, Error> {
    let Some(AgentTraitsSpec { state, modes, reports_usage }) = traits else { return Provider::parse(&name) };
    let mut modes = modes.into_iter().map(|id| Some(id).filter(|id| !id.is_empty()));
    let modes = std::array::from_fn(|_| modes.next().flatten());
    Provider::other(AgentTraits { name, state, modes, reports_usage })
}

/// The problem with options that no turn and no session could have; null when there is none. Starts nothing.
#[napi]
pub fn agent_problem(mut spec: AgentSpec) -> Option<Fault> {
    let provider = to_provider(std::mem::take(&mut spec.provider), spec.traits.take());
    let checked = provider.and_then(|provider| {
        let mut agent = AgentRequest::new(provider);
        spec.apply(&mut agent);
        agent.check_values()
    });
    checked.err().as_ref().map(Fault::from)
}

/// The request of an agent with these options. The environment of the process is read now.
pub(super) fn to_agent(mut spec: AgentSpec) -> Result<AgentRequest, Error> {
    let provider = to_provider(std::mem::take(&mut spec.provider), spec.traits.take())?;
    let mut agent = AgentRequest::new(provider);
    agent.environment.base = environment_base(spec.inherited.take(), spec.inherit_only.as_deref());
    agent.folder = HostFolder::now();
    // An agent keeps its sessions by the name of its folder. Without such a name it begins in the folder itself.
    agent.cwd = agent.folder.name().ok();
    spec.apply(&mut agent);
    if let Some(held) = agent.cwd.as_deref().and_then(HostFolder::of_descriptor) {
        agent.cwd = Some(held.name().map_err(|error| {
            Error::new(
                ErrorCode::ProcessCwdMissing,
                format!("the folder of `cwd` has no name any more: {error}"),
            )
        })?);
        (agent.folder, agent.holds_cwd) = (held, true);
    }
    Ok(agent)
}

impl AgentSpec {
    /// Sets what is given; everything else stays as it is. The provider and the base of the environment are the caller's.
    pub(super) fn apply(self, agent: &mut AgentRequest) {
        let AgentSpec {
            provider: _,
            traits: _,
            binary,
            cwd,
            env,
            inherit_only: _,
            inherited: _,
            kill_grace_ms,
            containment,
            model,
            system_prompt,
            permission,
            sandbox,
            resume,
            start_timeout_ms,
            idle_timeout_ms,
            tool_idle_timeout_ms,
            timeout_ms,
            redact,
            record,
            max_record_bytes,
            name,
            max_tokens,
            max_cost_usd,
            prices,
        } = self;
        give(&mut agent.binary, binary.map(Some));
        give(&mut agent.cwd, cwd.map(|cwd| Some(absolute(cwd))));
        agent.environment.changes.extend(env.into_iter().map(|change| (change.name, change.value)));
        give(&mut agent.kill_grace, kill_grace_ms.map(Millis::duration));
        give(&mut agent.containment, containment.map(Into::into));
        give(&mut agent.model, model.map(Some));
        give(&mut agent.system_prompt, system_prompt.map(Some));
        give(&mut agent.level, permission.map(Into::into));
        give(&mut agent.sandbox, sandbox.map(|sandbox| Some(sandbox.into())));
        give(&mut agent.resume, resume.map(Some));
        give(&mut agent.limits.start, start_timeout_ms.map(Millis::limit));
        give(&mut agent.limits.idle, idle_timeout_ms.map(Millis::limit));
        give(&mut agent.limits.tool_idle, tool_idle_timeout_ms.map(Millis::limit));
        give(&mut agent.limits.total, timeout_ms.map(Millis::limit));
        give(&mut agent.redact, redact.map(Redactor::new));
        give(&mut agent.record, record.map(|folder| Some(absolute(folder))));
        give(&mut agent.max_record_bytes, max_record_bytes.map(|bytes| Some(bytes as u64)));
        give(&mut agent.name, name.map(Some));
        let caps = to_caps(max_tokens, max_cost_usd);
        give(&mut agent.caps.max_tokens, caps.max_tokens.map(Some));
        give(&mut agent.caps.max_cost_usd, caps.max_cost_usd.map(Some));
        give(&mut agent.prices, prices.map(|prices| Some(prices.into())));
    }
}

/// In JSON the changes are an object, and a variable to remove is null.
fn changes<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<VariableChange>, D::Error> {
    let changes: Map<String, Value> = Map::deserialize(json)?;
    let change = |(name, value): (String, Value)| {
        let is_wrong = |text: &str| text.contains('\0');
        let value: Option<String> = ground::json::typed(value).map_err(D::Error::custom)?;
        if name.is_empty() || is_wrong(&name) || name.contains('=') || value.as_deref().is_some_and(is_wrong)
        {
            return Err(D::Error::custom(format!("env[{name:?}]: not a variable that a program can get")));
        }
        Ok(VariableChange { name, value })
    };
    changes.into_iter().map(change).collect()
}
