//! The connection to an agent, and what its messages say.

pub(crate) mod connection;
pub mod update;
