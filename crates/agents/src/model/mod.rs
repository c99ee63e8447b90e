//! Calls a model over HTTP. The result is an answer or a typed error.
//!
//! # Theory of operation
//! [`complete`] is one future and spawns nothing. It makes attempts one after another. Each is an OpenAI chat completion, always
//! requested as a stream, so that silence can be told from work. A server that answers in one piece is supported as well. An
//! attempt waits for the head of the response (limited by the attempt's timeout), then for the pieces of the body (limited by the
//! idle timeout as well). After a failure that may pass, it waits as [`ground::retry::RetryPolicy`] says and retries on a fresh
//! connection pool, because the likeliest reason for silence is a dead connection. Dropping the future, or resolving `abort`,
//! closes the socket at once.
//!
//! All decisions are PURE: [`CompletionRequest`] builds the request, `body` and [`Completion`] read the response in any pieces,
//! [`Failure::verdict`] classifies failures, [`Schema`] finds and checks structured answers.

#[cfg(feature = "model")]
mod body;
#[cfg(feature = "model")]
mod client;
#[cfg(feature = "model")]
mod completion;
#[cfg(feature = "model")]
mod described;
#[cfg(feature = "model")]
mod failure;
mod repair;
#[cfg(feature = "model")]
mod request;
mod schema;
pub(crate) mod taken_schema;

#[cfg(feature = "model")]
pub use client::{complete, shared_client};
#[cfg(feature = "model")]
pub use completion::{Completion, Malformed, ServerError, ToolCall};
#[cfg(feature = "model")]
pub use described::{ErrorLayer, classify_described};
#[cfg(feature = "model")]
pub use failure::{Failure, aborted};
#[cfg(feature = "model")]
pub use request::{CompletionRequest, TextListener, retry_policy};
pub(crate) use schema::NO_JSON;
pub use schema::{Reading, Schema};
/// Aborts a call from outside, before it begins or later. One that is dropped aborts nothing.
pub use tokio_util::sync::CancellationToken as AbortSwitch;
