//! PURE: the differences between the agents that speak the protocol.

use super::agent_log::{AgentLog, COPILOT_LOG, PI_LOG};
use crate::harness::Provider;
use crate::harness::level::restraint::mode_of;
use crate::harness::level::{Level, Mode};
use crate::harness::limit::spending::{Accounting, CachedInput};
use ground::error::Error;

/// A piece of text that begins and ends so is no answer of the model's.
pub(crate) struct Aside {
    pub begin: &'static str,
    pub end: &'static str,
    /// The model is asked again: what it said so far is no part of the answer.
    pub is_retry: bool,
}

const fn aside(begin: &'static str, end: &'static str) -> Aside {
    Aside { begin, end, is_retry: false }
}

const fn retry(begin: &'static str, end: &'static str) -> Aside {
    Aside { begin, end, is_retry: true }
}

/// One agent, as this protocol sees it.
pub(crate) struct Agent {
    pub provider: Provider,
    /// The program that speaks it, where it is not the agent's own.
    pub program: Option<&'static str>,
    pub args: &'static [&'static str],
    /// The flag that names a model, where it is not an option of the session.
    pub model_flag: Option<&'static str>,
    /// The npm package, with its version.
    pub package: &'static str,
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
    /// The usage that the agent reports, which decides the budgets that it can be held to.
    pub accounting: Accounting,
}

const AGENTS: [Agent; 8] = [
    Agent {
        provider: Provider::ClaudeCode,
        accounting: Accounting::TokensAndMoney(CachedInput::Beside),
        program: Some("claude-agent-acp"),
        package: "@agentclientprotocol/claude-agent-acp@0.100.0",
        ..PLAIN
    },
    Agent {
        provider: Provider::Codex,
        accounting: Accounting::Tokens(CachedInput::Beside),
        program: Some("codex-acp"),
        package: "@agentclientprotocol/codex-acp@2.6.0",
        tells_usage: true,
        ..PLAIN
    },
    Agent {
        provider: Provider::Gemini,
        accounting: Accounting::Tokens(CachedInput::Within),
        args: &["--acp"],
        model_flag: Some("--model"),
        package: "@google/gemini-cli@0.61.0",
        // It refuses its freer modes in a folder that was not trusted on a terminal before; and its launcher heeds no signal.
        set: &[("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true")],
        forgets_young: true,
        ..PLAIN
    },
    Agent {
        provider: Provider::Opencode,
        accounting: Accounting::Tokens(CachedInput::Beside),
        args: &["acp"],
        package: "opencode-ai@1.18.33",
        ..PLAIN
    },
    Agent {
        provider: Provider::Copilot,
        accounting: Accounting::Tokens(CachedInput::Within),
        args: &["--acp"],
        model_flag: Some("--model"),
        package: "@github/copilot@1.0.102",
        tells_usage: true,
        error_prefix: Some("Error: "),
        asides: &[
            retry("Info: Request failed due to ", "Retrying..."),
            aside("Info: Operation cancelled by user", ""),
        ],
        log: Some(&COPILOT_LOG),
        counts_on: true,
        ..PLAIN
    },
    Agent {
        provider: Provider::Qwen,
        accounting: Accounting::Tokens(CachedInput::Within),
        args: &["--acp"],
        model_flag: Some("--model"),
        package: "@qwen-code/qwen-code@0.24.4",
        // Else it prompts its model before it knows the tools that it was given.
        set: &[("QWEN_CODE_LEGACY_MCP_BLOCKING", "1")],
        ..PLAIN
    },
    Agent {
        provider: Provider::Pi,
        program: Some("pi-acp"),
        package: "pi-acp@0.0.34 @earendil-works/pi-coding-agent@0.87.1",
        asides: &[
            aside("pi v", "---"),
            retry("Retrying (attempt ", "s)..."),
            retry("Retrying...", ""),
            aside("Retry finished, resuming.", ""),
            aside("Context nearing limit, running automatic compaction...", ""),
            aside("Automatic compaction finished; ", "continue the session."),
        ],
        log: Some(&PI_LOG),
        lacks_tools: true,
        ..PLAIN
    },
    Agent { provider: Provider::Kimi, args: &["acp"], package: "@moonshot-ai/kimi-code@2.1.0", ..PLAIN },
];

