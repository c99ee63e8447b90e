//! Output of agents and its meaning, by tables, recordings and random input; and model calls over real sockets.

mod harness_formats;
mod harness_fuzz;
mod harness_mutations;
mod harness_providers;
mod harness_replay;
#[cfg(feature = "model")]
mod model;
mod recordings;
