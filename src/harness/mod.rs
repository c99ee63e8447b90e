//! The harness module.
