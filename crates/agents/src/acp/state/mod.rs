//! The state of a session in its parts, and the orders that change it.

pub(crate) mod active;
pub(crate) mod link;
pub(crate) mod listeners;
pub(crate) mod order;
pub(crate) mod search;
pub(crate) mod session_state;
