//! The handle of a connection.

use super::completion::Completion;
use super::handler::Handler;
use super::message::{self, Refusal};
use super::pending::{CallId, CloseOnDrop, Connected, timed_out};
use super::reader::read;
use super::stream::{ByteSink, ByteSource};
use super::timekeeper::keep_time;
use super::wire::Wire;
use super::writer::write;
use ground::error::{Error, ErrorCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A handle; clones share the connection.
#[derive(Clone)]
pub struct Client(Arc<Connected>);

impl Client {
    /// Starts the tasks. Must be called within tokio.
    pub fn start<H: Handler>(source: impl ByteSource, sink: impl ByteSink, wire: Wire, handler: H) -> Self {
        let connected = Arc::new(Connected::new(wire));
        let ended = || connected.ended.subscribe();
        // Created here, because a task that is dropped before it ever ran never creates its own locals.
        let held_by = |task| CloseOnDrop { connected: Arc::downgrade(&connected), task };
        ground::task::spawn(read(source, held_by("reader"), wire, handler, ended()));
        ground::task::spawn(write(sink, held_by("writer"), ended()));
        ground::task::spawn(keep_time(held_by("timekeeper"), ended()));
        Client(connected)
    }

    /// Sends a request without waiting; `complete` is called exactly once: on the reader's task with the result as JSON text,
    /// or with the error that ended the wait. `params` is JSON text.
    pub fn call(
        &self,
        method: &str,
        params: &str,
        timeout: Option<Duration>,
        complete: Completion,
    ) -> CallId {
        let mut state = self.0.lock();
        let id = state.take_id();
        let refused = match &state.closed {
            Some(error) => Some(error.clone()),
            // The deadline has passed already, so nothing is sent.
            None if timeout == Some(Duration::ZERO) => Some(timed_out(method, Duration::ZERO)),
            None => state.enqueue(self.0.wire.encode(&message::request(id, method, params))).err(),
        };
        if let Some(error) = refused {
            drop(state);
            complete.settle(Err(error));
            return CallId(id);
        }
        self.0.insert(&mut state, id, method, timeout, complete);
        drop(state);
        self.0.to_write.notify_one();
        CallId(id)
    }

    /// Sends a request and waits for its result, JSON text. Dropping the future cancels the request.
    pub async fn request(
        &self,
        method: &str,
        params: &str,
        timeout: Option<Duration>,
    ) -> Result<String, Error> {
        struct CancelOnDrop<'a>(&'a Client, CallId);
        impl Drop for CancelOnDrop<'_> {
            fn drop(&mut self) {
                self.0.cancel(self.1, Error::new(ErrorCode::ConnectionLost, "the request was given up"));
            }
        }
        let (sender, receiver) = oneshot::channel();
        let complete = Completion::new(move |result| {
            // Sending fails when the future was dropped, and then no task waits for the result.
            let _ = sender.send(result.map(str::to_owned));
        });
        let id = self.call(method, params, timeout, complete);
        let _cancel = CancelOnDrop(self, id);
        receiver
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorCode::ConnectionLost, "the connection was dropped")))
    }

    /// Abandons a request without a message to the peer: it fails with `error`. Requests that are settled are not affected.
    pub fn forget(&self, call: CallId, error: Error) {
        let pending = self.0.lock().remove(call.0);
        if let Some(pending) = pending {
            pending.complete.settle(Err(error));
        }
    }

    /// Cancels a request: it fails with `error`, and the peer gets the notification [`Wire::cancel`]. Settled requests are not
    /// affected.
    pub fn cancel(&self, call: CallId, error: Error) {
        let mut state = self.0.lock();
        let Some(pending) = state.remove(call.0) else { return };
        let (method, name) = self.0.wire.cancel;
        let notification = message::notification(method, &format!("{{\"{name}\":{}}}", call.0));
        // A failure is ignored: a peer that does not read can't process the notification either.
        let _ = state.enqueue(self.0.wire.encode(&notification));
        drop(state);
        self.0.to_write.notify_one();
        pending.complete.settle(Err(error));
    }

    /// Sends a notification. Does nothing after the connection has ended.
    pub fn notify(&self, method: &str, params: &str) {
        self.write(&message::notification(method, params));
    }

    /// Answers a request of the peer. `id` is the JSON text that came with it; the result is JSON text.
    pub fn respond(&self, id: &str, result: Result<&str, &Refusal>) {
        self.write(&message::reply(id, result));
    }

    fn write(&self, body: &str) {
        let frame = self.0.wire.encode(body);
        let mut state = self.0.lock();
        if state.closed.is_none() && state.enqueue(frame).is_ok() {
            drop(state);
            self.0.to_write.notify_one();
        }
    }

    /// Ends the connection: all pending and later requests fail with `error`. Only the first call has an effect.
    pub fn close(&self, error: &Error) {
        self.0.close(error);
    }

    /// The error with which the connection ended.
    pub fn closed(&self) -> Option<Error> {
        self.0.lock().closed.clone()
    }

    /// Resolves when the connection has ended.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.subscribe();
        // The sender lives as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Number of requests that wait for their replies.
    pub fn pending(&self) -> usize {
        self.0.lock().count()
    }
}
