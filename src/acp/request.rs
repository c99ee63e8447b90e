//! PURE: a session and its prompts as they are asked for.

use super::permission::Policy;
use crate::error::Error;
use crate::harness::clock::Limits;
use crate::harness::{AgentSandbox, Level, Provider};
use crate::model::Schema;
use crate::process::{Containment, Environment, EnvironmentBase, ProcessSpec};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A session to open.
#[derive(Clone)]
pub struct OpenRequest {
    pub provider: Provider,
    /// The program that speaks the protocol, with leading arguments; else the provider's own.
    pub binary: Option<Vec<String>>,
    /// The host's own when `None`.
    pub cwd: Option<PathBuf>,
    pub environment: Environment,
    pub kill_grace: Duration,
    pub containment: Containment,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub level: Level,
    pub policy: Policy,
    /// What the kernel holds it in.
    pub sandbox: Option<AgentSandbox>,
    /// Somebody answers what the rules leave open.
    pub has_handler: bool,
    /// For an answer of the handler; `None`: off.
    pub permission_timeout: Option<Duration>,
    pub servers: Vec<McpServer>,
    pub resume: Option<String>,
    /// `start` bounds every request but prompts; the others are the prompts' defaults.
    pub limits: Limits,
    /// For how long nothing may go on behind a turn before it is over.
    pub settle: Duration,
    pub redact: Vec<String>,
    /// The folder in which a new one keeps the session.
    pub record: Option<PathBuf>,
    pub max_record_bytes: Option<u64>,
    /// What people call it.
    pub name: Option<String>,
}

impl OpenRequest {
    pub const PERMISSION_TIMEOUT: Duration = Duration::from_secs(300);
    pub const SETTLE: Duration = Duration::from_millis(500);

    pub fn new(provider: Provider) -> Self {
        OpenRequest {
            provider,
            binary: None,
            cwd: None,
            environment: Environment::default(),
            kill_grace: ProcessSpec::KILL_GRACE,
            containment: Containment::Auto,
            model: None,
            system_prompt: None,
            level: Level::Edit,
            policy: Policy::default(),
            sandbox: None,
            has_handler: false,
            permission_timeout: Some(Self::PERMISSION_TIMEOUT),
            servers: Vec::new(),
            resume: None,
            limits: Limits::default(),
            settle: Self::SETTLE,
            redact: Vec::new(),
            record: None,
            max_record_bytes: None,
            name: None,
        }
    }

    /// A variable of the session's environment, before the provider's own additions.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.environment.changes.iter().rev().find(|(changed, _)| changed == name) {
            return value.clone();
        }
        match &self.environment.base {
            EnvironmentBase::Inherit => std::env::var(name).ok(),
            EnvironmentBase::Empty => None,
            EnvironmentBase::Variables(variables) => {
                let found = variables.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.to_string_lossy().into_owned())
            }
        }
    }
}

/// A server of tools that the agent is given.
#[derive(Clone, Debug, PartialEq)]
pub enum McpServer {
    Http { name: String, url: String, headers: Vec<(String, String)> },
    Program { name: String, command: String, args: Vec<String>, env: Vec<(String, String)> },
}

impl McpServer {
    pub(crate) fn to_json(&self) -> Value {
        let pairs = |pairs: &[(String, String)]| -> Vec<Value> {
            pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
        };
        match self {
            McpServer::Http { name, url, headers } => {
                json!({ "type": "http", "name": name, "url": url, "headers": pairs(headers) })
            }
            McpServer::Program { name, command, args, env } => {
                json!({ "type": "stdio", "name": name, "command": command, "args": args, "env": pairs(env) })
            }
        }
    }
}

/// A prompt of a session.
#[derive(Clone)]
pub struct PromptRequest {
    pub text: String,
    pub schema: Option<Arc<Schema>>,
    /// `None`: as the session says. `Some(None)`: off.
    pub idle: Option<Option<Duration>>,
    pub tool_idle: Option<Option<Duration>>,
    pub total: Option<Option<Duration>>,
    /// Whether what goes on behind the turn is waited for.
    pub waits: bool,
    /// Whether somebody may listen to the events.
    pub has_listener: bool,
}

impl PromptRequest {
    pub fn new(text: impl Into<String>) -> Self {
        PromptRequest {
            text: text.into(),
            schema: None,
            idle: None,
            tool_idle: None,
            total: None,
            waits: true,
            has_listener: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.text.trim().is_empty() {
            return Err(Error::invalid_option("prompt", "expected a prompt that is not empty"));
        }
        Ok(())
    }

    pub(crate) fn limits(&self, session: &Limits) -> Limits {
        Limits {
            // The session has started long ago.
            start: None,
            idle: self.idle.unwrap_or(session.idle),
            tool_idle: self.tool_idle.unwrap_or(session.tool_idle),
            total: self.total.unwrap_or(session.total),
        }
    }
}
