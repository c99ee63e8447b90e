//! The mechanisms by which Sheepdog talks and watches: HTTP, JSON-RPC, and watched folders. None of them uses another one.

pub mod http;
pub mod jsonrpc;
pub mod watch;
