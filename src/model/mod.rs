//! The model module.

mod repair;
mod schema;

pub use schema::{Problem, Reading, Schema};
