//! PURE: one file per agent CLI. Each knows how its CLI is started ([`Provider::launch`]) and what it prints ([`Reader`]).
//!
//! A reader is a small state machine over lines. It trusts neither types nor order: a field of another type counts as
//! absent, an event of the provider that maps to nothing is passed over, and only what is no event of the provider at all
//! is noise. No reader ends a turn by itself: it reports the agent's end of turn to the [`Digest`], a later one replaces an
//! earlier one, and the verdict is made when the process is gone.

pub mod claude_code;
pub mod codex;
pub mod copilot_cli;
pub mod gemini;
mod message;
pub mod opencode;
pub mod pi;
pub mod qwen;

use super::digest::Digest;
use super::event::Usage;
use super::failure::Failure;
use super::json::Line;
use super::launch::{Launch, Wanted};
use crate::error::Error;
use message::{Messages, Style};

/// The agents that the harness can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
    Copilot,
    Qwen,
    Pi,
}

/// Reads what one CLI prints.
pub trait Reader: Send + Sync {
    /// Reports one line of stdout, a JSON object; `false`: it is no event of this provider.
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool;

    /// What the session has used over all its turns, where the CLI counts on: the next turn's `before`.
    fn counted(&self) -> Option<Usage> {
        None
    }

    /// What an exit code of this CLI means where its lines left it open.
    fn explain(&self, _exit_code: i32) -> Option<Failure> {
        None
    }
}

impl Provider {
    pub const ALL: [Provider; 7] = [
        Provider::ClaudeCode,
        Provider::Codex,
        Provider::Gemini,
        Provider::Opencode,
        Provider::Copilot,
        Provider::Qwen,
        Provider::Pi,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Provider::ClaudeCode => "claude-code",
            Provider::Codex => "codex",
            Provider::Gemini => "gemini",
            Provider::Opencode => "opencode",
            Provider::Copilot => "copilot",
            Provider::Qwen => "qwen",
            Provider::Pi => "pi",
        }
    }

    pub fn parse(name: &str) -> Result<Provider, Error> {
        Provider::ALL.into_iter().find(|provider| provider.as_str() == name).ok_or_else(|| {
            let names = Provider::ALL.map(Provider::as_str).join(", ");
            Error::invalid_option("provider", format!("no provider is named {name:?}; there are {names}"))
        })
    }

    /// The name of the program on PATH.
    pub fn program(self) -> &'static str {
        match self {
            Provider::ClaudeCode => "claude",
            Provider::Copilot => "copilot",
            other => other.as_str(),
        }
    }

    /// The command that installs it.
    pub fn install(self) -> &'static str {
        match self {
            Provider::ClaudeCode => "npm install -g @anthropic-ai/claude-code",
            Provider::Codex => "npm install -g @openai/codex",
            Provider::Gemini => "npm install -g @google/gemini-cli",
            Provider::Opencode => "npm install -g opencode-ai",
            Provider::Copilot => "npm install -g @github/copilot",
            Provider::Qwen => "npm install -g @qwen-code/qwen-code",
            Provider::Pi => "npm install -g @mariozechner/pi-coding-agent",
        }
    }

    /// A reader for one run. `before`: what the session had used when the turn began, for providers that count on.
    pub fn reader(self, before: Option<Usage>) -> Box<dyn Reader> {
        match self {
            Provider::ClaudeCode => Box::new(Messages::new(Style::Claude, before)),
            Provider::Codex => Box::new(codex::Codex::new(before)),
            Provider::Gemini => Box::new(gemini::Gemini),
            Provider::Opencode => Box::new(opencode::Opencode::default()),
            Provider::Copilot => Box::new(copilot_cli::Copilot::default()),
            Provider::Qwen => Box::new(Messages::new(Style::Qwen, before)),
            Provider::Pi => Box::new(pi::Pi::default()),
        }
    }

    /// How the CLI is started for a turn.
    pub fn launch(self, wanted: &Wanted) -> Result<Launch, Error> {
        match self {
            Provider::ClaudeCode => claude_code::launch(wanted),
            Provider::Codex => codex::launch(wanted),
            Provider::Gemini => gemini::launch(wanted),
            Provider::Opencode => opencode::launch(wanted),
            Provider::Copilot => copilot_cli::launch(wanted),
            Provider::Qwen => qwen::launch(wanted),
            Provider::Pi => pi::launch(wanted),
        }
    }
}
