//! Sessions with a scripted agent (fixtures/acp/agent.mjs), both versions of the protocol.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report, in its helpers too")]

mod bad_peers;
mod hostile;
mod limits;
mod opening;
mod questions;
mod single_turns;
mod stopping;
mod support;
mod verdicts;
