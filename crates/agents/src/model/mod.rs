//! One call of a model over HTTP, that either brings an answer or says in a typed error why there is none.
//!
//! # Theory of operation
//! [`complete`] is one future and spawns nothing: it runs attempts one after another, each an OpenAI chat completion, always
//! asked for as a stream so that silence can be told from work; a server that answers in one piece is understood as well.
//! An attempt waits for the head of the response (the attempt's clock), then for the pieces of the body (the idle clock as
//! well). After a failure that may pass it waits as [`ground::retry::RetryPolicy`] says and asks again on a fresh pool, because
//! the likeliest reason for silence is a connection that is dead without knowing it. Dropping the future, or resolving
//! `abort`, closes the socket at once.
//!
//! Everything that decides is PURE: [`CompletionRequest`] makes the request, `body` and [`Completion`] read what comes back
//! in any pieces, [`Failure::verdict`] says what a failure means, [`Schema`] finds and checks structured answers.

mod abort;
mod body;
mod client;
mod completion;
mod described;
mod failure;
mod json;
mod repair;
mod request;
mod schema;

pub use abort::AbortSwitch;
pub use client::{complete, shared_client};
pub use completion::{Completion, Malformed, ServerError, Tokens, ToolCall};
pub use described::{ErrorLayer, classify_described};
pub use failure::{Failure, aborted};
pub use json::parse_json;
pub use request::{CompletionRequest, TextListener, retry_policy};
pub use schema::{Problem, Reading, Schema};
