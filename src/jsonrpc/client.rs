//! The three tasks of a connection, and the map of requests that wait for their replies.

use super::message::{self, Message, Refusal};
use super::wire::{Broken, Decoder, encode};
use crate::error::{Error, ErrorCode};
use bytes::{Bytes, BytesMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// Where the peer's bytes come from. `None` is the end.
pub trait ByteSource: Send + 'static {
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Bytes>>> + Send;
}

/// Where the bytes for the peer go.
pub trait ByteSink: Send + 'static {
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = io::Result<()>> + Send;
}

/// What the reader tells of what is no reply. Its methods run on the reader's task: they are quick and never block.
pub trait Handler: Send + 'static {
    /// A frame before it is parsed, for a handler that knows a quicker way with messages of one kind. True: it is done.
    fn take_frame(&mut self, _frame: &[u8]) -> bool {
        false
    }
    /// `params` is JSON text.
    fn on_notification(&mut self, method: &str, params: &str);
    /// Answer with [`Client::respond`]; `id` and `params` are JSON text.
    fn on_request(&mut self, id: &str, method: &str, params: &str);
    /// The peer wrote something that is no message.
    fn on_noise(&mut self, noise: Noise);
    /// Resolves when there is room for another message.
    fn ready(&mut self) -> impl Future<Output = ()> + Send;
    /// The stream is over; what it resolves with fails all that is pending.
    fn on_end(&mut self, cause: Error) -> impl Future<Output = Error> + Send;
}

/// Bytes that were no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Skipped while looking for a header.
    Garbage { bytes: usize },
    /// A frame whose body is no JSON-RPC message.
    BadBody { bytes: usize },
    /// A reply that nobody waits for (any more).
    StrayReply,
}

/// Runs on the reader's task when the reply is there; the result is JSON text.
type Completion = Box<dyn for<'a> FnOnce(Result<&'a str, Error>) + Send>;

/// Names a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(u64);

struct Pending {
    method: String,
    timeout: Option<Duration>,
    complete: Completion,
}

#[derive(Default)]
struct State {
    next_id: u64,
    pending: HashMap<u64, Pending>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    outgoing: VecDeque<Bytes>,
    outgoing_bytes: usize,
    closed: Option<Error>,
}

struct Shared {
    state: Mutex<State>,
    // The tasks hold these without holding the connection alive.
    /// A frame is there to write.
    to_write: Arc<Notify>,
    /// The earliest deadline has changed.
    deadline: Arc<Notify>,
    /// The sink refused.
    write_failed: Arc<Notify>,
    /// Becomes true at the end; its receivers also see the last handle dropped.
    ended: watch::Sender<bool>,
}

/// A handle; clones share the connection.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

impl Client {
    /// Frames that wait for a peer that does not read: 128 MiB, then requests fail.
    const MAX_OUTGOING: usize = 128 << 20;
    /// Small frames are written together up to this size.
    const WRITE_TOGETHER: usize = 64 << 10;
    /// After the sink refused, the reader gets so long to come to the end, which says more.
    const LAST_WORDS: Duration = Duration::from_millis(500);

