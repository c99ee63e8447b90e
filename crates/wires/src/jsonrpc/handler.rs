//! Whom the reader tells of what is no reply.

use ground::error::Error;
use std::future::Future;

/// Its methods run on the reader's task: they are quick and never block.
pub trait Handler: Send + 'static {
    /// A message before it is parsed, for a handler that knows a quicker way with those of one kind. True: it is done.
    fn take_frame(&mut self, _frame: &[u8]) -> bool {
        false
    }
    /// `params` is JSON text.
    fn on_notification(&mut self, method: &str, params: &str);
    /// Answer with [`Client::respond`](super::Client::respond); `id` and `params` are JSON text.
    fn on_request(&mut self, id: &str, method: &str, params: &str);
    /// The peer wrote something that is no message.
    fn on_noise(&mut self, noise: Noise<'_>);
    /// Resolves when there is room for another message.
    fn ready(&mut self) -> impl Future<Output = ()> + Send;
    /// The stream is over; what it resolves with fails all that is pending.
    fn on_end(&mut self, cause: Error) -> impl Future<Output = Error> + Send;
}

/// What was no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise<'a> {
    /// Skipped while looking for a header.
    Garbage { bytes: usize },
    /// A body that is no JSON-RPC message.
    BadBody { bytes: usize },
    /// A line that is no message, without its end; only from [`Framing::Lines`](super::Framing::Lines).
    Line(&'a str),
    /// A reply that nobody waits for (any more).
    StrayReply,
}
