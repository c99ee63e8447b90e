//! The handle of a client's session.

use super::event::{ClientEvent, ClientRequest, Order, SessionEnd};
use crate::wire::runtime_message::UploadRequest;
use ground::error::{Error, ErrorCode, Result};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// Text handed out in one batch of events.
const BATCH_BYTES: usize = 1 << 20;

/// A session with a runtime. Dropping the last clone closes the socket.
#[derive(Clone)]
pub struct RuntimeClient {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) events: Arc<Mutex<mpsc::Receiver<ClientEvent>>>,
    pub(super) ended: watch::Receiver<Option<SessionEnd>>,
    pub(super) closed: watch::Receiver<bool>,
    pub(super) resumes: watch::Receiver<Option<bool>>,
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
    pub async fn answer(&self, request: UploadRequest, presigned_url: String, content_type: String) {
        // Fails when the session is over: nobody uploads any more.
        let _ = self.orders.send(Order::Answer { request, presigned_url, content_type }).await;
    }

    /// Tells the runtime that a file is not taken.
    pub async fn decline(&self, request: UploadRequest, reason: String) {
        // Fails when the session is over: nobody uploads any more.
        let _ = self.orders.send(Order::Decline { request, reason }).await;
    }

    /// Whether the runtime numbers its messages and continues the session over another socket. `None` until it has said
    /// anything.
    pub fn resumes(&self) -> Option<bool> {
        *self.resumes.borrow()
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
        // Fails when it is closed.
        let _ = self.orders.send(Order::Close).await;
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }
}

pub(super) fn closed_error() -> Error {
    Error::new(ErrorCode::RuntimeClosed, "the session with the runtime is over: connect again")
}
