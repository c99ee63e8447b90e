//! The request of a turn, and its checks that need no process.

use crate::harness::agent_request::AgentRequest;
use crate::harness::budget::allowance::Allowance;
use crate::harness::event::Usage;
use crate::harness::level::Level;
use crate::harness::mcp_server::{self, McpServer};
use crate::harness::provider::restraint::check_switches;
use crate::harness::provider::{Descriptor, Provider};
use crate::model::Schema;
use ground::error::Error;
use ground::retry::RetryPolicy;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The treatment of work that an agent left running when it ended its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// The turn lasts until the work is done, within the time limits.
    #[default]
    Wait,
    /// The turn ends; a warning names the work.
    Leave,
}

/// A prompt for an agent, and how it is to be run. Its name, without one, is the head of the prompt.
#[derive(Clone)]
pub struct TurnRequest {
    pub agent: AgentRequest,
    pub prompt: String,
    pub cli_tools: Option<Vec<String>>,
    pub max_turns: Option<u64>,
    /// Globs of commands that "edit" may run.
    pub allow: Vec<String>,
    pub background: Background,
    pub schema: Option<Arc<Schema>>,
    pub retry: RetryPolicy,
    /// Whether a turn is repeated though a tool ran in it.
    pub retry_after_tools: bool,
    /// The longest wait for the end of a usage limit; zero: none.
    pub wait_for_reset: Duration,
    /// Paths of images that belong to the prompt, relative to its working directory.
    pub images: Vec<PathBuf>,
    pub mcp_servers: Vec<McpServer>,
    pub extra_args: Vec<String>,
    /// Whether somebody may listen to the events.
    pub has_listener: bool,
    /// Gets the tokens that the agent has told in passing, and that no event has told yet.
    pub in_passing: Option<Arc<watch::Sender<Usage>>>,
}