    /// Starts the tasks; call it within tokio.
    pub fn start<H: Handler>(
        source: impl ByteSource,
        sink: impl ByteSink,
        max_body: usize,
        handler: H,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            to_write: Arc::default(),
            deadline: Arc::default(),
            write_failed: Arc::default(),
            ended: watch::Sender::new(false),
        });
        tokio::spawn(read(source, Arc::downgrade(&shared), max_body, handler, shared.ended.subscribe()));
        tokio::spawn(write(sink, Arc::downgrade(&shared), shared.ended.subscribe()));
        tokio::spawn(keep_time(Arc::downgrade(&shared), shared.ended.subscribe()));
        Client(shared)
    }

    /// Sends a request without waiting; `complete` is called exactly once: on the reader's task with the result as JSON text,
    /// or with the error that ended the wait. `params` is JSON text.
    pub fn call(
        &self,
        method: &str,
        params: &str,
        timeout: Option<Duration>,
        complete: impl for<'a> FnOnce(Result<&'a str, Error>) + Send + 'static,
    ) -> CallId {
        let complete: Completion = Box::new(complete);
        let mut state = self.0.lock();
        let id = state.next_id;
        state.next_id += 1;
        let refused = match &state.closed {
            Some(error) => Some(error.clone()),
            None if timeout == Some(Duration::ZERO) => Some(timed_out(method, Duration::ZERO)),
            None => state.enqueue(encode(&message::request(id, method, params))).err(),
        };
        if let Some(error) = refused {
            drop(state);
            complete(Err(error));
            return CallId(id);
        }
        state.pending.insert(id, Pending { method: method.to_owned(), timeout, complete });
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut is_earliest = false;
        if let Some(deadline) = deadline {
            is_earliest = state.deadlines.peek().is_none_or(|Reverse((earliest, _))| deadline < *earliest);
            state.deadlines.push(Reverse((deadline, id)));
        }
        drop(state);
        self.0.to_write.notify_one();
        if is_earliest {
            self.0.deadline.notify_one();
        }
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
        let id = self.call(method, params, timeout, move |result| {
            // Nobody waits any more when the future was dropped.
            let _ = sender.send(result.map(str::to_owned));
        });
        let _cancel = CancelOnDrop(self, id);
        receiver
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorCode::ConnectionLost, "the connection was dropped")))
    }

    /// Gives a request up without a word to the peer: it fails with `error`. Settled requests are left alone.
    pub fn forget(&self, call: CallId, error: Error) {
        let pending = self.0.lock().pending.remove(&call.0);
        if let Some(pending) = pending {
            (pending.complete)(Err(error));
        }
    }

    /// Gives a request up: it fails with `error`, and the peer is told (`$/cancelRequest`). Settled requests are left alone.
    pub fn cancel(&self, call: CallId, error: Error) {
        let mut state = self.0.lock();
        let Some(pending) = state.pending.remove(&call.0) else { return };
        // A peer that reads nothing need not be told.
        let _ = state
            .enqueue(encode(&message::notification("$/cancelRequest", &format!("{{\"id\":{}}}", call.0))));
        drop(state);
        self.0.to_write.notify_one();
        (pending.complete)(Err(error));
    }

    /// Sends a notification; after the end it goes nowhere.
    pub fn notify(&self, method: &str, params: &str) {
        self.write(encode(&message::notification(method, params)));
    }

    /// Answers a request of the peer. `id` as it came, the result as JSON text.
    pub fn respond(&self, id: &str, result: Result<&str, &Refusal>) {
        self.write(encode(&message::reply(id, result)));
    }

    fn write(&self, frame: Bytes) {
        let mut state = self.0.lock();
        if state.closed.is_none() && state.enqueue(frame).is_ok() {
            drop(state);
            self.0.to_write.notify_one();
        }
    }

    /// Ends the connection: everything pending, and everything later, fails with `error`. The first call counts.
    pub fn close(&self, error: &Error) {
        self.0.close(error);
    }

    /// The error that the connection ended with.
    pub fn closed(&self) -> Option<Error> {
        self.0.lock().closed.clone()
    }

    /// Resolves when the connection has ended.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.subscribe();
        // The sender lives as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Requests that wait for their replies.
    pub fn pending(&self) -> usize {
        self.0.lock().pending.len()
    }
}

impl State {
    fn enqueue(&mut self, frame: Bytes) -> Result<(), Error> {
        if self.outgoing_bytes > 0 && self.outgoing_bytes + frame.len() > Client::MAX_OUTGOING {
            let message = format!("the peer does not read: {} bytes wait for it", self.outgoing_bytes);
            return Err(Error::new(ErrorCode::ConnectionLost, message));
        }
        self.outgoing_bytes += frame.len();
        self.outgoing.push_back(frame);
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, error: &Error) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(error.clone());
        state.deadlines.clear();
        state.outgoing.clear();
        let mut pending: Vec<(u64, Pending)> = state.pending.drain().collect();
        drop(state);
        pending.sort_by_key(|(id, _)| *id);
        for (_, pending) in pending {
            (pending.complete)(Err(error.clone()));
        }
        self.ended.send_replace(true);
    }

    /// Takes the frames that are written together.
    fn take_frames(&self) -> Option<Bytes> {
        let mut state = self.lock();
        let first = state.outgoing.pop_front()?;
        let mut together: Option<BytesMut> = None;
        while let Some(next) = state.outgoing.front() {
            let size = together.as_ref().map_or(first.len(), BytesMut::len);
            if size + next.len() > Client::WRITE_TOGETHER {
                break;
            }
            let buffer = together.get_or_insert_with(|| BytesMut::from(first.as_ref()));
            buffer.extend_from_slice(next);
            state.outgoing.pop_front();
        }
        Some(together.map_or(first, BytesMut::freeze))
    }

    fn settle(&self, id: &str, result: Result<&str, Refusal>) -> bool {
        let Ok(id) = id.parse::<u64>() else { return false };
        let Some(pending) = self.lock().pending.remove(&id) else { return false };
        (pending.complete)(result.map_err(|refusal| to_error(&pending.method, refusal)));
        true
    }
}

/// Nothing is sent whose deadline has passed already: it is this error at once.
fn timed_out(method: &str, limit: Duration) -> Error {
    let after = limit.as_millis() as u64;
    Error::new(ErrorCode::ConnectionTimedOut, format!("{method} was not answered within {after} ms"))
        .with("method", method)
        .with("timeoutMs", after)
}

fn to_error(method: &str, refusal: Refusal) -> Error {
    let error =
        Error::new(ErrorCode::RpcError, refusal.message).with("rpcCode", refusal.code).with("method", method);
    match refusal.data.and_then(|data| serde_json::from_str::<serde_json::Value>(&data).ok()) {
        Some(data) => error.with("data", data),
        None => error,
    }
}

