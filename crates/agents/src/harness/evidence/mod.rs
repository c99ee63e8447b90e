//! Evidence: what an agent's output says about its turn.
//!
//! A provider's reader reports to a [`Digest`](digest::Digest), which keeps the `answer`, the `background` work and the last
//! `failure`. `reset` reads when a usage limit ends. All files are PURE.

pub(crate) mod answer;
mod background;
pub(crate) mod counts;
pub mod digest;
pub mod failure;
pub(crate) mod last_lines;
pub(crate) mod metered;
pub(crate) mod reason_line;
pub(crate) mod refused;
pub mod reset;
pub(crate) mod turn_usage;

/// The warning of a turn in which, by the figures of the CLI, no model took part.
pub(crate) const NO_MODEL: &str = "no model took part in this turn: the answer is the CLI's own";
