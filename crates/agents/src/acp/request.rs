//! PURE: the requests of a session and of its prompts.

use super::permission::{Policy, Rule};
use crate::harness::level::allow;
use crate::harness::limit::allowance::Allowance;
use crate::harness::turn::clock::ClockLimits;
use crate::harness::{AgentRequest, Provider};
use crate::model::Schema;
use ground::error::Error;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A session to open.
#[derive(Clone)]
pub struct OpenRequest {
    pub agent: AgentRequest,
    pub policy: Policy,
    /// Somebody answers what the rules leave open.
    pub has_handler: bool,
    /// For an answer of the handler; `None`: off.
    pub permission_timeout: Option<Duration>,
    pub servers: Vec<McpServer>,
    /// For how long nothing may go on behind a turn before it is over.
    pub settle: Duration,
    /// The longest wait for the end of a usage limit; zero: none.
    pub wait_for_reset: Duration,
}

impl OpenRequest {
    pub const PERMISSION_TIMEOUT: Duration = Duration::from_secs(300);
    pub const SETTLE: Duration = Duration::from_millis(500);

    pub fn new(provider: Provider) -> Self {
        Self::of(AgentRequest::new(provider))
    }

    pub fn of(agent: AgentRequest) -> Self {
        OpenRequest {
            agent,
            policy: Policy::default(),
            has_handler: false,
            permission_timeout: Some(Self::PERMISSION_TIMEOUT),
            servers: Vec::new(),
            settle: Self::SETTLE,
            wait_for_reset: Duration::ZERO,
        }
    }

    /// Adds a rule for each glob of the option `allow`, which has to be one that a turn takes too.
    pub fn allow_commands(&mut self, globs: Vec<String>) -> Result<(), Error> {
        allow::check(&globs, self.agent.level)?;
        let rule = |glob| Rule { command: Some(glob), ..Rule::default() };
        self.policy.allow.extend(globs.into_iter().map(rule));
        Ok(())
    }

    /// The session's budgets. `INVALID_OPTION` when its agent can't be held to them.
    pub(crate) fn allowance(&self) -> Result<Allowance, Error> {
        self.agent.allowance(self.agent.provider.protocol().accounting)
    }
}

/// A server of tools that the agent is given.
#[derive(Clone, Debug, PartialEq)]
pub enum McpServer {
    Http { name: String, url: String, headers: Vec<(String, String)> },
    Program { name: String, command: String, args: Vec<String>, env: Vec<(String, String)> },
}

impl McpServer {
    pub(super) fn is_http(&self) -> bool {
        matches!(self, McpServer::Http { .. })
    }

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

    pub(crate) fn limits(&self, session: &ClockLimits) -> ClockLimits {
        ClockLimits {
            // The session has started long ago.
            start: None,
            idle: self.idle.unwrap_or(session.idle),
            tool_idle: self.tool_idle.unwrap_or(session.tool_idle),
            total: self.total.unwrap_or(session.total),
        }
    }
}
