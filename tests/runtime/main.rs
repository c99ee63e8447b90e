//! The runtime over real sockets: one file per part of its contract.

mod requests;
mod support;
