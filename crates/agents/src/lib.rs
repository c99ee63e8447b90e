//! Coding agents: model calls over HTTP (`model`), a CLI as a function (`harness`), and sessions over ACP (`acp`).
//!
//! `harness` may call `model`, and `acp` uses the types of `harness`. `tests/layers.rs` checks both.

pub mod acp;
pub mod harness;
pub mod model;
