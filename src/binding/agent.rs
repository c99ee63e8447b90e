//! The types that an agent's options have on their way from JavaScript, for turns and sessions. Names and order match
//! lib/harness/request.ts.

use super::budget::{PricesSpec, to_caps};
use super::option::{Containment, Level, Millis};
use super::process::{VariableChange, environment};
use super::sandbox::AgentSandboxSpec;
use agents::harness::{AgentRequest, AgentTraits, Provider};
use ground::error::Error;
use napi_derive::napi;

/// Checked options that turns and sessions share. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct AgentSpec {
    pub provider: String,
    /// The agent is not known by name: `provider` is the name that its caller gave it.
    pub traits: Option<AgentTraitsSpec>,
    pub binary: Option<Vec<String>>,
    pub cwd: Option<String>,
    pub env: Vec<VariableChange>,
    /// Inherit only the variables with these names.
    pub inherit_only: Option<Vec<String>>,
    /// The environment of a worker thread, which replaces that of the process.
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
pub struct AgentTraitsSpec {
    /// Paths that it writes wherever it works.
    pub state: Vec<String>,
    /// Ids of its modes for the levels "plan", "edit", "ask" and "auto"; empty: none is named.
    pub modes: Vec<String>,
}

fn to_provider(name: String, traits: Option<AgentTraitsSpec>) -> Result<Provider, Error> {
    let Some(traits) = traits else { return Provider::parse(&name) };
    let mut modes = traits.modes.into_iter().map(|id| Some(id).filter(|id| !id.is_empty()));
    let modes = std::array::from_fn(|_| modes.next().flatten());
    Provider::other(AgentTraits { name, state: traits.state, modes })
}

pub(super) fn to_agent(spec: AgentSpec) -> Result<AgentRequest, Error> {
    let mut agent = AgentRequest::new(to_provider(spec.provider, spec.traits)?);
    agent.binary = spec.binary;
    agent.cwd = spec.cwd.map(Into::into);
    agent.environment = environment(spec.env, spec.inherited, spec.inherit_only.as_deref());
    if let Some(grace) = spec.kill_grace_ms {
        agent.kill_grace = grace.duration();
    }
    if let Some(containment) = spec.containment {
        agent.containment = containment.into();
    }
    agent.model = spec.model;
    agent.system_prompt = spec.system_prompt;
    if let Some(level) = spec.permission {
        agent.level = level.into();
    }
    agent.sandbox = spec.sandbox.map(Into::into);
    agent.resume = spec.resume;
    let clocks = [
        (spec.start_timeout_ms, &mut agent.limits.start),
        (spec.idle_timeout_ms, &mut agent.limits.idle),
        (spec.tool_idle_timeout_ms, &mut agent.limits.tool_idle),
        (spec.timeout_ms, &mut agent.limits.total),
    ];
    for (timeout, clock) in clocks {
        if let Some(timeout) = timeout {
            *clock = timeout.limit();
        }
    }
    agent.redact = spec.redact.unwrap_or_default();
    agent.record = spec.record.map(Into::into);
    agent.max_record_bytes = spec.max_record_bytes.map(|bytes| bytes as u64);
    agent.name = spec.name;
    agent.caps = to_caps(spec.max_tokens, spec.max_cost_usd);
    agent.prices = spec.prices.map(Into::into);
    Ok(agent)
}
