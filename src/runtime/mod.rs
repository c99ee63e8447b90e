//! The runtime: agents and commands in a sandbox, behind a WebSocket, and the client of it.

pub mod frame_budget;
pub mod message;
pub mod reply;
pub mod request_state;
pub mod sequence;
