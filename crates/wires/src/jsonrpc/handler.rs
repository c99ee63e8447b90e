//! The handler to which the reader passes all messages that are not replies.

use ground::error::Error;
use std::future::Future;

/// Its methods run on the reader's task, so they must be quick and must not block.
pub trait Handler: Send + 'static {
    /// Gets a message before it is parsed, so that a handler can process frequent messages more quickly. True: the message is
    /// done.
    fn take_frame(&mut self, _frame: &[u8]) -> bool {
        false
    }
    /// A notification of the peer. `params` is JSON text.
    fn on_notification(&mut self, method: &str, params: &str);
    /// A request of the peer. Answer it with [`Client::respond`](super::Client::respond). `id` and `params` are JSON text.
    fn on_request(&mut self, id: &str, method: &str, params: &str);
    /// The peer wrote something that is not a message.
    fn on_noise(&mut self, noise: Noise<'_>);
    /// Resolves when there is room for another message.
    fn ready(&mut self) -> impl Future<Output = ()> + Send;
    /// The stream has ended. All pending requests fail with the error that this resolves with.
    fn on_end(&mut self, cause: Error) -> impl Future<Output = Error> + Send;
}

/// Data that was not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise<'a> {
    /// Bytes that were skipped in search of a header.
    Garbage { bytes: usize },
    /// A body that is not a JSON-RPC message.
    BadBody { bytes: usize },
    /// A line that is not a message, without its end. Occurs only with [`Framing::Lines`](super::Framing::Lines).
    Line(&'a str),
    /// A reply to a request that is unknown or already settled.
    StrayReply,
    /// An error that names no request, while not exactly one is under way: the peer could not read what was sent.
    Fault(&'a str),
}
