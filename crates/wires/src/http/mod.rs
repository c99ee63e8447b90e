//! HTTP for model calls, uploads and downloads. No other module uses reqwest or rustls.
//!
//! # Theory of operation
//! [`HttpClient`] is a cloneable handle on a pool of connections. Nothing runs until [`HttpClient::send`] is awaited, and the
//! connections' own tasks end with the pool. [`HttpClient::fresh`] gives a client with a pool of its own, for callers that do not
//! trust the old connections. [`HttpClient::renew`] makes all handles of this client drop their idle connections; requests under
//! way keep theirs. `send` resolves with the response's head. The body is pulled by [`Response::chunk`], so a slow reader slows
//! the server. Dropping the future or the response cancels the request: it closes the connection. Each request under way has a
//! connection of its own (HTTP/1.1), so that one that stalls delays no other.
//!
//! Timeouts: `connect_timeout` for DNS, TCP and TLS; `response_timeout` for the head, counted from the last byte of the request
//! that was accepted; `idle_timeout` between the pieces of the response's body. No timeout covers the whole request; a caller can
//! wrap `send` in one.
//!
//! This module retries nothing, and a status is not an error until [`Response::success`] is called. Errors never contain a URL's
//! query (a presigned URL is a secret) or a header.
//!
//! [`SseParser`] (server-sent events) and [`parse_retry_after`] are PURE.

mod client;
mod failure;
mod proxy;
mod request;
mod response;
mod retry_after;
mod sse;
mod trust;

pub use client::{HttpClient, HttpOptions, MAX_HEADER_LINES, check_url};
pub use failure::{HttpError, Waiting};
pub use proxy::Proxies;
pub use request::{Body, FileBody, Request, Witness};
pub use response::Response;
pub use retry_after::parse_retry_after;
pub use sse::{EventTooLong, SseEvent, SseParser};
pub use trust::{extra_certificates, tls_config, tls_config_trusting, trusted_certificates};
