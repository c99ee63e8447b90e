//! Runs coding-agent CLIs as functions: a prompt in, events as they come, one answer or one typed error out.
//!
//! A turn is one or more attempts. An attempt is one process (capability `process`) whose stdout goes, chunk by chunk (`ear`),
//! through a [`Transcript`]: whole lines to the provider's [`Reader`](provider::Reader), which reports to a [`Digest`]. When the process is gone,
//! [`verdict`] weighs the agent's own end of turn against the process's end and the reason it was stopped for. Everything up
//! to there is PURE and is what [`replay`] runs over a recording.
//!
//! The owner task of a turn (`turn_owner`; [`turn`] is its handle) waits for a slot (`scheduler`), prepares an attempt
//! (`preparation`: `launch`, `install`, `folder`, `structured`) and runs it (`attempt`, with the decisions of one [`clock`]).
//! The next step is decided in `next`, and at a usage limit in `patience`. Its events go to an `audience`, and through it to an
//! [`EventSink`]; a slow sink slows the agent's pipe. A turn that is kept on record has a `turn_record`, which
//! [`replay_record`] reads again. Dropping the last handle of a turn aborts it.

mod agent_request;
pub(crate) mod allow;
pub(crate) mod allowance;
pub(crate) mod answer;
mod attempt;
pub(crate) mod audience;
mod background;
pub mod budget;
pub(crate) mod clip;
pub mod clock;
pub mod digest;
pub mod doctor;
mod ear;
mod escape;
pub mod event;
pub(crate) mod event_sink;
mod excerpt;
pub mod failure;
pub(crate) mod folder;
mod folder_owner;
pub(crate) mod glob;
mod grammar;
pub(crate) mod hold;
pub mod install;
pub mod json;
pub mod json_object;
pub mod launch;
mod ledger;
pub mod level;
mod mirror;
mod next;
pub(crate) mod own_place;
pub(crate) mod own_state;
pub mod package;
pub(crate) mod patience;
mod preparation;
pub mod provider;
mod recent;
pub mod replay;
pub mod replay_file;
pub mod replay_record;
pub mod request;
pub mod reset;
pub(crate) mod restraint;
pub mod scheduler;
pub mod session_files;
pub mod session_log;
mod session_place;
mod shell;
pub mod spending;
pub mod structured;
mod tally;
mod token;
pub mod transcript;
pub mod turn;
mod turn_log;
mod turn_owner;
pub(crate) mod turn_record;
pub(crate) mod usage_limit;
pub mod verdict;
pub(crate) mod workspace;

pub use agent_request::AgentRequest;
pub use budget::Budget;
pub use digest::Digest;
pub use event::{AgentErrorKind, AgentEvent, Usage};
pub use event_sink::{EventReader, EventSink};
pub use level::Level;
pub use mirror::Mirror;
pub use provider::Provider;
pub use replay::{Recording, Replay, replay};
pub use replay_file::{RecordedFiles, replay_files};
pub use replay_record::{RecordReplay, replay_folder, unfinished_by};
pub use request::TurnRequest;
pub use scheduler::ConcurrencyLimit;
pub use session_place::SessionPlace;
pub use transcript::Transcript;
pub use turn::{Turn, TurnOutcome, WeakTurn};
pub use turn_owner::start;
pub use workspace::AgentSandbox;
