//! Turns from their start to the last event, by tables: budgets over attempts, waits between attempts, clocks, and the ladder of a stop.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report, in its helpers too")]

mod budgets;
mod clocks;
mod hostile;
mod ladder;
mod played;
#[expect(dead_code, reason = "the tests of sessions use all of it")]
#[path = "../acp/support.rs"]
mod support;
mod waits;
