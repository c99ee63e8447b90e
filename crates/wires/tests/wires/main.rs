//! HTTP, JSON-RPC and watched folders, over real sockets and files on this machine.

mod http;
mod jsonrpc;
mod watch;
