//! The handle of a client's session.

use super::event::{ClientEvent, ClientRequest, Order, SessionEnd};
use crate::wire::runtime_message::UploadRequest;
use ground::error::{Error, ErrorCode, Result};
use ground::mpsc;
use std::sync::Arc;
use tokio::sync::{Mutex, oneshot, watch};

/// Longest text handed out in one batch of events, in bytes.
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
    /// Closes the socket without ending the session first. May be called from any thread.
    pub fn abandon(&self) {
        if let Some(orders) = self.orders.upgrade() {
            // The queue is full only while the session is busy with earlier orders. The session ends anyway when the client is
            // dropped.
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
        // Sending fails when the session is over, and then the request is over as well.
        let _ = self.orders.send(Order::Abort { request }).await;
    }

    /// Tells the runtime where to put a file.
    pub async fn answer(&self, request: UploadRequest, presigned_url: String, content_type: String) {
        // Sending fails when the session is over, and then the runtime no longer uploads.
        let _ = self.orders.send(Order::Answer { request, presigned_url, content_type }).await;
    }

    /// Tells the runtime that a file is not taken.
    pub async fn decline(&self, request: UploadRequest, reason: String) {
        // Sending fails when the session is over, and then the runtime no longer uploads.
        let _ = self.orders.send(Order::Decline { request, reason }).await;
    }

    /// Whether the runtime numbers its messages and continues the session over another socket. `None` until the runtime has sent
    /// something.
    pub fn resumes(&self) -> Option<bool> {
        *self.resumes.borrow()
    }

    /// Waits for the next event and returns all events that are ready. An empty list means that no event will follow.
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

    /// Ends the session after the remaining files have been uploaded. Repeated calls give the same answer.
    pub async fn end_session(&self) -> SessionEnd {
        // Sending fails when the session has ended already.
        let _ = self.orders.send(Order::End).await;
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.map(|end| end.clone());
        end.ok().flatten().unwrap_or_default()
    }

    /// Ends the session, then closes the socket.
    pub async fn close(&self) {
        self.end_session().await;
        // Sending fails when the socket is closed already.
        let _ = self.orders.send(Order::Close).await;
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }
}

pub(super) fn closed_error() -> Error {
    Error::new(ErrorCode::RuntimeClosed, "the session with the runtime is over: connect again")
}
