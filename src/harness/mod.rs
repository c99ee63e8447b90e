//! Runs coding-agent CLIs as functions: a prompt in, events as they come, one answer or one typed error out.
//!
//! A turn is one or more attempts. An attempt is one process (capability `process`) whose stdout goes, chunk by chunk, through
//! a [`Transcript`]: whole lines to the provider's [`Reader`](provider::Reader), which reports to a [`Digest`]. When the process is gone,
//! [`verdict`] weighs the agent's own end of turn against the process's end and the reason it was stopped for. Everything up
//! to there is PURE and is what [`replay`] runs over a recording.

pub mod digest;
pub mod event;
pub mod failure;
mod json;
pub mod launch;
pub mod provider;
pub mod replay;
pub mod transcript;
pub mod verdict;

pub use digest::Digest;
pub use event::{AgentEvent, ErrorKind, Usage};
pub use provider::Provider;
pub use replay::{Recording, Replay, replay};
pub use transcript::Transcript;
