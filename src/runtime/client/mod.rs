//! The client of a runtime: one session, one request at a time, over as many sockets as it takes.
//!
//! [`RuntimeClient`] is a cloneable handle. An owner task holds the state; it waits for orders of the handle, frames of the
//! socket and clocks, and hands events out by a bounded queue: who does not take them stops the reading.
//!
//! A runtime that knows hello is resumed when the socket breaks. One that does not is talked to as it is used to: no request
//! while one is in flight, cancel before the next, the end of the session asked for and waited for.

mod owner;

use crate::error::{Error, ErrorCode, Result};
use crate::runtime::client_socket::{Address, greet, open};
use crate::runtime::connection::random_id;
use owner::{Owner, RESUME_FOR};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// How long a runtime that did not announce itself may take to answer hello.
const HELLO_PATIENCE: Duration = Duration::from_millis(500);
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

impl RuntimeClient {
    /// Connects and says hello.
    ///
    /// # Errors
    /// `INVALID_OPTION`, `RUNTIME_UNAUTHORIZED`, `RUNTIME_CLOSED` when there is no runtime, `RUNTIME_TIMED_OUT`.
    pub async fn connect(url: &str, options: ClientOptions) -> Result<RuntimeClient> {
        let address = Address { url: url.to_owned(), token: options.token };
        let session_id = random_id()
            .ok_or_else(|| Error::new(ErrorCode::RuntimeClosed, "the system gives no random bytes"))?;
        let connecting = async {
            let (mut stream, announced) = open(&address).await?;
            let patience = if announced { RESUME_FOR } else { HELLO_PATIENCE };
            let greeting = greet(&mut stream, &session_id, 0, patience).await;
            Ok::<_, Error>((stream, greeting))
        };
        let (stream, greeting) = match options.connect_timeout {
            None => connecting.await?,
            Some(limit) => tokio::time::timeout(limit, connecting).await.map_err(|_| {
                Error::new(
                    ErrorCode::RuntimeTimedOut,
                    format!("no runtime answered within {} ms", limit.as_millis()),
                )
                .with("timeoutMs", limit.as_millis() as u64)
            })??,
        };
        let Ok(greeting) = greeting else {
            return Err(Error::new(
                ErrorCode::RuntimeClosed,
                "the connection broke before the runtime said anything",
            ));
        };
        let (orders, order_queue) = mpsc::channel(16);
        let (event_sender, events) = mpsc::channel(16);
        let (ended_sender, ended) = watch::channel(None);
        let (closed_sender, closed) = watch::channel(false);
        let owner = Owner::new(
            address,
            session_id,
            greeting.answer.is_some(),
            event_sender,
            ended_sender,
            closed_sender,
        );
        tokio::spawn(owner.run(stream, greeting.early, order_queue));
        Ok(RuntimeClient { orders, events: Arc::new(Mutex::new(events)), ended, closed })
    }

    /// Sends a request; its events carry the number returned.
    ///
    /// # Errors
    /// `RUNTIME_BUSY` while another one is in flight, `RUNTIME_CLOSED`.
    pub async fn request(&self, request: ClientRequest) -> Result<u64> {
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
