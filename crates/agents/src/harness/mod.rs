//! Runs coding-agent CLIs as functions: a prompt in, events as they come, one answer or one typed error out.
//!
//! A turn is one or more attempts. An attempt is one process (capability `process`) whose stdout goes, chunk by chunk
//! (`turn::output`), through a [`Transcript`]: whole lines to the provider's [`Reader`](provider::Reader), which reports to a
//! [`Digest`]. When the process is gone, [`verdict`] weighs the agent's own end of turn against the process's end and the reason
//! it was stopped for. Everything up to there is PURE (`evidence`, `provider`, `verdict`) and is what [`replay`](mod@replay) runs
//! over a recording.
//!
//! The owner task of a turn (`turn::owner`; [`Turn`] is its handle) waits for a slot (`limit::scheduler`) and has attempts made in
//! the `turn::way` of its agent. `turn::command` prepares each (`turn::preparation`, with `program`, `folder` and
//! `provider::restraint`) and runs it (`turn::attempt`, by the decisions of one `clock`); over ACP `acp` opens a session for each.
//! The next step is decided in `turn::next`, at a usage limit too. Its events go to an `audience`, and
//! through it to an [`EventSink`]; a slow sink slows the agent's pipe. A turn that is kept on record has a `turn::record`, which
//! `replay::record` reads again. Dropping the last handle of a turn aborts it.
//!
//! The rooms have an order, which `tests/layers` keeps. Below `provider` lie those that a CLI's descriptor is made of, above it
//! those that ask a provider for its facts.

mod agent_request;
pub mod budget;
pub(crate) mod clip;
pub mod clock;
pub mod event;
pub mod evidence;
pub(crate) mod folder;
pub mod launch;
pub mod level;
pub mod limit;
pub mod mcp_server;
pub mod program;
pub mod provider;
pub mod replay;
pub(crate) mod session_in_use;
pub mod spending;
pub mod travel;
pub mod turn;
pub mod verdict;

pub use agent_request::AgentRequest;
pub use event::sink::{EventReader, EventSink};
pub use event::{AgentErrorKind, AgentEvent, Usage};
pub use evidence::digest::Digest;
pub use folder::sandbox::AgentSandbox;

pub use budget::Budget;
pub use level::Level;
#[cfg(any(test, fuzzing))]
pub use level::fuzz_commands;
pub use limit::scheduler;
pub use limit::scheduler::{ConcurrencyLimit, Preparation};
pub use mcp_server::McpServer;
pub use program::{doctor, install};
pub use provider::hosts::needed_hosts;
pub use provider::{AgentTraits, Provider};
pub use replay::file::{RecordedFiles, replay_files};
pub use replay::record::{RecordReplay, replay_folder, unfinished_by};
pub use replay::{Recording, Replay, replay};
pub use travel::SessionPlace;
pub use turn::mirror::Mirror;
pub use turn::observer;
pub use turn::owner::start;
pub use turn::request::{self, TurnRequest};
pub use turn::{Turn, TurnOutcome, WeakTurn};
pub use verdict::transcript::Transcript;
