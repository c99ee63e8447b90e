//! The binding module.
