//! The jsonrpc module.
