//! The runtime over real sockets: one file per part of its contract.

mod artifacts;
mod exposure;
mod requests;
mod resume;
mod support;
