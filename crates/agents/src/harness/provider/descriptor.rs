//! PURE: the facts about one agent CLI.

use super::protocol::Protocol;
use crate::harness::event::Usage;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::Words;
use crate::harness::launch::package::Program;
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::Modes;
use crate::harness::provider::session_log::SessionLog;
use crate::harness::spending::Accounting;
use ground::error::Error;
use ground::json::Line;
use serde_json::Value;
use std::path::Path;

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
    /// In a sandbox, a state folder of the run's own in place of one that holds configuration too: see `folder::state_folder`.
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
    /// Hosts that the CLI needs: its model's and its sign-in's. Without the others it works as well.
    pub hosts: &'static [&'static str],
    /// Variables whose value is the URL of another model server.
    pub base_urls: &'static [&'static str],
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

/// A CLI's state folder that holds configuration too: see `folder::state_folder`.
#[derive(Debug)]
pub struct OwnState {
    /// The variable that moves it.
    pub variable: &'static str,
    /// Path below the variable's folder.
    pub below: &'static str,
    /// Path of the real one, as in `Descriptor::state`.
    pub root: &'static str,
    /// Entries of the real one that may be written: folders end with `/` and are made, files are granted where they are there.
    pub written: &'static [&'static str],
    /// Entries that are not taken over: names, or what they begin with if that ends with `*`.
    pub anew: &'static [&'static str],
}

/// The files that a CLI writes for a session. By these files a session moves to another machine and is resumed there: see `travel`.
pub struct SessionFiles {
    /// The folder in which the CLI keeps its state, as in `Descriptor::state`.
    pub root: &'static str,
    pub patterns: &'static [&'static str],
    pub project: Project,
    /// The field of a session's lines that names the working directory, for a CLI that resumes only sessions of its own
    /// directory.
    pub own: Option<&'static str>,
}

/// The way in which a CLI names the folder of a working directory.
pub enum Project {
    /// Sessions are not separated by working directory.
    None,
    Named(fn(cwd: &str) -> String),
    /// A folder in here, whichever has this file with the working directory in it.
    Marked {
        parent: &'static str,
        marker: &'static str,
    },
}

/// Letters and digits stay, all else becomes `-`: how several CLIs name a folder after a path.
pub(crate) fn plain(path: &str) -> String {
    path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
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
