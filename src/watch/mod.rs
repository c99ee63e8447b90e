//! The watch module.
