//! Sheepdog's core. The map of the layers is ARCHITECTURE.md; `tests/layers.rs` holds the law of imports.

// Layer 0: values.
pub mod error;
pub mod line;
pub(crate) mod percent;
pub(crate) mod random;
pub mod redaction;
pub mod retry;

// Layer 1: the system, and mechanisms.
pub mod http;
pub mod jsonrpc;
pub(crate) mod os;
pub mod process;
pub mod record;
pub(crate) mod trace;
pub mod watch;

// Layer 2: agents.
pub mod acp;
pub mod copilot;
pub mod harness;
pub mod model;

// Layer 3: service.
pub mod fleet;
pub mod runtime;

// What is fuzzed: over all layers, in no build that is used.
#[cfg(any(test, fuzzing))]
pub mod fuzz;

// Layer 4: the edge to JavaScript.
pub mod binding;
