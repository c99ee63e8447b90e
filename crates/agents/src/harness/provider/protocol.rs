//! PURE: how an agent CLI speaks the Agent Client Protocol, as far as it differs from the other CLIs.

use crate::harness::launch::Launch;
use crate::harness::mcp_server::{McpServer, Replaced};
use crate::harness::spending::Accounting;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A version of Node: major and minor.
pub(crate) type NodeVersion = (u32, u32);

/// How one CLI speaks the Agent Client Protocol.
pub struct Protocol {
    /// Name of the program that speaks it, where it is not the CLI itself.
    pub program: Option<&'static str>,
    pub args: &'static [&'static str],
    /// Flag that names a model, where the model is not an option of the session.
    pub model_flag: Option<&'static str>,
    /// The npm package, with its version; empty where it is unknown.
    pub package: &'static str,
    /// The oldest Node that its programs work with, where Sheepdog's own oldest is not enough.
    pub node: Option<NodeVersion>,
    /// Environment variables that are set unless the caller sets the same name.
    pub set: &'static [(&'static str, &'static str)],
    /// A good end always reports its tokens, so one without them hides an error.
    pub tells_usage: bool,
    /// With `tells_usage`: an end without tokens is an error only if the last piece of its text begins so.
    pub error_prefix: Option<&'static str>,
    /// Messages of the agent itself that it sends as if they were answers.
    pub asides: &'static [Aside],
    /// The log that alone reports reliably that the agent's model failed.
    pub log: Option<&'static AgentLog>,
    /// Resuming a session in the minute in which it began would empty it.
    pub forgets_young: bool,
    /// The tokens reported for a turn are those of the whole session so far.
    pub counts_on: bool,
    /// The agent does not support MCP servers over HTTP.
    pub lacks_tools: bool,
    /// Gives the agent servers that are programs by its command line: it starts none that the request of a session names.
    pub(crate) give_programs: Option<fn(&[McpServer], &mut Launch)>,
    /// Values of servers in which it replaces names of variables.
    pub(crate) replaced: Replaced,
    /// The usage that the agent reports over this protocol, which decides the budgets that it can be held to.
    pub accounting: Accounting,
}

impl Protocol {
    /// An agent without peculiarities, in this package.
    pub(super) const fn plain(package: &'static str, accounting: Accounting) -> Protocol {
        Protocol {
            program: None,
            args: &[],
            model_flag: None,
            package,
            node: None,
            set: &[],
            tells_usage: false,
            error_prefix: None,
            asides: &[],
            log: None,
            forgets_young: false,
            counts_on: false,
            lacks_tools: false,
            give_programs: None,
            replaced: Replaced::Nothing,
            accounting,
        }
    }

    /// Whether the server goes by the command line, and not by the request of a session.
    pub(crate) fn is_by_command_line(&self, server: &McpServer) -> bool {
        self.give_programs.is_some() && matches!(server, McpServer::Program { .. })
    }

    /// The command that installs it; empty where that is unknown.
    pub(crate) fn install(&self) -> String {
        if self.package.is_empty() { String::new() } else { format!("npm install -g {}", self.package) }
    }

    /// The advice to install the known version, as the end of a message; empty where there is none.
    pub(crate) fn advice(&self) -> String {
        if self.package.is_empty() { String::new() } else { format!(": install {}", self.package) }
    }

    /// The row that matches this text, if the text is no answer of the agent's model.
    pub(crate) fn aside(&self, text: &str) -> Option<&'static Aside> {
        let text = text.trim();
        let is_it = |aside: &&Aside| match aside.end {
            "" => text == aside.begin,
            end => text.starts_with(aside.begin) && text.ends_with(end),
        };
        self.asides.iter().find(is_it)
    }
}

/// A piece of text that begins and ends so is no answer of the model's.
pub struct Aside {
    pub begin: &'static str,
    pub end: &'static str,
    /// The model is asked again: what it said so far is no part of the answer.
    pub is_retry: bool,
}

pub(super) const fn aside(begin: &'static str, end: &'static str) -> Aside {
    Aside { begin, end, is_retry: false }
}

pub(super) const fn retry(begin: &'static str, end: &'static str) -> Aside {
    Aside { begin, end, is_retry: true }
}

/// A session's log with one JSON object per line, which the agent writes.
pub struct AgentLog {
    /// The folder of logs.
    pub place: &'static str,
    /// The file of a session in that folder.
    pub file: fn(&Path, &str) -> Option<PathBuf>,
    /// Finds the last turn's result in the end of the log.
    pub told: fn(&str) -> Option<Logged>,
}

/// The result of a turn in a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Logged {
    /// The model failed, in these words.
    Failed(String),
    /// The answer was cut at the model's longest.
    Cut,
}

impl Logged {
    pub(super) fn failed(message: &Value) -> Logged {
        Logged::Failed(message.as_str().unwrap_or("its model failed").to_owned())
    }
}

/// The last line of a log that is meant.
pub(super) fn last_line_of(log: &str, is_meant: impl Fn(&Value) -> bool) -> Option<Value> {
    log.lines().rev().filter_map(|line| ground::json::read::<Value>(line).ok()).find(is_meant)
}

#[cfg(test)]
mod tests {
    use super::super::Provider;

    #[test]
    fn every_provider_has_a_package_with_a_version() {
        for provider in Provider::ALL {
            assert!(provider.protocol().package.contains('@') && !provider.protocol_program().is_empty());
        }
    }

    #[test]
    fn what_an_agent_says_of_itself_is_no_answer() {
        let found = |provider: Provider, text| provider.protocol().aside(text).map(|aside| aside.is_retry);
        let cases = [
            (Provider::Pi, "pi v0.87.1\n---\n", Some(false)),
            (Provider::Pi, "pi values", None),
            (Provider::Gemini, "pi v0.87.1\n---\n", None),
            (Provider::Pi, "Retrying (attempt 1/3, waiting 2s)...", Some(true)),
            (Provider::Pi, "Retrying...", Some(true)),
            (Provider::Pi, "Retrying... the test", None),
            (Provider::Pi, "Retry finished, resuming.", Some(false)),
            (Provider::Copilot, "Info: Request failed due to a transient API error. Retrying...", Some(true)),
            (Provider::Copilot, "Info: Operation cancelled by user", Some(false)),
        ];
        for (provider, text, expected) in cases {
            assert_eq!(found(provider, text), expected, "{provider:?} {text}");
        }
    }
}
