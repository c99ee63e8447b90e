//! The owner task of a client's session: orders, frames and clocks in, events out.

use super::in_flight::{Due, InFlight};
use super::{ClientEvent, ClientRequest, Order, SessionEnd, closed_error};
use crate::error::{Error, ErrorCode, Result};
use crate::runtime::client_request::{
    RuntimeFrame, RuntimeMessage, end_of, outcome_of, upload_decline, upload_response,
};
use crate::runtime::client_socket::{Address, ClientStream, Greeting, SocketEvent, open_again, pump};
use crate::runtime::outbox::Outbox;
use crate::runtime::reply::Reply;
use crate::runtime::sequence::{Arrival, Sequence};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How long a broken socket is replaced for. The runtime's grace period ends then.
pub(super) const RESUME_FOR: Duration = Duration::from_secs(30);
/// How long the end of a session may take: of ours, and of runtimes with a longer drain.
const END_PATIENCE: Duration = Duration::from_secs(60);
const END_PATIENCE_OTHERS: Duration = Duration::from_secs(95);
/// How long a missing frame is waited for before the socket is replaced.
const GAP_PATIENCE: Duration = Duration::from_secs(2);

enum Line {
    Connected(u64),
    /// Being opened anew, since then.
    Broken(Instant),
    Closed,
}

/// All that a session of the client is.
pub(super) struct Owner {
    address: Address,
    session_id: String,
    knows_hello: bool,
    outbox: Arc<Outbox>,
    inbound: Sequence<RuntimeFrame>,
    gap_since: Option<Instant>,
    line: Line,
    current: Option<InFlight>,
    last_number: u64,
    pending: VecDeque<ClientEvent>,
    events: mpsc::Sender<ClientEvent>,
    socket_sender: mpsc::Sender<SocketEvent>,
    sockets: mpsc::Receiver<SocketEvent>,
    reopened_sender: mpsc::Sender<Option<(ClientStream, Greeting)>>,
    reopened: mpsc::Receiver<Option<(ClientStream, Greeting)>>,
    ending_since: Option<Instant>,
    ended: watch::Sender<Option<SessionEnd>>,
    closed: watch::Sender<bool>,
}

impl Owner {
    pub(super) fn new(
        address: Address,
        session_id: String,
        knows_hello: bool,
        events: mpsc::Sender<ClientEvent>,
        ended: watch::Sender<Option<SessionEnd>>,
        closed: watch::Sender<bool>,
    ) -> Owner {
        let (socket_sender, sockets) = mpsc::channel(4);
        let (reopened_sender, reopened) = mpsc::channel(1);
        let outbox = Arc::new(Outbox::default());
        if knows_hello {
            outbox.make_resumable();
        }
        Owner {
            address,
            session_id,
            knows_hello,
            outbox,
            inbound: Sequence::default(),
            gap_since: None,
            line: Line::Closed,
            current: None,
            last_number: 0,
            pending: VecDeque::new(),
            events,
            socket_sender,
            sockets,
            reopened_sender,
            reopened,
            ending_since: None,
            ended,
            closed,
        }
    }

