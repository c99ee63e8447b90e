//! PURE: one file per agent CLI, which holds the CLI's [`Descriptor`]: everything that the harness knows about it.
//!
//! A provider is added by its file, its line in the list below and recordings of it in fixtures/streams: names, types, help
//! texts, the doctor, the tables of docs/agents.md and the tests follow from these.
//!
//! A reader is a small state machine over lines. It trusts neither types nor order: a field of another type counts as
//! absent, an event of the provider that maps to nothing is passed over, and only what is no event of the provider at all
//! is noise. No reader ends a turn by itself: it reports the agent's end of turn to the [`Digest`], a later one replaces an
//! earlier one, and the verdict is made when the process is gone.

mod claude_code;
mod codex;
mod codex_servers;
mod copilot_cli;
mod gemini;
mod kimi;
mod message;
mod message_usage;
mod opencode;
mod other;
mod pi;
pub mod protocol;
mod qwen;

use crate::harness::event::Usage;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::Words;
use crate::harness::folder::state_layout::OwnState;
use crate::harness::json::Line;
use crate::harness::level::Modes;
use crate::harness::limit::session_log::SessionLog;
use crate::harness::limit::spending::Accounting;
use crate::harness::program::launch::{Launch, Wanted};
use crate::harness::program::package::Program;
use crate::harness::travel::files::SessionFiles;
use ground::error::Error;
pub use other::{AgentTraits, OtherAgent};
use protocol::Protocol;
use serde_json::Value;
use std::path::Path;

/// The list: variant, file, name.
#[macro_export]
macro_rules! each_provider {
    ($make:ident) => {
        $make! {
            ClaudeCode = claude_code "claude-code",
            Codex = codex "codex",
            Gemini = gemini "gemini",
            Opencode = opencode "opencode",
            Copilot = copilot_cli "copilot",
            Qwen = qwen "qwen",
            Pi = pi "pi",
            Kimi = kimi "kimi",
        }
    };
}

macro_rules! providers {
    ($($variant:ident = $file:ident $name:literal,)*) => {
        /// The agents that the harness can run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Provider {
            $($variant,)*
            /// An agent that this package does not know by name.
            Other(&'static OtherAgent),
        }

        impl Provider {
            /// The agents that are known by name.
            pub const ALL: [Provider; [$($name),*].len()] = [$(Provider::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Provider::$variant => $name,)*
                    Provider::Other(agent) => agent.name(),
                }
            }

            /// Everything that the harness knows about this CLI.
            pub fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Provider::$variant => &$file::DESCRIPTOR,)*
                    Provider::Other(agent) => &agent.descriptor,
                }
            }
        }
    };
}
each_provider!(providers);

