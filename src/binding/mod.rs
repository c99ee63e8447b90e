//! The edge to JavaScript. No other module names napi.
//!
//! Every function that returns a promise goes through [`promise::settle`], every error through [`error`]. A file named by a
//! capability holds the types and functions that it passes to and from JavaScript, with the names and the order of lib/. It makes
//! no decisions: defaults, timers and retries are in the core. lib/ checks the types of options, and [`option`] interprets their
//! numbers and names.

pub mod acp;
pub mod agent;
pub mod budget;
#[cfg(feature = "copilot")]
pub mod copilot;
#[cfg(feature = "copilot")]
pub mod copilot_log;
pub mod delivery;
#[cfg_attr(not(feature = "egress"), path = "no_egress.rs")]
pub mod egress;
mod environment_objects;
pub mod error;
pub mod face;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "fleet")]
pub mod fleet_agent;
#[cfg(feature = "fleet")]
pub mod fleet_job;
#[cfg(feature = "fleet")]
pub mod fleet_operations;
pub mod git;
pub mod harness;
mod held;
pub mod host;
pub mod limit;
mod mailbox;
pub mod mcp_server;
#[cfg(feature = "model")]
pub mod model;
pub mod option;
pub mod process;
pub mod promise;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod runtime_client;
#[cfg(feature = "runtime")]
pub mod runtime_host;
pub mod sandbox;
mod secret_spec;
pub mod threads;
pub mod tree;
mod turn_observer;
