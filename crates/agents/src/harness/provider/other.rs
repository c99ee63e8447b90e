//! Agents that this package does not know by name: any program that speaks the Agent Client Protocol.
//!
//! Descriptors live as long as the process, so an agent that was described once is found again by its description.
//! There is an upper bound, because names come from callers.

use super::descriptor::{Descriptor, Reader, SessionPolicy};
use super::protocol::Protocol;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::Words;
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{AUTO_ALONE, Level, Mode, Modes};
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use ground::json::Line;
use ground::lock::lock;
use std::fmt::{Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

/// Most agents that one process can describe.
const MAX_AGENTS: usize = 1000;
const MAX_NAME_BYTES: usize = 64;

/// The description of an agent, apart from its command and environment, which belong to each request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentTraits {
    pub name: String,
    /// Paths that the agent writes wherever it works, as [`Descriptor::state`] has them.
    pub state: Vec<String>,
    /// Ids of the agent's own modes that hold the levels "plan", "edit", "ask" and "auto".
    pub modes: [Option<String>; 4],
    /// Its answer to a prompt has the tokens that the prompt used.
    pub reports_usage: bool,
}

/// An agent that was described.
pub struct OtherAgent {
    traits: AgentTraits,
    pub(super) descriptor: Descriptor,
}

impl OtherAgent {
    pub fn name(&self) -> &str {
        &self.traits.name
    }
}

impl PartialEq for OtherAgent {
    fn eq(&self, other: &Self) -> bool {
        self.traits == other.traits
    }
}

impl Eq for OtherAgent {}

impl Hash for OtherAgent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.traits.hash(state);
    }
}

impl Debug for OtherAgent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        self.traits.fmt(formatter)
    }
}

static DESCRIBED: Mutex<Vec<&'static OtherAgent>> = Mutex::new(Vec::new());

/// The agent with this description. `INVALID_OPTION` for a name that can't be part of a file name.
pub(super) fn described(traits: AgentTraits) -> Result<&'static OtherAgent, Error> {
    check_name(&traits.name)?;
    let mut described = lock(&DESCRIBED);
    if let Some(known) = described.iter().find(|known| known.traits == traits) {
        return Ok(known);
    }
    if described.len() >= MAX_AGENTS {
        let problem = format!(
            "{MAX_AGENTS} different agents were described in this process: put what differs between them into `args` or `env`"
        );
        return Err(Error::invalid_option("provider", problem));
    }
    let descriptor = descriptor(&traits);
    let agent: &'static OtherAgent = Box::leak(Box::new(OtherAgent { traits, descriptor }));
    described.push(agent);
    Ok(agent)
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > MAX_NAME_BYTES
        || !name.chars().all(is_usual)
        || name.starts_with(['-', '.'])
    {
        let problem = format!(
            "invalid name {name:?}: expected 1 to {MAX_NAME_BYTES} letters, digits, \"-\", \"_\" and \".\", the first of them a letter, a digit or \"_\""
        );
        return Err(Error::invalid_option("provider.name", problem));
    }
    Ok(())
}

fn descriptor(traits: &AgentTraits) -> Descriptor {
    let name = kept(&traits.name);
    let state: Vec<&'static str> = traits.state.iter().map(|path| kept(path)).collect();
    let ids: [Option<&'static str>; 4] =
        std::array::from_fn(|level| traits.modes[level].as_deref().map(kept));
    let named: Modes = ids.map(|id| id.and_then(Mode::named));
    // Everything is allowed without being asked: no mode is needed for that.
    let auto = Level::Auto as usize;
    let mut modes = named;
    modes[auto] = Mode::named(ids[auto].unwrap_or_default());
    let accounting =
        if traits.reports_usage { Accounting::Tokens(CachedInput::Beside) } else { Accounting::Nothing };
    Descriptor {
        title: name,
        program: name,
        modes,
        // The kernel holds the level there, and the agent's questions are answered by it.
        modes_in_sandbox: Some(ids.map(|id| Mode::named(id.unwrap_or_default()))),
        state: Vec::leak(state),
        takes_servers: true,
        accounting,
        base_urls: &["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"],
        account: &["HOME"],
        protocol: Protocol::plain("", accounting),
        ..PLAIN
    }
}

/// An agent of which nothing is known. The others say what they have besides.
pub(super) const PLAIN: Descriptor = Descriptor {
    title: "",
    program: "",
    install: "",
    launch,
    hold,
    modes: AUTO_ALONE,
    modes_in_sandbox: None,
    switches: &[],
    reads: &[],
    state: &[],
    own_state: None,
    reader: |_| Box::new(NoReader),
    behind_launcher: None,
    takes_schema: |_| false,
    images: None,
    takes_servers: false,
    session: SessionPolicy::Told,
    accounting: Accounting::Nothing,
    hosts: &[],
    base_urls: &[],
    account: &[],
    session_log: None,
    session_files: None,
    exits_early: false,
    words: &Words::NONE,
    protocol: Protocol::plain("", Accounting::Nothing),
};

fn kept(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

/// Turns of these agents go over the protocol, see `acp::turn`.
fn launch(_: &Wanted) -> Result<Launch, Error> {
    Err(Error::invalid_option("provider", "this agent runs over the Agent Client Protocol alone"))
}

fn hold(_: &Wanted, _: &mut Launch) -> Result<(), Error> {
    Ok(())
}

struct NoReader;

impl Reader for NoReader {
    fn line(&mut self, _: Line, _: &mut Digest) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Provider;
    use super::*;
    use crate::harness::provider::restraint::mode_of;

    fn traits(name: &str) -> AgentTraits {
        AgentTraits { name: name.to_owned(), ..AgentTraits::default() }
    }

    #[test]
    fn an_agent_is_the_same_for_the_same_description() {
        let goose = Provider::other(traits("goose")).unwrap();
        assert_eq!(goose, Provider::other(traits("goose")).unwrap());
        assert_eq!(goose.as_str(), "goose");
        let other = AgentTraits { state: vec!["~/.goose".into()], ..traits("goose") };
        assert_ne!(goose, Provider::other(other).unwrap());
    }

    #[test]
    fn a_name_is_a_name_and_not_one_of_ours() {
        for name in ["", "a b", "a/b", "codex", "-x", "..", &"x".repeat(65)] {
            let error = Provider::other(traits(name)).unwrap_err();
            assert!(error.message().starts_with("provider.name: "), "{name}: {}", error.message());
        }
    }

    #[test]
    fn a_level_needs_the_sandbox_or_a_mode_that_its_user_names() {
        let id = |agent, level, inside| mode_of(agent, level, inside).map(|mode| mode.id);
        let plain = Provider::other(traits("held-by-nothing")).unwrap();
        for level in [Level::Plan, Level::Edit, Level::Ask] {
            assert_eq!(id(plain, level, false), None);
            assert_eq!(id(plain, level, true), Some(""));
        }
        assert_eq!(id(plain, Level::Auto, false), Some(""));
        let modes = [Some("plan".into()), None, Some("ask".into()), Some("yolo".into())];
        let moded = Provider::other(AgentTraits { modes, ..traits("held-by-modes") }).unwrap();
        assert_eq!(
            Level::ALL.map(|level| id(moded, level, false)),
            [Some("plan"), None, Some("ask"), Some("yolo")]
        );
        assert_eq!(
            Level::ALL.map(|level| id(moded, level, true)),
            [Some("plan"), Some(""), Some("ask"), Some("yolo")]
        );
    }
}
