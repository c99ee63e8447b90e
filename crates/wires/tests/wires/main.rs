//! HTTP, JSON-RPC and watched folders, over real sockets and files on this machine.

#[cfg(feature = "http")]
mod http;
mod jsonrpc;
mod watch;