async fn read<H: Handler>(
    mut source: impl ByteSource,
    shared: Weak<Shared>,
    max_body: usize,
    mut handler: H,
    mut ended: watch::Receiver<bool>,
) {
    let Some(write_failed) = shared.upgrade().map(|shared| Arc::clone(&shared.write_failed)) else { return };
    let cause = tokio::select! {
        cause = read_frames(&mut source, &shared, max_body, &mut handler) => cause,
        cause = write_failure(&write_failed) => cause,
        // Closed from outside, or dropped: nothing is left to be told.
        _ = ended.wait_for(|ended| *ended) => return,
    };
    let error = handler.on_end(cause).await;
    if let Some(shared) = shared.upgrade() {
        shared.close(&error);
    }
}

async fn write_failure(write_failed: &Notify) -> Error {
    write_failed.notified().await;
    tokio::time::sleep(Client::LAST_WORDS).await;
    Error::new(ErrorCode::ConnectionLost, "the peer does not take any more input")
}

async fn read_frames<H: Handler>(
    source: &mut impl ByteSource,
    shared: &Weak<Shared>,
    max_body: usize,
    handler: &mut H,
) -> Error {
    let mut decoder = Decoder::new(max_body);
    loop {
        match source.next().await {
            Ok(Some(bytes)) => decoder.push(&bytes),
            Ok(None) => {
                let torn = if decoder.is_torn() { " in the middle of a message" } else { "" };
                return Error::new(
                    ErrorCode::ConnectionLost,
                    format!("the peer closed the connection{torn}"),
                );
            }
            Err(error) => {
                return Error::new(
                    ErrorCode::ConnectionLost,
                    format!("reading from the peer failed: {error}"),
                );
            }
        }
        loop {
            let next = decoder.next_frame();
            let bytes = decoder.take_noise();
            if bytes > 0 {
                handler.on_noise(Noise::Garbage { bytes });
            }
            match next {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    handler.ready().await;
                    let Some(shared) = shared.upgrade() else {
                        return Error::new(ErrorCode::ConnectionLost, "the connection was dropped");
                    };
                    if !dispatch(&frame, &shared, handler) {
                        handler.on_noise(Noise::BadBody { bytes: frame.len() });
                        decoder.reject(&frame);
                        decoder.take_noise();
                    }
                }
                Err(Broken::Noise(bytes)) => {
                    let message = format!("the peer wrote {bytes} bytes that are no messages");
                    return Error::new(ErrorCode::ConnectionLost, message);
                }
                Err(Broken::TooLong(bytes)) => {
                    let message =
                        format!("the peer announced a message of {bytes} bytes, {max_body} are read at most");
                    return Error::new(ErrorCode::ConnectionLost, message);
                }
            }
        }
    }
}

fn dispatch<H: Handler>(frame: &[u8], shared: &Shared, handler: &mut H) -> bool {
    if handler.take_frame(frame) {
        return true;
    }
    match message::parse(frame) {
        Some(Message::Notification { method, params }) => handler.on_notification(&method, params),
        Some(Message::Request { id, method, params }) => handler.on_request(id, &method, params),
        Some(Message::Reply { id, result }) => {
            if !shared.settle(id, result) {
                handler.on_noise(Noise::StrayReply);
            }
        }
        None => return false,
    }
    true
}

async fn write(mut sink: impl ByteSink, shared: Weak<Shared>, mut ended: watch::Receiver<bool>) {
    let Some(to_write) = shared.upgrade().map(|shared| Arc::clone(&shared.to_write)) else { return };
    loop {
        let Some(frames) = shared.upgrade().map(|shared| shared.take_frames()) else { return };
        let Some(bytes) = frames else {
            if *ended.borrow() {
                return;
            }
            tokio::select! {
                () = to_write.notified() => {}
                _ = ended.changed() => {}
            }
            if ended.has_changed().is_err() {
                return;
            }
            continue;
        };
        let size = bytes.len();
        // Not in a select: a frame is written whole, or the connection is over.
        let written = sink.write(bytes).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut state = shared.lock();
        state.outgoing_bytes = state.outgoing_bytes.saturating_sub(size);
        drop(state);
        if written.is_err() {
            shared.write_failed.notify_one();
            return;
        }
    }
}

async fn keep_time(shared: Weak<Shared>, mut ended: watch::Receiver<bool>) {
    let Some(changed) = shared.upgrade().map(|shared| Arc::clone(&shared.deadline)) else { return };
    loop {
        let Some(alive) = shared.upgrade() else { return };
        let now = Instant::now();
        let mut overdue = Vec::new();
        let next = {
            let mut state = alive.lock();
            loop {
                match state.deadlines.peek().map(|Reverse(entry)| *entry) {
                    Some((deadline, id)) if deadline <= now => {
                        state.deadlines.pop();
                        overdue.extend(state.pending.remove(&id));
                    }
                    // Deadlines of requests that were answered meanwhile are passed over without waking for them.
                    Some((_, id)) if !state.pending.contains_key(&id) => {
                        state.deadlines.pop();
                    }
                    next => break next.map(|(deadline, _)| deadline),
                }
            }
        };
        for pending in overdue {
            let error = timed_out(&pending.method, pending.timeout.unwrap_or_default());
            (pending.complete)(Err(error));
        }
        drop(alive);
        let sleep = async {
            match next {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep => {}
            () = changed.notified() => {}
            _ = ended.changed() => return,
        }
    }
}