impl TurnRequest {
    pub const RETRY: RetryPolicy =
        RetryPolicy { attempts: 3, base_delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) };

    pub fn new(provider: Provider, prompt: impl Into<String>) -> Self {
        Self::of(AgentRequest::new(provider), prompt)
    }

    pub fn of(agent: AgentRequest, prompt: impl Into<String>) -> Self {
        TurnRequest {
            agent,
            prompt: prompt.into(),
            cli_tools: None,
            max_turns: None,
            allow: Vec::new(),
            background: Background::Wait,
            schema: None,
            retry: Self::RETRY,
            retry_after_tools: false,
            wait_for_reset: Duration::ZERO,
            images: Vec::new(),
            mcp_servers: Vec::new(),
            extra_args: Vec::new(),
            has_listener: false,
            in_passing: None,
        }
    }

    /// The turn's budgets. `INVALID_OPTION` when its CLI can't be held to them.
    pub(crate) fn allowance(&self) -> Result<Allowance, Error> {
        self.agent.allowance(self.agent.provider.descriptor().accounting)
    }

    /// Returns `INVALID_OPTION` for a request that no agent can serve.
    pub fn check(&self) -> Result<(), Error> {
        if self.prompt.trim().is_empty() {
            return Err(Error::invalid_option("prompt", "expected a prompt that is not empty"));
        }
        let texts = [
            ("prompt", Some(&self.prompt)),
            ("model", self.agent.model.as_ref()),
            ("systemPrompt", self.agent.system_prompt.as_ref()),
        ];
        for (path, text) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                return Err(Error::invalid_option(
                    path,
                    "contains a NUL character, which cannot be passed to a program",
                ));
            }
        }
        for (path, text) in [("resume", &self.agent.resume), ("model", &self.agent.model)] {
            if text.as_ref().is_some_and(|text| text.trim().is_empty() || text.starts_with('-')) {
                return Err(Error::invalid_option(
                    path,
                    "expected a name that is not empty and does not begin with \"-\"",
                ));
            }
        }
        if self
            .agent
            .system_prompt
            .as_ref()
            .is_some_and(|text| text.len() > crate::harness::launch::Wanted::MAX_ARGUMENT_BYTES)
        {
            return Err(Error::invalid_option(
                "systemPrompt",
                "is longer than 100000 bytes, the most that can be passed to the CLI",
            ));
        }
        self.check_extras()?;
        self.check_level()?;
        self.check_cwd()
    }

    /// Images and servers, for a CLI that takes them.
    fn check_extras(&self) -> Result<(), Error> {
        let provider = self.agent.provider;
        let descriptor = provider.descriptor();
        let refused = |option: &str, what: &str, takes: fn(&Descriptor) -> bool| {
            let others: Vec<&str> = Provider::ALL
                .into_iter()
                .filter(|other| takes(other.descriptor()))
                .map(Provider::as_str)
                .collect();
            let problem =
                format!("{} takes no {what} in a turn; {} can", provider.as_str(), others.join(", "));
            Error::invalid_option(option, problem)
        };
        if !self.images.is_empty() && descriptor.images.is_none() {
            return Err(refused("images", "images", |other| other.images.is_some()));
        }
        if !self.mcp_servers.is_empty() && !descriptor.takes_servers {
            return Err(refused("mcpServers", "MCP servers", |other| other.takes_servers));
        }
        mcp_server::check(&self.mcp_servers)
    }

    /// Nothing raises the level behind its user's back.
    fn check_level(&self) -> Result<(), Error> {
        if self.agent.level == Level::Ask {
            let problem =
                "\"ask\" is for sessions only, which can ask you: expected \"plan\", \"edit\" or \"auto\"";
            return Err(Error::invalid_option("permission", problem));
        }
        crate::harness::level::allow::check(&self.allow, self.agent.level)?;
        check_switches(self.agent.provider, self.agent.level, &self.agent.environment.changes)
    }

    /// An agent that may write is no use where it can't. What is not there at all is told by the start itself.
    fn check_cwd(&self) -> Result<(), Error> {
        let Some(cwd) = self.agent.cwd.as_ref().filter(|cwd| self.agent.level != Level::Plan && cwd.is_dir())
        else {
            return Ok(());
        };
        if ground::os::can_write(cwd) {
            return Ok(());
        }
        let problem = format!(
            "the agent cannot write to {}: choose another folder, or use permission: \"plan\" for reading only",
            cwd.display()
        );
        Err(Error::invalid_option("cwd", problem))
    }

    /// The turn's display name: its name, or the head of its prompt.
    pub fn label(&self) -> String {
        const MAX_CHARACTERS: usize = 80;
        let words: String = self.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let head = || match words.char_indices().nth(MAX_CHARACTERS) {
            Some((end, _)) => format!("{}…", &words[..end]),
            None => words.clone(),
        };
        self.agent.name.clone().unwrap_or_else(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut TurnRequest)) -> String {
        let mut request = TurnRequest::new(Provider::Codex, "hi");
        change(&mut request);
        request.check().map_or_else(|error| error.message().to_owned(), |()| String::new())
    }

    #[test]
    fn what_no_agent_can_be_asked_is_refused_by_its_path() {
        assert_eq!(problem(|_| {}), "");
        assert!(problem(|request| request.prompt = " \n".into()).starts_with("prompt: "));
        assert!(problem(|request| request.prompt = "a\0b".into()).starts_with("prompt: contains a NUL"));
        assert!(problem(|request| request.agent.resume = Some("--last".into())).starts_with("resume: "));
        assert!(problem(|request| request.agent.model = Some(String::new())).starts_with("model: "));
        assert_eq!(problem(|request| request.prompt = "-rf is a flag".into()), "");
    }

    #[test]
    fn what_a_cli_does_not_take_is_refused_and_names_those_that_do() {
        let image = |request: &mut TurnRequest| request.images = vec!["a.png".into()];
        assert_eq!(problem(image), "");
        let refused = problem(|request| {
            request.agent.provider = Provider::Gemini;
            image(request);
        });
        assert_eq!(
            refused,
            "images: gemini takes no images in a turn; claude-code, codex, opencode, copilot, qwen, pi can"
        );
        let refused = problem(|request| {
            request.agent.provider = Provider::Pi;
            let (name, url) = ("web".into(), "http://127.0.0.1:1".into());
            request.mcp_servers = vec![McpServer::Http { name, url, headers: Vec::new() }];
        });
        assert_eq!(
            refused,
            "mcpServers: pi takes no MCP servers in a turn; claude-code, codex, opencode, copilot, qwen can"
        );
    }

    #[test]
    fn a_folder_that_can_be_written_to_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(problem(|request| request.agent.cwd = Some(folder.path().into())), "");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the check leaves nothing behind");
    }
}
