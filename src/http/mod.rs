//! The http module.