    pub(super) async fn run(
        mut self,
        stream: ClientStream,
        early: Vec<RuntimeFrame>,
        mut orders: mpsc::Receiver<Order>,
    ) {
        self.take_socket(stream, 0, early);
        let events = self.events.clone();
        loop {
            let wake = self.on_clock();
            if matches!(self.line, Line::Closed) {
                break;
            }
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Close) | None => break,
                    Some(order) => self.on_order(order),
                },
                // Nothing is read while events wait: who does not take them slows the runtime.
                Some(event) = self.sockets.recv(), if self.pending.is_empty() => self.on_socket(event),
                room = events.reserve(), if !self.pending.is_empty() => {
                    match (room, self.pending.pop_front()) {
                        (Ok(room), Some(event)) => room.send(event),
                        // Nobody takes events any more.
                        _ => self.pending.clear(),
                    }
                }
                Some(reopened) = self.reopened.recv() => self.on_reopened(reopened),
                () = sleep_until(wake) => {}
            }
        }
        self.finish(closed_error());
        self.say_ended(SessionEnd::default());
        self.outbox.close();
        // A moment for the writer to say goodbye.
        if let Line::Connected(_) = self.line {
            let last = async { while let Some(SocketEvent::Frame { .. }) = self.sockets.recv().await {} };
            let _ = tokio::time::timeout(Duration::from_secs(2), last).await;
        }
        self.closed.send_replace(true);
        for event in self.pending {
            // Whoever still listens gets what there was.
            if events.send(event).await.is_err() {
                break;
            }
        }
    }

    fn take_socket(&mut self, stream: ClientStream, received: u64, early: Vec<RuntimeFrame>) {
        match self.outbox.open_socket(received) {
            Some(socket) => {
                self.line = Line::Connected(socket);
                self.gap_since = None;
                tokio::spawn(pump(stream, self.outbox.clone(), socket, self.socket_sender.clone()));
                early.into_iter().for_each(|frame| self.on_frame(frame));
            }
            None => self.lose(Error::new(ErrorCode::RuntimeClosed, "the runtime has lost the session")),
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Request { request, reply } => {
                // The caller may have gone: then the request runs for nobody, as if aborted.
                let _ = reply.send(self.on_request(request));
            }
            Order::Abort { request } => {
                self.stop(Some(request), Error::new(ErrorCode::RuntimeAborted, "the request was aborted"));
            }
            Order::Answer(wanted, url, content_type) => {
                self.outbox.push(Reply::of_client(&upload_response(&wanted, &url, &content_type)));
            }
            // Who knows no hello, knows no declining either: its own clock is the answer.
            Order::Decline(wanted, reason) if self.knows_hello => {
                self.outbox.push(Reply::of_client(&upload_decline(&wanted, &reason)));
            }
            Order::Decline(..) => {}
            Order::End => {
                if self.ending_since.is_none() {
                    self.ending_since = Some(Instant::now());
                    self.outbox.push(Reply::of_client(&json!({"message_type": "end_session_message"})));
                    if let Some(current) = &mut self.current {
                        current.stop(ended_error(), Instant::now());
                    }
                }
            }
            Order::Close => {}
        }
    }

    fn on_request(&mut self, mut request: ClientRequest) -> Result<u64> {
        if self.ending_since.is_some() {
            return Err(closed_error());
        }
        if let Some(current) = &self.current {
            let problem = if current.is_told() {
                "the runtime has not ended the stopped request yet: wait, or connect anew"
            } else {
                "a request is in flight: one at a time, or connect once more"
            };
            return Err(Error::new(ErrorCode::RuntimeBusy, problem));
        }
        self.last_number += 1;
        let request_id = format!("{}-{}", &self.session_id[..8.min(self.session_id.len())], self.last_number);
        let mut message = request.message.take();
        message["request_id"] = request_id.as_str().into();
        self.outbox.push(Reply::of_client(&message));
        self.current = Some(InFlight::new(self.last_number, request_id, &request, Instant::now()));
        Ok(self.last_number)
    }

    /// Cancels the current request; its outcome is the error.
    fn stop(&mut self, request: Option<u64>, error: Error) {
        let Some(current) = &mut self.current else { return };
        let is_other = request.is_some_and(|request| request != current.number);
        if !is_other && current.stop(error, Instant::now()) {
            self.outbox.push(Reply::of_client(&json!({"message_type": "cancel_message"})));
        }
    }

    fn on_socket(&mut self, event: SocketEvent) {
        let Line::Connected(socket) = self.line else { return };
        match event {
            SocketEvent::Frame { socket: from, frame } if from == socket => self.on_frame(frame),
            SocketEvent::Closed { socket: from, deliberate } if from == socket => {
                let may_resume = self.knows_hello && !deliberate && self.ended.borrow().is_none();
                if may_resume {
                    self.reopen();
                } else {
                    self.lose(Error::new(ErrorCode::RuntimeClosed, "the runtime closed the connection"));
                }
            }
            SocketEvent::Frame { .. } | SocketEvent::Closed { .. } => {}
        }
    }

    fn on_frame(&mut self, frame: RuntimeFrame) {
        if let RuntimeMessage::Acknowledge(ack) = frame.message {
            self.outbox.acknowledged(ack);
            return;
        }
        if let RuntimeMessage::Hello { .. } = frame.message {
            return;
        }
        let (Some(seq), true) = (frame.seq, self.knows_hello) else { return self.on_message(frame) };
        let bytes = frame.bytes;
        match self.inbound.arrive(seq, frame, bytes) {
            Arrival::Due(frames) => {
                frames.into_iter().for_each(|frame| self.on_message(frame));
                self.outbox.acknowledge(self.inbound.received());
            }
            Arrival::Duplicate => self.outbox.acknowledge(self.inbound.received()),
            Arrival::Early => {}
            Arrival::Lost => self.reopen(),
        }
        self.gap_since = self.inbound.has_gap().then(|| self.gap_since.unwrap_or_else(Instant::now));
    }

    fn on_message(&mut self, frame: RuntimeFrame) {
        let is_mine = |current: &InFlight| match &frame.request_id {
            Some(id) => *id == current.request_id,
            // Others name no request: it can only be this one.
            None => true,
        };
        let live = self.current.as_mut().filter(|current| is_mine(current));
        let request = live.map(|current| {
            current.heard(Instant::now());
            (current.number, current.request_id.clone(), current.is_stopped())
        });
        match (frame.message, request) {
            (RuntimeMessage::Assistant(text_blocks), Some((request, _, false))) => {
                self.pending.push_back(ClientEvent::Assistant { request, text_blocks });
            }
            (RuntimeMessage::Output { stream, text, command }, Some((request, _, false))) => {
                self.pending.push_back(ClientEvent::Output { request, stream, text, command });
            }
            (RuntimeMessage::Terminal(terminal), Some((_, id, _))) => {
                // A runtime that knows ids names the request, at least in the metadata of a refusal.
                let refused = terminal.get("metadata").and_then(|metadata| metadata.get("request_id"));
                let named =
                    frame.request_id.is_some() || refused.and_then(Value::as_str) == Some(id.as_str());
                if named || !self.knows_hello {
                    self.finish_with(outcome_of(terminal));
                }
            }
            (RuntimeMessage::Wanted(wanted), _) => self.pending.push_back(ClientEvent::Wanted(wanted)),
            (RuntimeMessage::Confirm(confirm), _) => {
                self.finish(ended_error());
                self.say_ended(end_of(&confirm));
            }
            _ => {}
        }
    }

    /// The request's outcome, unless it was stopped for a reason of our own.
    fn finish_with(&mut self, outcome: Result<Map<String, Value>>) {
        let Some(current) = self.current.take() else { return };
        let request = current.number;
        if let Some(outcome) = current.outcome(outcome) {
            self.pending.push_back(ClientEvent::Ended { request, outcome });
        }
    }

    fn finish(&mut self, error: Error) {
        self.finish_with(Err(error));
    }

    fn say_ended(&mut self, end: SessionEnd) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(end);
            }
            first
        });
    }

    fn lose(&mut self, error: Error) {
        self.line = Line::Closed;
        self.finish(error);
    }

    fn reopen(&mut self) {
        self.outbox.abandon_socket();
        let since = match self.line {
            Line::Broken(since) => since,
            _ => Instant::now(),
        };
        self.line = Line::Broken(since);
        let (address, session_id) = (self.address.clone(), self.session_id.clone());
        let (received, reopened) = (self.inbound.received(), self.reopened_sender.clone());
        tokio::spawn(async move {
            let again = tokio::select! {
                again = open_again(&address, &session_id, received, RESUME_FOR.saturating_sub(since.elapsed())) => again,
                () = reopened.closed() => None,
            };
            // Fails when the owner has given up.
            let _ = reopened.send(again).await;
        });
    }

    fn on_reopened(&mut self, reopened: Option<(ClientStream, Greeting)>) {
        match reopened {
            Some((stream, Greeting { answer: Some((true, received)), early })) => {
                self.take_socket(stream, received, early);
            }
            _ => self.lose(Error::new(
                ErrorCode::RuntimeClosed,
                "the connection broke, and the runtime does not have the session any more",
            )),
        }
    }

    /// Does what clocks say; when to look again.
    fn on_clock(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut wake: Option<Instant> = None;
        let mut wake_at = |at: Instant| wake = Some(wake.map_or(at, |wake| wake.min(at)));
        let listening = self.pending.is_empty();
        let mut due = self.current.as_mut().map(|current| current.on_clock(now, listening));
        if let Some(Due::Stop(error)) = due {
            self.stop(None, error);
            due = self.current.as_mut().map(|current| current.on_clock(now, listening));
        }
        match (due, &self.current) {
            (Some(Due::At(Some(at))), _) => wake_at(at),
            (Some(Due::Tell(error)), Some(current)) => {
                let outcome = Err(error);
                self.pending.push_back(ClientEvent::Ended { request: current.number, outcome });
            }
            _ => {}
        }
        if let Some(since) = self.gap_since {
            if now >= since + GAP_PATIENCE {
                self.gap_since = None;
                self.reopen();
            } else {
                wake_at(since + GAP_PATIENCE);
            }
        }
        if let Some(since) = self.ending_since
            && self.ended.borrow().is_none()
        {
            let patience = if self.knows_hello { END_PATIENCE } else { END_PATIENCE_OTHERS };
            if now >= since + patience {
                self.lose(closed_error());
            } else {
                wake_at(since + patience);
            }
        }
        wake
    }
}

fn ended_error() -> Error {
    Error::new(ErrorCode::RuntimeClosed, "the session was ended while the request ran")
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