const PLAIN: Agent = Agent {
    provider: Provider::Pi,
    program: None,
    args: &[],
    model_flag: None,
    package: "",
    set: &[],
    tells_usage: false,
    error_prefix: None,
    asides: &[],
    log: None,
    forgets_young: false,
    counts_on: false,
    accounting: Accounting::Nothing,
    lacks_tools: false,
};

impl Agent {
    pub(crate) fn of(provider: Provider) -> &'static Agent {
        AGENTS.iter().find(|agent| agent.provider == provider).unwrap_or(&AGENTS[0])
    }

    pub(crate) fn name(&self) -> &'static str {
        self.provider.as_str()
    }

    /// The name of the program on PATH.
    pub(crate) fn program(&self) -> &'static str {
        self.program.unwrap_or_else(|| self.provider.descriptor().program)
    }

    /// The command that installs it.
    pub(crate) fn install(&self) -> String {
        format!("npm install -g {}", self.package)
    }

    /// This text, if it is no answer of its model's.
    pub(crate) fn aside(&self, text: &str) -> Option<&'static Aside> {
        let text = text.trim();
        let is_it = |aside: &&Aside| match aside.end {
            "" => text == aside.begin,
            end => text.starts_with(aside.begin) && text.ends_with(end),
        };
        self.asides.iter().find(is_it)
    }

    /// The error of an agent that can't be held to this level, with the ways out.
    pub(crate) fn unheld(&self, level: Level, is_sandboxed: bool) -> Error {
        let held = self.mode(level, false).is_some();
        let (place, why) = match is_sandboxed && held {
            true => (
                " in a sandbox",
                "its own sandbox can't be put up in another one. Leave `sandbox` out, or run turns (`harness.run`), which can be held there",
            ),
            false if self.mode(Level::Ask, is_sandboxed).is_some() => (
                "",
                "its questions don't name the file that it writes. Ask for \"ask\", with `onPermission`, or for \"plan\"",
            ),
            false if is_sandboxed => (
                "",
                "it never asks. Ask for \"auto\" by name: the sandbox holds it then, or run turns (`harness.run`)",
            ),
            false => (
                "",
                "it never asks. Ask for \"auto\" by name, with `sandbox: \"workspace\"` so that the kernel holds it, or run turns (`harness.run`)",
            ),
        };
        let problem =
            format!("{} can't be held to {:?} over this protocol{place}: {why}", self.name(), level.as_str());
        Error::invalid_option("permission", problem)
    }

    /// The mode that holds the agent to this level; `None` if it can't be held to it.
    pub(crate) fn mode(&self, level: Level, is_sandboxed: bool) -> Option<&'static Mode> {
        mode_of(self.provider, level, is_sandboxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_row_of_its_own() {
        for provider in Provider::ALL {
            let agent = Agent::of(provider);
            assert_eq!(agent.provider, provider);
            assert!(agent.package.contains('@') && !agent.program().is_empty());
            assert!(agent.mode(Level::Auto, false).is_some(), "{provider:?}");
        }
    }

    #[test]
    fn what_an_agent_says_of_itself_is_no_answer() {
        let found = |provider, text| Agent::of(provider).aside(text).map(|aside| aside.is_retry);
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

    #[test]
    fn pi_never_asks_and_so_holds_one_level() {
        let pi = Agent::of(Provider::Pi);
        assert!([Level::Plan, Level::Edit, Level::Ask].iter().all(|level| pi.mode(*level, false).is_none()));
    }

    #[test]
    fn a_mode_that_does_more_than_edit_is_not_taken_for_it() {
        for provider in [Provider::ClaudeCode, Provider::Qwen] {
            assert_eq!(Agent::of(provider).mode(Level::Edit, false).map(|mode| mode.id), Some("default"));
        }
    }

    #[test]
    fn codex_holds_no_level_of_a_session_within_a_sandbox() {
        let codex = Agent::of(Provider::Codex);
        let id = |level, is_sandboxed| codex.mode(level, is_sandboxed).map(|mode| mode.id);
        assert_eq!(id(Level::Edit, false), Some("workspace-write"));
        for level in [Level::Plan, Level::Edit, Level::Ask] {
            assert_eq!(
                id(level, true),
                None,
                "its own sandbox fails inside of ours, and the network is open"
            );
        }
        assert_eq!(id(Level::Auto, true), Some("agent-full-access"));
    }
}
