//! The runtime module.
