//! The copilot module.
