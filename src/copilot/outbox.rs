//! What goes to the host program, in the order of the wire: events, replies, requests, exits. One queue for all of them, so
//! that a reply never overtakes the events before it.
//!
//! Items are JSON arrays `[kind, ...]`, kept as text and joined to batches: a flood costs the host one string and one parse
//! for hundreds of events. The host is woken once, takes batch after batch (leaving its own loop room between two), and
//! is woken again only after it has found nothing. Over [`Outbox::MAX_BYTES`] the reader waits, and with it the peer.
//!
//! | item | means |
//! |---|---|
//! | `[0, session, event]` | an event of a session that somebody subscribed to |
//! | `[1, call, result]` | a call succeeded |
//! | `[2, call, fault]` | a call failed |
//! | `[3, id, method, params]` | the peer asks |
//! | `[4, method, params]` | the peer tells |
//! | `[5, exit]` | the process is gone, the connection over |
//! | `[6, line]` | a line of the process's stderr |

use crate::error::Error;
use crate::jsonrpc::quote;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
struct State {
    batches: VecDeque<String>,
    bytes: usize,
    items_in_last: usize,
    /// The host was woken and has not found the queue empty since.
    is_awake: bool,
    is_closed: bool,
}

/// The queue to the host.
pub struct Outbox {
    state: Mutex<State>,
    room: Notify,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Outbox {
    /// Held for a slow host: 4 MiB, and the message that is just being read.
    pub const MAX_BYTES: usize = 4 << 20;
    /// A batch is one parse for the host; it is kept short of what would stall its loop.
    const BATCH_BYTES: usize = 64 << 10;
    const BATCH_ITEMS: usize = 256;

    /// `wake` tells the host to take; it is called from any thread and must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Outbox { state: Mutex::default(), room: Notify::new(), wake: Box::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, size: usize, write: impl FnOnce(&mut String)) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let fits = state.items_in_last < Self::BATCH_ITEMS
            && state.batches.back().is_some_and(|batch| batch.len() + size <= Self::BATCH_BYTES);
        if !fits {
            state.batches.push_back(String::with_capacity(size.clamp(256, Self::BATCH_BYTES)));
            state.items_in_last = 0;
        }
        state.items_in_last += 1;
        let State { batches, bytes, is_awake, .. } = &mut *state;
        if let Some(batch) = batches.back_mut() {
            let before = batch.len();
            batch.push(if before == 0 { '[' } else { ',' });
            write(batch);
            *bytes += batch.len() - before;
        }
        let wakes = !std::mem::replace(is_awake, true);
        drop(state);
        if wakes {
            (self.wake)();
        }
    }

    /// `event` is JSON text.
    pub fn push_event(&self, session: u32, event: &str) {
        self.push(event.len() + 16, |batch| {
            let _ = write!(batch, "[0,{session},{event}]");
        });
    }

    pub fn push_result(&self, call: u32, result: Result<&str, &Error>) {
        match result {
            Ok(result) => self.push(result.len() + 16, |batch| {
                let _ = write!(batch, "[1,{call},{result}]");
            }),
            Err(error) => {
                let fault = fault(error).to_string();
                self.push(fault.len() + 16, |batch| {
                    let _ = write!(batch, "[2,{call},{fault}]");
                });
            }
        }
    }

    pub fn push_request(&self, id: &str, method: &str, params: &str) {
        self.push(params.len() + 64, |batch| {
            // The id crosses as text, so that it comes back as it was.
            let _ = write!(batch, "[3,{},{},{params}]", quote(id), quote(method));
        });
    }

    pub fn push_notification(&self, method: &str, params: &str) {
        self.push(params.len() + 64, |batch| {
            let _ = write!(batch, "[4,{},{params}]", quote(method));
        });
    }

    pub fn push_exit(&self, exit: &Value) {
        let text = exit.to_string();
        self.push(text.len() + 8, |batch| {
            let _ = write!(batch, "[5,{text}]");
        });
    }

    pub fn push_stderr(&self, line: &str) {
        let line = quote(line);
        self.push(line.len() + 8, |batch| {
            let _ = write!(batch, "[6,{line}]");
        });
    }

    /// The next batch, a JSON array of items; `None` when there is nothing, after which the next item wakes again.
    pub fn take(&self) -> Option<String> {
        let mut state = self.lock();
        let Some(mut batch) = state.batches.pop_front() else {
            state.is_awake = false;
            return None;
        };
        if state.batches.is_empty() {
            state.items_in_last = 0;
        }
        state.bytes -= batch.len();
        let has_room = state.bytes < Self::MAX_BYTES;
        drop(state);
        if has_room {
            self.room.notify_waiters();
        }
        batch.push(']');
        Some(batch)
    }

    /// Resolves when there is room.
    pub async fn ready(&self) {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Registered before the look, so that room made in between is not missed.
            room.as_mut().enable();
            {
                let state = self.lock();
                if state.bytes < Self::MAX_BYTES || state.is_closed {
                    return;
                }
            }
            room.await;
        }
    }

    /// The host is gone: nothing more is kept for it, and nobody waits for it.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.batches.clear();
        state.bytes = 0;
        drop(state);
        self.room.notify_waiters();
    }
}

/// An error as the host's `Fault`.
fn fault(error: &Error) -> Value {
    let mut fault = Map::new();
    fault.insert("code".to_owned(), error.code().as_str().into());
    fault.insert("message".to_owned(), error.message().into());
    fault.insert("facts".to_owned(), Value::Object(error.facts().clone()));
    if let Some(cause) = error.cause() {
        fault.insert("cause".to_owned(), self::fault(cause));
    }
    Value::Object(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn outbox() -> (Arc<Outbox>, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        (Arc::new(Outbox::new(move || drop(counted.fetch_add(1, Ordering::SeqCst)))), wakes)
    }

    #[test]
    fn a_batch_is_json_and_keeps_the_order() {
        let (outbox, wakes) = outbox();
        outbox.push_event(3, r#"{"type":"a"}"#);
        let error = Error::new(ErrorCode::RpcError, "no")
            .with("rpcCode", 1)
            .caused_by(Error::new(ErrorCode::RpcError, "x"));
        outbox.push_result(7, Err(&error));
        outbox.push_result(8, Ok("null"));
        outbox.push_request("\"q\"", "hooks.invoke", "{}");
        outbox.push_stderr("a \"line\"");
        let batch: Value = serde_json::from_str(&outbox.take().unwrap()).unwrap();
        assert_eq!(batch[0], serde_json::json!([0, 3, { "type": "a" }]));
        assert_eq!(batch[1][2]["cause"]["message"], "x");
        assert_eq!(batch[2], serde_json::json!([1, 8, null]));
        assert_eq!(batch[3], serde_json::json!([3, "\"q\"", "hooks.invoke", {}]));
        assert_eq!(batch[4], serde_json::json!([6, "a \"line\""]));
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert!(outbox.take().is_none());
        outbox.push_event(3, "{}");
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_slow_host_makes_the_reader_wait() {
        let (outbox, _) = outbox();
        let event = "x".repeat(1 << 20);
        for _ in 0..4 {
            outbox.ready().await;
            outbox.push_event(1, &event);
        }
        let waiting = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        outbox.take().unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_host_that_is_gone_holds_nobody_up() {
        let (outbox, _) = outbox();
        outbox.push_event(1, &"x".repeat(Outbox::MAX_BYTES));
        outbox.close();
        outbox.ready().await;
        outbox.push_event(1, "{}");
        assert!(outbox.take().is_none());
    }
}
