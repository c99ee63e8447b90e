//! HTTP, JSON-RPC, model calls and watched folders, over real sockets and files on this machine. One program, since each one
//! links the whole core.

mod http;
mod jsonrpc;
mod model;
mod watch;
