//! The process module.
