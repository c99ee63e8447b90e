//! Coding agents: model calls over HTTP (`model`), a CLI as a function (`harness`), and sessions over ACP (`acp`).
//!
//! `harness` may call `model`, and `acp` uses the types of `harness`. `tests/layers` checks both.

pub mod acp;
#[cfg(test)]
mod fuzz_tests;
pub mod harness;
pub mod model;

/// Starts a turn in the way that its agent runs, under these limits, and returns at once. Call it within tokio.
pub fn start(request: harness::TurnRequest, limits: Vec<harness::ConcurrencyLimit>) -> harness::Turn {
    start_prepared(request, limits, None)
}

/// The same for a turn that has something to prepare before its first process.
pub fn start_prepared(
    request: harness::TurnRequest,
    limits: Vec<harness::ConcurrencyLimit>,
    preparation: Option<harness::Preparation<harness::TurnRequest>>,
) -> harness::Turn {
    match request.agent.provider.is_other() {
        true => acp::start_turn(request, limits, preparation),
        false => harness::start(request, limits, preparation),
    }
}
