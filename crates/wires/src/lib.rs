//! Mechanisms for communication and file watching: HTTP, JSON-RPC, and watched folders. They are independent of each other.

#[cfg(feature = "http")]
pub mod http;
pub mod jsonrpc;
pub mod watch;
