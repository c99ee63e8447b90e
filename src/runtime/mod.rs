//! The runtime: agents and commands in a sandbox, behind a WebSocket, and the client of it.

pub mod agent;
pub mod artifact;
pub mod client;
pub mod client_request;
pub mod client_socket;
pub mod command;
pub mod connection;
pub mod download;
pub mod end_session;
pub mod frame_budget;
pub mod handler;
pub mod intake;
pub mod message;
pub mod outbox;
pub mod reply;
pub mod request;
pub mod request_state;
pub mod secrets;
pub mod sequence;
pub mod server;
pub mod session;
pub mod speech;
pub mod text_stream;
pub mod unzip;
pub mod upgrade;
pub mod upload;
