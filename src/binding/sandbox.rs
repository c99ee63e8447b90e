//! The types that a sandbox's options have on their way from JavaScript. Names and order match lib/sandbox.ts, which has checked
//! the types.

use super::egress::ListedHosts;
use super::secret_spec::SecretSpec;
use agents::harness::AgentSandbox;
use napi::bindgen_prelude::Either;
use napi_derive::napi;
use process::{self, Hosts, Network, Protect, Sandbox};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The limits of a program and everything it starts. A missing option has the core's default.
#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SandboxSpec {
    pub write: Option<Vec<String>>,
    pub read: Option<Vec<String>>,
    #[serde(default, deserialize_with = "name_or_object")]
    pub network: Option<Either<NetworkName, NetworkSpec>>,
    pub sockets: Option<Vec<String>>,
    pub require: Option<RequireSpec>,
    /// The treatment of protected files, or the treatment and the names of the files.
    #[serde(default, deserialize_with = "name_or_object")]
    pub protect: Option<Either<ProtectHow, ProtectSpec>>,
}

/// Files that programs outside of the sandbox run later.
#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProtectSpec {
    pub names: Vec<String>,
    pub how: ProtectHow,
}

/// The treatment of changed files that programs outside of the sandbox run later.
#[napi(string_enum = "lowercase")]
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectHow {
    Report,
    Restore,
    Enforce,
}

impl ProtectHow {
    fn of(self, names: Vec<String>) -> Protect {
        match self {
            ProtectHow::Report => Protect { told: names, ..Protect::default() },
            ProtectHow::Restore => Protect { restored: names, ..Protect::default() },
            ProtectHow::Enforce => Protect { restored: names, is_enforced: true, ..Protect::default() },
        }
    }
}

/// Lowest versions of the kernel's features that are required.
#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequireSpec {
    pub landlock: Option<u32>,
}

/// Limits that the kernel of this machine can enforce, as JSON.
#[napi]
pub fn sandbox_support() -> String {
    serde_json::json!(process::sandbox_support()).to_string()
}

/// The sandbox of an agent: `custom`, or its workspace when `custom` is missing.
#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct AgentSandboxSpec {
    pub custom: Option<SandboxSpec>,
}

impl AgentSandboxSpec {
    /// The network, if it is a list of hosts.
    pub(super) fn hosts_mut(&mut self) -> Option<&mut NetworkSpec> {
        match self.custom.as_mut()?.network.as_mut()? {
            Either::B(network) if network.ports.is_none() => Some(network),
            Either::A(_) | Either::B(_) => None,
        }
    }
}

/// In JSON it is `"workspace"`, or the object.
impl<'de> Deserialize<'de> for AgentSandboxSpec {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(json)?;
        if value == "workspace" {
            return Ok(AgentSandboxSpec { custom: None });
        }
        SandboxSpec::deserialize(value)
            .map(|custom| AgentSandboxSpec { custom: Some(custom) })
            .map_err(D::Error::custom)
    }
}

/// The JSON of an option that is a name or an object.
fn name_or_object<'de, D, Name, Object>(json: D) -> Result<Option<Either<Name, Object>>, D::Error>
where
    D: Deserializer<'de>,
    Name: DeserializeOwned,
    Object: DeserializeOwned,
{
    let either = match Option::<Value>::deserialize(json)? {
        None => return Ok(None),
        Some(name @ Value::String(_)) => Name::deserialize(name).map(Either::A),
        Some(object) => Object::deserialize(object).map(Either::B),
    };
    either.map(Some).map_err(D::Error::custom)
}

impl From<AgentSandboxSpec> for AgentSandbox {
    fn from(spec: AgentSandboxSpec) -> AgentSandbox {
        spec.custom.map_or(AgentSandbox::Workspace, |sandbox| AgentSandbox::Custom(sandbox.into()))
    }
}

/// Whether there is a network.
#[napi(string_enum = "lowercase")]
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkName {
    All,
    None,
}

/// The hosts that the program may reach, or else the TCP ports that it may connect to.
#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkSpec {
    pub ports: Option<Vec<u16>>,
    pub hosts: Option<Vec<String>>,
    /// Not in JSON: a job is stored, and holds no secrets.
    #[serde(skip)]
    pub secrets: Option<BTreeMap<String, SecretSpec>>,
}

impl From<NetworkSpec> for Network {
    fn from(spec: NetworkSpec) -> Network {
        let NetworkSpec { ports, hosts, secrets } = spec;
        match ports {
            Some(ports) => Network::Ports(ports),
            None => {
                let (hosts, secrets) = (hosts.unwrap_or_default(), secrets.unwrap_or_default());
                Network::Hosts(Hosts::by(ListedHosts::new(&hosts, secrets)))
            }
        }
    }
}

impl From<SandboxSpec> for Sandbox {
    fn from(spec: SandboxSpec) -> Sandbox {
        let SandboxSpec { write, read, network, sockets, require, protect } = spec;
        let paths = |paths: Vec<String>| paths.into_iter().map(Into::into).collect();
        Sandbox {
            write: write.map(paths).unwrap_or_default(),
            read: read.map(paths),
            network: match network {
                None | Some(Either::A(NetworkName::All)) => Network::All,
                Some(Either::A(NetworkName::None)) => Network::None,
                Some(Either::B(spec)) => spec.into(),
            },
            sockets: sockets.map(paths),
            protect: protect.map(|protect| match protect {
                Either::A(how) => how.of(Protect::names()),
                Either::B(ProtectSpec { names, how }) => how.of(names),
            }),
            require_landlock: require.and_then(|require| require.landlock),
        }
    }
}
