//! The model module.
