//! The connection to the runtime over successive sockets, and which frames have been received and acknowledged.

use super::reconnect::{Next, Reconnect};
use super::socket::{Address, ClientStream, Greeting, SocketEnd, SocketEvent, open_again, pump};
use crate::outbox::Outbox;
use crate::sequence::{Arrival, Sequence};
use crate::wire::frame::RuntimeFrame;
use ground::error::Error;
use ground::mpsc;
use ground::os::within;
use ground::random;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the client tries to replace a broken socket. The runtime's grace period is as long.
pub(super) const RESUME_FOR: Duration = Duration::from_secs(30);
/// How long the client waits for a missing frame before it replaces the socket.
const GAP_WITHIN: Duration = Duration::from_secs(2);

enum Link {
    Connected(u64),
    /// A new socket is being opened, since this time.
    Broken(Instant),
    Closed,
}

pub(super) struct Line {
    address: Address,
    pub session_id: String,
    state: Link,
    reconnect: Reconnect,
    pub outbox: Arc<Outbox>,
    inbound: Sequence<RuntimeFrame>,
    gap_since: Option<Instant>,
    socket_sender: mpsc::Sender<SocketEvent>,
    pub sockets: mpsc::Receiver<SocketEvent>,
    reopened_sender: mpsc::Sender<Option<(ClientStream, Greeting)>>,
    pub reopened: mpsc::Receiver<Option<(ClientStream, Greeting)>>,
}

impl Line {
    /// Frames stay in the outbox until the runtime acknowledges them, unless [`Outbox::make_plain`] is called.
    pub(super) fn new(address: Address, session_id: String) -> Line {
        let (socket_sender, sockets) = mpsc::channel(4);
        let (reopened_sender, reopened) = mpsc::channel(1);
        let outbox = Arc::new(Outbox::default());
        outbox.make_resumable();
        Line {
            address,
            session_id,
            state: Link::Closed,
            reconnect: Reconnect::new(Instant::now()),
            outbox,
            inbound: Sequence::default(),
            gap_since: None,
            socket_sender,
            sockets,
            reopened_sender,
            reopened,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, Link::Closed)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state, Link::Connected(_))
    }

    /// Whether events of this socket still count.
    pub(super) fn is_by(&self, socket: u64) -> bool {
        matches!(self.state, Link::Connected(own) if own == socket)
    }

    pub(super) fn close(&mut self) {
        self.state = Link::Closed;
    }

    /// Continues on this socket. False when frames that the runtime misses are no longer kept.
    pub(super) fn take_socket(&mut self, stream: ClientStream, received: u64) -> bool {
        let Some(socket) = self.outbox.open_socket(received) else { return false };
        self.state = Link::Connected(socket);
        self.gap_since = None;
        self.reconnect.on_opened(Instant::now());
        ground::task::spawn(pump(stream, self.outbox.clone(), socket, self.socket_sender.clone()));
        true
    }

    /// Takes a numbered frame; returns the frames that are now due in order.
    pub(super) fn arrive(&mut self, number: u64, frame: RuntimeFrame) -> Arrival<RuntimeFrame> {
        let bytes = frame.bytes;
        let arrival = self.inbound.arrive(number, frame, bytes);
        self.gap_since = self.inbound.has_gap().then(|| self.gap_since.unwrap_or_else(Instant::now));
        arrival
    }

    /// Acknowledges all frames that have been handed on.
    pub(super) fn acknowledge(&self) {
        self.outbox.acknowledge(self.inbound.received());
    }

    /// The time when waiting for a missing frame ends.
    pub(super) fn gap_ends(&self) -> Option<Instant> {
        self.gap_since.map(|since| since + GAP_WITHIN)
    }

    /// Replaces the socket. `Err` when too many sockets in a row broke without bringing anything.
    pub(super) fn reopen(&mut self, end: SocketEnd) -> Result<(), Error> {
        self.outbox.abandon_socket();
        // The next socket brings the missing frames.
        self.gap_since = None;
        let now = Instant::now();
        let since = match self.state {
            Link::Broken(since) => since,
            Link::Connected(_) | Link::Closed => now,
        };
        let across = self.inbound.received() + self.outbox.acknowledged_through();
        let pause = match self.reconnect.on_broken(across, random::fraction(), now) {
            Next::OpenAfter(pause) => pause,
            Next::GiveUp { sockets } => {
                let problem = format!("{sockets} connections in a row broke before any message arrived");
                return Err(end.into_error(ground::error::ErrorCode::RuntimeClosed, &problem));
            }
        };
        self.state = Link::Broken(since);
        let (address, session_id) = (self.address.clone(), self.session_id.clone());
        let (received, reopened) = (self.inbound.received(), self.reopened_sender.clone());
        let limit = RESUME_FOR.saturating_sub(since.elapsed());
        ground::task::spawn(async move {
            let again = tokio::select! {
                again = open_again(&address, &session_id, received, pause, limit) => again,
                () = reopened.closed() => None,
            };
            // Sending fails when the owner has given up.
            let _ = reopened.send(again).await;
        });
        Ok(())
    }

    /// Lets the writer close the socket properly.
    pub(super) async fn part(&mut self) {
        self.outbox.close();
        if self.is_connected() {
            let last = async { while let Some(SocketEvent::Frame { .. }) = self.sockets.recv().await {} };
            within(Duration::from_secs(2), last).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::parse_runtime_frame;
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::Message;

    /// The address of a runtime that continues every session.
    async fn known_session() -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        ground::task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                socket.next().await.unwrap().unwrap();
                let hello = r#"{"message_type":"hello_message","resumed":true}"#;
                socket.send(Message::text(hello)).await.unwrap();
                ground::task::spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
            }
        });
        Address { url, token: None }
    }

    fn arrive(line: &mut Line, seq: u64) -> bool {
        let text = format!(r#"{{"message_type":"assistant_message","text_blocks":[],"seq":{seq}}}"#);
        matches!(line.arrive(seq, parse_runtime_frame(&text).unwrap()), Arrival::Due(_))
    }

    #[tokio::test]
    async fn a_gap_is_of_the_socket_that_skipped_a_frame_and_its_clock_begins_once() {
        let mut line = Line::new(known_session().await, "0123456789abcdef".to_owned());
        assert!(arrive(&mut line, 1) && line.gap_ends().is_none());
        let before = Instant::now();
        assert!(!arrive(&mut line, 4));
        let ends = line.gap_ends().unwrap();
        assert!(ends >= before + GAP_WITHIN && ends <= Instant::now() + GAP_WITHIN);
        // Neither what comes after the gap nor a part of what is missing gives the rest more time.
        assert!(!arrive(&mut line, 5) && arrive(&mut line, 2));
        assert_eq!(line.gap_ends(), Some(ends));
        assert!(arrive(&mut line, 3));
        assert_eq!(line.gap_ends(), None);

        assert!(!arrive(&mut line, 7) && line.gap_ends().is_some());
        line.reopen(SocketEnd::default()).unwrap();
        // Otherwise the owner would replace the socket that is being opened, each time it wakes.
        assert_eq!(line.gap_ends(), None);
        let (stream, greeting) = line.reopened.recv().await.unwrap().expect("another socket");
        assert!(line.take_socket(stream, greeting.answer.unwrap().received));
        assert_eq!(line.gap_ends(), None, "what is missing is on its way by the new one");
        let opened = Instant::now();
        assert!(!arrive(&mut line, 8));
        assert!(line.gap_ends().unwrap() >= opened + GAP_WITHIN, "a clock of its own");
        assert!(arrive(&mut line, 6));
        assert_eq!(line.gap_ends(), None);
    }
}
