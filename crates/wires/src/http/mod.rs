//! HTTP for model calls, uploads and downloads. The one home of reqwest and rustls.
//!
//! # Theory of operation
//! [`HttpClient`] is a cloneable handle on a pool of connections; nothing runs until [`HttpClient::send`] is awaited, and the
//! connections' own tasks end with the pool. [`HttpClient::fresh`] gives a client with a pool of its own, for whoever doubts
//! the old connections; [`HttpClient::renew`] makes all handles of this client forget theirs (requests under way keep them).
//! `send` resolves with the response's head. The body is pulled by [`Response::chunk`], so a slow reader slows the server.
//! Dropping the future or the response closes the connection (HTTP/1.1) or resets the stream (HTTP/2): that is how a request
//! is cancelled.
//!
//! Clocks: `connect_timeout` for DNS, TCP and TLS; `response_timeout` for the head, counted from the last byte of the request
//! that was taken; `idle_timeout` between the pieces of the response's body. None for the whole: who wants one, wraps `send`.
//!
//! Nothing is retried here, and a status is no error until [`Response::success`] is asked. Errors never show a URL's query
//! (a presigned URL is a secret) or a header.
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

pub use client::{HttpClient, HttpOptions, check_url};
pub use failure::{HttpError, Waiting};
pub use request::{Body, FileBody, Request, Witness};
pub use response::Response;
pub use retry_after::parse_retry_after;
pub use sse::{EventTooLong, SseEvent, SseParser};
pub use trust::tls_config;