/// Everything that the harness knows about one agent CLI.
pub struct Descriptor {
    /// Name of the CLI as its makers write it.
    pub title: &'static str,
    /// The name of the program on PATH.
    pub program: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// Makes the launch of a turn.
    pub launch: fn(&Wanted) -> Result<Launch, Error>,
    /// Holds a turn to its level by the CLI's own means, or says why it can't be held.
    pub hold: fn(&Wanted, &mut Launch) -> Result<(), Error>,
    /// Modes that hold a session over the Agent Client Protocol to its level.
    pub modes: Modes,
    /// Modes in our sandbox, if the CLI's own means fail inside of it.
    pub modes_in_sandbox: Option<Modes>,
    /// Variables that would let the CLI do more than a level below "auto" allows.
    pub switches: &'static [&'static str],
    /// Environment variables that the launch reads.
    pub reads: &'static [&'static str],
    /// State files that the CLI must be able to write in any working directory: see `workspace`.
    pub state: &'static [&'static str],
    /// In a sandbox, a state folder of the run's own in place of one that holds configuration too: see `own_place`.
    pub own_state: Option<OwnState>,
    /// A reader for one run. `before`: what the session had used when the turn began, for CLIs that count on.
    pub reader: fn(before: Option<Usage>) -> Box<dyn Reader>,
    /// The agent itself, where the file on PATH is known to be only its launcher.
    pub behind_launcher: Option<fn(&Path) -> Option<Program>>,
    /// Whether it takes this schema by a flag of its own.
    pub takes_schema: fn(&Value) -> bool,
    /// The way that images of a prompt go to the CLI, if it takes them in a turn.
    pub images: Option<Images>,
    /// Whether a turn can be given MCP servers.
    pub takes_servers: bool,
    pub session: SessionPolicy,
    /// The usage that the CLI reports, which decides the budgets that it can be held to.
    pub accounting: Accounting,
    /// The variables, besides HOME, that decide the account that the CLI works on.
    pub account: &'static [&'static str],
    /// Log in which the CLI keeps a session's usage, if it counts on over a session's turns.
    pub session_log: Option<&'static SessionLog>,
    /// Files that the CLI writes for a session, if they can be taken to another machine.
    pub session_files: Option<&'static SessionFiles>,
    /// The CLI exits before its last lines are through the pipe. They are lost if the pipe has no room for them.
    pub exits_early: bool,
    /// Phrases that the CLI uses for failures.
    pub words: &'static Words,
    /// How the CLI runs sessions, over the Agent Client Protocol. The fields above describe it as a program for one turn.
    pub protocol: Protocol,
}

/// The way that images of a prompt go to a CLI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Images {
    /// The CLI reads the files.
    ByPath,
    /// Within the prompt, which is a message in JSON on stdin.
    ByMessage,
}

/// The origin of session ids.
pub enum SessionPolicy {
    /// The CLI reports the id of a new session at its start.
    Told,
    /// The CLI reports the id only at its end, and accepts an id that is chosen for it.
    Chosen,
    /// Like [`SessionPolicy::Told`], but the beginning of an id is enough to find the session.
    ByPrefix,
}

/// Reads what one CLI prints.
pub trait Reader: Send + Sync {
    /// Reports one line of stdout, a JSON object; `false`: it is no event of this provider.
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool;

    /// Usage of the session over all its turns, for CLIs that count on. It is the next turn's `before`.
    fn counted(&self) -> Option<Usage> {
        None
    }
}

impl Provider {
    /// How sessions of this CLI are run.
    pub(crate) fn protocol(self) -> &'static Protocol {
        &self.descriptor().protocol
    }

    /// Name on PATH of the program that speaks the protocol.
    pub(crate) fn protocol_program(self) -> &'static str {
        self.protocol().program.unwrap_or(self.descriptor().program)
    }

    pub fn parse(name: &str) -> Result<Provider, Error> {
        Provider::ALL.into_iter().find(|provider| provider.as_str() == name).ok_or_else(|| {
            let names = Provider::ALL.map(Provider::as_str).join(", ");
            Error::invalid_option("provider", format!("no provider is named {name:?}; there are {names}"))
        })
    }

    /// Whether the session that was reported is the one that was asked for.
    pub(crate) fn is_same_session(self, asked: &str, reported: &str) -> bool {
        let (asked, reported) = (asked.trim().to_ascii_lowercase(), reported.to_ascii_lowercase());
        let by_prefix = matches!(self.descriptor().session, SessionPolicy::ByPrefix);
        asked == reported || (by_prefix && asked.len() >= 4 && reported.starts_with(&asked))
    }
}

/// For CLIs that have no flag for a schema.
fn no_schema(_: &Value) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_its_whole_id_or_where_the_cli_does_so_by_its_beginning() {
        assert!(Provider::Codex.is_same_session(" ABC-1", "abc-1"));
        assert!(!Provider::Codex.is_same_session("abcd", "abcd-1"));
        assert!(Provider::Pi.is_same_session("abcd", "abcd-1"));
        assert!(!Provider::Pi.is_same_session("abc", "abcd-1"), "too short to tell one from another");
    }
}
