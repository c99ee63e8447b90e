//! The edge to JavaScript, and the only place that names napi.
//!
//! Every promise-returning function goes through [`promise::settle`], every fault through [`error`]. The files named by a
//! capability hold what crosses (same names, same order as in lib/) and no decisions: defaults, timers and retries live in
//! the core, types of options are checked in lib/, and what
//! their numbers and names mean stands in [`option`].

pub mod acp;
pub mod agent;
pub mod budget;
pub mod copilot;
pub mod copilot_log;
pub mod delivery;
pub mod error;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "fleet")]
pub mod fleet_job;
mod guests;
pub mod harness;
pub mod limit;
pub mod model;
pub mod option;
pub mod process;
pub mod promise;
pub mod runtime;
pub mod runtime_client;
pub mod runtime_host;
pub mod sandbox;
pub mod threads;
pub mod tree;
