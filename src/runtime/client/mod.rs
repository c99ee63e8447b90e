//! The client of a runtime: one session, one request at a time, over as many sockets as it takes.
//!
//! [`RuntimeClient`] is a cloneable handle. An owner task holds the state; it waits for orders of the handle, frames of the
//! socket and clocks, and hands events out by a bounded queue: who does not take them stops the reading.
//!
//! A runtime that knows hello is resumed when the socket breaks. One that does not is talked to as it is used to: no request
//! while one is in flight, cancel before the next, the end of the session asked for and waited for.

mod connecting;
mod in_flight;
mod owner;

pub use connecting::Connecting;

use crate::error::{Error, ErrorCode, Result};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// Text handed out in one batch of events.
const BATCH_BYTES: usize = 1 << 20;

/// How to connect.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub token: Option<String>,
    /// `None`: no limit.
    pub connect_timeout: Option<Duration>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions { token: None, connect_timeout: Some(Duration::from_secs(60)) }
    }
}

/// A file that the runtime wants an URL for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactWanted {
    pub filename: String,
    pub filepath: String,
    pub upload_id: Option<String>,
}

/// What happens, in order.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    Assistant {
        request: u64,
        text_blocks: Vec<String>,
    },
    Output {
        request: u64,
        stream: String,
        text: String,
        command: String,
    },
    Wanted(ArtifactWanted),
    /// The last event of a request.
    Ended {
        request: u64,
        outcome: Result<Map<String, Value>>,
    },
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionEnd {
    pub confirmed: bool,
    pub uploaded: u64,
    /// Paths and reasons.
    pub undelivered: Vec<(String, String)>,
}

/// A request to send: the message without its id.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub message: Value,
    /// `None`: no limit.
    pub timeout: Option<Duration>,
    /// Between two messages of the runtime. `None`: no limit.
    pub idle_timeout: Option<Duration>,
}

impl ClientRequest {
    /// The clock that has run out before anything is sent: a zero is a deadline that has passed.
    fn passed(&self) -> Option<Error> {
        let zero = Some(Duration::ZERO);
        let error = |code, path: &str| {
            Error::new(code, format!("nothing was sent: `{path}` had passed already")).with(path, 0)
        };
        if self.timeout == zero {
            return Some(error(ErrorCode::RuntimeTimedOut, "timeoutMs"));
        }
        (self.idle_timeout == zero).then(|| error(ErrorCode::RuntimeIdle, "idleTimeoutMs"))
    }
}

enum Order {
    Request { request: ClientRequest, reply: oneshot::Sender<Result<u64>> },
    Abort { request: u64 },
    Answer(ArtifactWanted, String, String),
    Decline(ArtifactWanted, String),
    End,
    Close,
}

/// A session with a runtime. Dropping the last clone closes the socket.
#[derive(Clone)]
pub struct RuntimeClient {
    orders: mpsc::Sender<Order>,
    events: Arc<Mutex<mpsc::Receiver<ClientEvent>>>,
    ended: watch::Receiver<Option<SessionEnd>>,
    closed: watch::Receiver<bool>,
}

/// A handle that does not keep the session alive.
#[derive(Clone)]
pub struct WeakRuntimeClient {
    orders: mpsc::WeakSender<Order>,
}

impl WeakRuntimeClient {
    /// Closes the socket without further ado, from whatever thread.
    pub fn abandon(&self) {
        if let Some(orders) = self.orders.upgrade() {
            // Full only when as many orders are due that the session is not idle: its client is gone all the same.
            let _ = orders.try_send(Order::Close);
        }
    }

    pub fn is_over(&self) -> bool {
        self.orders.upgrade().is_none_or(|orders| orders.is_closed())
    }
}

impl RuntimeClient {
    pub fn downgrade(&self) -> WeakRuntimeClient {
        WeakRuntimeClient { orders: self.orders.downgrade() }
    }

    /// As [`Connecting::open`].
    ///
    /// # Errors
    /// The same.
    pub async fn connect(url: &str, options: ClientOptions) -> Result<RuntimeClient> {
        Connecting::new(url, options).open().await
    }

    /// Sends a request; its events carry the number returned.
    ///
    /// # Errors
    /// `RUNTIME_BUSY` while another one is in flight, `RUNTIME_CLOSED`.
    pub async fn request(&self, request: ClientRequest) -> Result<u64> {
        if let Some(error) = request.passed() {
            return Err(error);
        }
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Request { request, reply }).await.map_err(|_| closed_error())?;
        answer.await.map_err(|_| closed_error())?
    }

    /// Stops a request; it ends with `RUNTIME_ABORTED`.
    pub async fn abort(&self, request: u64) {
        // Fails when the session is over, and the request with it.
        let _ = self.orders.send(Order::Abort { request }).await;
    }

    /// Tells the runtime where to put a file.
    pub async fn answer(&self, wanted: ArtifactWanted, presigned_url: String, content_type: String) {
        // Fails when the session is over: nobody uploads any more.
        let _ = self.orders.send(Order::Answer(wanted, presigned_url, content_type)).await;
    }

    /// Tells the runtime that a file is not taken.
    pub async fn decline(&self, wanted: ArtifactWanted, reason: String) {
        // Fails when the session is over: nobody uploads any more.
        let _ = self.orders.send(Order::Decline(wanted, reason)).await;
    }

    /// What happened next, all that is there; empty when nothing will happen any more.
    pub async fn next_events(&self) -> Vec<ClientEvent> {
        let mut events = self.events.lock().await;
        let mut batch = Vec::new();
        let mut bytes = 0;
        if let Some(first) = events.recv().await {
            bytes += first.weight();
            batch.push(first);
            while bytes < BATCH_BYTES
                && let Ok(next) = events.try_recv()
            {
                bytes += next.weight();
                batch.push(next);
            }
        }
        batch
    }

    /// Ends the session: files still on their way come home first. Any number of times, the same answer.
    pub async fn end_session(&self) -> SessionEnd {
        // Fails when the session has ended.
        let _ = self.orders.send(Order::End).await;
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.map(|end| end.clone());
        end.ok().flatten().unwrap_or_default()
    }

    /// Ends the session, then closes the socket.
    pub async fn close(&self) {
        self.end_session().await;
        let _ = self.orders.send(Order::Close).await;
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }
}

impl ClientEvent {
    fn weight(&self) -> usize {
        match self {
            ClientEvent::Assistant { text_blocks, .. } => text_blocks.iter().map(String::len).sum(),
            ClientEvent::Output { text, command, .. } => text.len() + command.len(),
            ClientEvent::Wanted(_) | ClientEvent::Ended { .. } => 256,
        }
    }
}

fn closed_error() -> Error {
    Error::new(ErrorCode::RuntimeClosed, "the session with the runtime is over: connect anew")
}
