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
mod descriptor;
mod gemini;
pub mod hosts;
mod kimi;
mod message;
mod message_usage;
mod opencode;
mod other;
mod pi;
pub(crate) mod place;
pub mod protocol;
mod qwen;
pub(crate) mod restraint;
mod schema_argument;
pub mod session_log;

pub(crate) use descriptor::plain;
pub use descriptor::{Descriptor, Images, OwnState, Project, Reader, SessionFiles, SessionPolicy};
use ground::error::Error;
use other::described;
pub use other::{AgentTraits, OtherAgent};
use protocol::Protocol;

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

impl Provider {
    /// The agent with this description.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a name that is a provider's own, or that can't be part of a file name.
    pub fn other(traits: AgentTraits) -> Result<Provider, Error> {
        let name = &traits.name;
        if Provider::ALL.into_iter().any(|known| known.as_str() == name) {
            let problem = format!(
                "{name:?} is the name of a provider of this package: pass {name:?} itself, or choose another name"
            );
            return Err(Error::invalid_option("provider.name", problem));
        }
        described(traits).map(Provider::Other)
    }

    /// Whether it is an agent that this package does not know by name.
    pub fn is_other(self) -> bool {
        matches!(self, Provider::Other(_))
    }

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
