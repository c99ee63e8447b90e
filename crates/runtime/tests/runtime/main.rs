//! The runtime over real sockets: one file per part of its contract.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic in a test is its report"
)]

mod agent;
mod artifacts;
mod asking;
mod exposure;
mod gap;
mod hostile;
mod kept_agent;
mod old_runtime;
mod requests;
mod resume;
mod sink;
mod support;
