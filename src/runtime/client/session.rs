//! The owner task of a client's session: orders, frames and clocks in, events out.

use super::event::{ClientEvent, ClientRequest, Order, RequestResult, SessionEnd};
use super::handle::closed_error;
use super::in_flight::{Due, InFlight};
use super::reconnect::{Next, Reconnect};
use super::socket::{Address, ClientStream, Greeting, SocketEnd, SocketEvent, open_again, pump};
use crate::error::{Error, ErrorCode, Result};
use crate::os::sleep_until;
use crate::retry::random_fraction;
use crate::runtime::outbox::Outbox;
use crate::runtime::sequence::{Arrival, Sequence};
use crate::runtime::wire::capability::{Capabilities, Capability};
use crate::runtime::wire::client_message::{ClientMessage, UploadDecline, UploadResponse};
use crate::runtime::wire::frame::{Body, RuntimeFrame};
use crate::runtime::wire::runtime_message::{RuntimeError, RuntimeMessage, UploadRequest};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How long a broken socket is replaced for. The runtime's grace period ends then.
pub(super) const RESUME_FOR: Duration = Duration::from_secs(30);
/// How long the end of a session may take: of ours, and of runtimes with a longer drain.
const END_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN_OTHERS: Duration = Duration::from_secs(95);
/// How long a missing frame is waited for before the socket is replaced.
const GAP_WITHIN: Duration = Duration::from_secs(2);
/// Files that the caller is asked for at a time. Runtimes of others ask for all that they have at once.
const MAX_ASKED: usize = 32;
/// Requests for files that wait for their turn, and what they may take.
const MAX_WAITING: usize = 100_000;
const MAX_WAITING_BYTES: usize = 16 << 20;

enum Line {
    Connected(u64),
    /// Being opened anew, since then.
    Broken(Instant),
    Closed,
}

/// All that a session of the client is.
pub(super) struct ClientSession {
    address: Address,
    session_id: String,
    /// What the runtime knows beyond the protocol; `None` when it knows no hello.
    capabilities: Option<Capabilities>,
    reconnect: Reconnect,
    outbox: Arc<Outbox>,
    inbound: Sequence<RuntimeFrame>,
    gap_since: Option<Instant>,
    line: Line,
    current: Option<InFlight>,
    last_number: u64,
    pending: VecDeque<ClientEvent>,
    /// Files that the runtime asked for, to be handed on when the caller has answered others.
    waiting: VecDeque<UploadRequest>,
    waiting_bytes: usize,
    /// Handed on and not answered.
    asked: usize,
    events: mpsc::Sender<ClientEvent>,
    socket_sender: mpsc::Sender<SocketEvent>,
    sockets: mpsc::Receiver<SocketEvent>,
    reopened_sender: mpsc::Sender<Option<(ClientStream, Greeting)>>,
    reopened: mpsc::Receiver<Option<(ClientStream, Greeting)>>,
    ending_since: Option<Instant>,
    ended: watch::Sender<Option<SessionEnd>>,
    closed: watch::Sender<bool>,
}

impl ClientSession {
    pub(super) fn new(
        address: Address,
        session_id: String,
        capabilities: Option<Capabilities>,
        events: mpsc::Sender<ClientEvent>,
        ended: watch::Sender<Option<SessionEnd>>,
        closed: watch::Sender<bool>,
    ) -> ClientSession {
        let (socket_sender, sockets) = mpsc::channel(4);
        let (reopened_sender, reopened) = mpsc::channel(1);
        let outbox = Arc::new(Outbox::default());
        if capabilities.is_some() {
            outbox.make_resumable();
        }
        ClientSession {
            address,
            session_id,
            capabilities,
            reconnect: Reconnect::new(Instant::now()),
            outbox,
            inbound: Sequence::default(),
            gap_since: None,
            line: Line::Closed,
            current: None,
            last_number: 0,
            pending: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            asked: 0,
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
            self.hand_on();
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
                self.reconnect.on_opened(Instant::now());
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
            Order::Answer { request, presigned_url, content_type } => {
                self.asked = self.asked.saturating_sub(1);
                let UploadRequest { upload_id, filename, filepath, .. } = request;
                self.say(&ClientMessage::UploadResponse(UploadResponse {
                    upload_id,
                    filename,
                    filepath,
                    presigned_url,
                    content_type,
                }));
            }
            Order::Decline { request, reason } => {
                self.asked = self.asked.saturating_sub(1);
                self.decline(request, reason);
            }
            Order::End => {
                if self.ending_since.is_none() {
                    self.ending_since = Some(Instant::now());
                    self.say(&ClientMessage::EndSession);
                    if let Some(current) = &mut self.current {
                        current.stop(ended_error(), Instant::now());
                    }
                }
            }
            Order::Close => {}
        }
    }

    fn knows_hello(&self) -> bool {
        self.capabilities.is_some()
    }

    fn say(&self, message: &ClientMessage) {
        self.outbox.push(Body::of(message));
    }

    /// Who does not know it is not told: its own clock is the answer.
    fn decline(&self, request: UploadRequest, reason: String) {
        if self.capabilities.is_some_and(|runtime| runtime.has(Capability::ArtifactUploadDecline)) {
            let UploadRequest { upload_id, filepath, .. } = request;
            self.say(&ClientMessage::UploadDecline(UploadDecline { upload_id, filepath, reason }));
        }
    }

    /// Has the caller asked for files, as many as it answers; none while our answers don't get across.
    fn hand_on(&mut self) {
        while self.asked < MAX_ASKED && self.outbox.has_room() {
            let Some(request) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= weight_of(&request);
            self.asked += 1;
            self.pending.push_back(ClientEvent::UploadRequested(request));
        }
    }

    fn on_upload_request(&mut self, request: UploadRequest) {
        if !request.names_a_file() {
            return self.decline(request, "the name is none that a file can have".to_owned());
        }
        self.waiting_bytes += weight_of(&request);
        self.waiting.push_back(request);
        if self.waiting.len() > MAX_WAITING || self.waiting_bytes > MAX_WAITING_BYTES {
            self.lose(Error::new(
                ErrorCode::RuntimeProtocol,
                format!("the runtime asks for more than {MAX_WAITING} files at once"),
            ));
        }
    }

    fn on_request(&mut self, request: ClientRequest) -> Result<u64> {
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
        self.current = Some(InFlight::new(self.last_number, request_id.clone(), &request, Instant::now()));
        self.say(&request.message.into_message(&request_id));
        Ok(self.last_number)
    }

    /// Cancels the current request; its outcome is the error.
    fn stop(&mut self, request: Option<u64>, error: Error) {
        let Some(current) = &mut self.current else { return };
        let is_other = request.is_some_and(|request| request != current.number);
        if !is_other && current.stop(error, Instant::now()) {
            self.say(&ClientMessage::Cancel);
        }
    }

    fn on_socket(&mut self, event: SocketEvent) {
        let Line::Connected(socket) = self.line else { return };
        match event {
            SocketEvent::Frame { socket: from, frame } if from == socket => self.on_frame(frame),
            SocketEvent::Closed { socket: from, end } if from == socket => {
                let may_resume = self.knows_hello() && !end.deliberate && self.ended.borrow().is_none();
                if may_resume {
                    self.reopen(end);
                } else if end.deliberate {
                    self.lose(end.into_error("the runtime closed the connection"));
                } else {
                    self.lose(end.into_error("the connection to the runtime broke"));
                }
            }
            SocketEvent::Frame { .. } | SocketEvent::Closed { .. } => {}
        }
    }

    fn on_frame(&mut self, frame: RuntimeFrame) {
        if let RuntimeMessage::Acknowledge(acknowledge) = frame.message {
            self.outbox.acknowledged(acknowledge.ack);
            return;
        }
        if let RuntimeMessage::Hello(_) = frame.message {
            return;
        }
        let (Some(seq), true) = (frame.seq, self.knows_hello()) else { return self.on_message(frame) };
        let bytes = frame.bytes;
        match self.inbound.arrive(seq, frame, bytes) {
            Arrival::Due(frames) => {
                frames.into_iter().for_each(|frame| self.on_message(frame));
                self.outbox.acknowledge(self.inbound.received());
            }
            Arrival::Duplicate => self.outbox.acknowledge(self.inbound.received()),
            Arrival::Early => {}
            Arrival::Lost => self.reopen(lost_frames()),
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
        // A runtime that knows ids names the request.
        let is_named = frame.request_id.is_some() || !self.knows_hello();
        match (frame.message, request) {
            (RuntimeMessage::Assistant(said), Some((request, _, false))) => {
                self.pending.push_back(ClientEvent::Assistant { request, text_blocks: said.text_blocks });
            }
            (RuntimeMessage::CommandOutput(output), Some((request, _, false))) => {
                let (stream, text, command) = (output.stream, output.text, output.command);
                self.pending.push_back(ClientEvent::Output { request, stream, text, command });
            }
            (RuntimeMessage::Result(result), Some(_)) if is_named => {
                self.finish_with(Ok(RequestResult::Agent(result)));
            }
            (RuntimeMessage::CommandResults(results), Some(_)) if is_named => {
                self.finish_with(Ok(RequestResult::Commands(results)));
            }
            // A refusal is no part of a request, but names it.
            (RuntimeMessage::Error(error), Some((_, id, _))) if is_named || error.refuses(&id) => {
                self.finish_with(Err(failure_of(error)));
            }
            (RuntimeMessage::Unknown, Some(_)) if is_named => {
                if let Some(problem) = frame.problem {
                    self.finish_with(Err(protocol_error(&problem)));
                }
            }
            (RuntimeMessage::UploadRequest(request), _) => self.on_upload_request(request),
            (RuntimeMessage::UploadResult(result), _) => {
                self.pending.push_back(ClientEvent::Uploaded(result));
            }
            (RuntimeMessage::Confirm(confirm), _) => {
                self.finish(ended_error());
                self.pending.push_back(ClientEvent::Confirmed);
                self.say_ended(SessionEnd {
                    confirmed: true,
                    uploaded: confirm.uploaded,
                    undelivered: confirm.undelivered,
                });
            }
            _ => {}
        }
    }

    /// The request's outcome, unless it was stopped for a reason of our own.
    fn finish_with(&mut self, outcome: Result<RequestResult>) {
        let Some(current) = self.current.take() else { return };
        let request = current.number;
        let outcome = match outcome {
            Ok(RequestResult::Commands(_)) if current.is_prompt => {
                Err(protocol_error("the prompt was answered with the results of commands"))
            }
            Ok(RequestResult::Agent(_)) if !current.is_prompt => {
                Err(protocol_error("the commands were answered with the result of a prompt"))
            }
            outcome => outcome,
        };
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

    fn reopen(&mut self, end: SocketEnd) {
        self.outbox.abandon_socket();
        let now = Instant::now();
        let since = match self.line {
            Line::Broken(since) => since,
            _ => now,
        };
        let across = self.inbound.received() + self.outbox.acknowledged_through();
        let pause = match self.reconnect.on_broken(across, random_fraction(), now) {
            Next::OpenAfter(pause) => pause,
            Next::GiveUp { sockets } => {
                return self.lose(end.into_error(&format!(
                    "{sockets} connections in a row broke before anything got across"
                )));
            }
        };
        self.line = Line::Broken(since);
        let (address, session_id) = (self.address.clone(), self.session_id.clone());
        let (received, reopened) = (self.inbound.received(), self.reopened_sender.clone());
        let within = RESUME_FOR.saturating_sub(since.elapsed());
        tokio::spawn(async move {
            let again = tokio::select! {
                again = open_again(&address, &session_id, received, pause, within) => again,
                () = reopened.closed() => None,
            };
            // Fails when the owner has given up.
            let _ = reopened.send(again).await;
        });
    }

    fn on_reopened(&mut self, reopened: Option<(ClientStream, Greeting)>) {
        match reopened {
            Some((stream, Greeting { answer: Some(hello), early })) if hello.resumed => {
                self.take_socket(stream, hello.received, early);
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
            if now >= since + GAP_WITHIN {
                self.gap_since = None;
                self.reopen(lost_frames());
            } else {
                wake_at(since + GAP_WITHIN);
            }
        }
        if let Some(since) = self.ending_since
            && self.ended.borrow().is_none()
        {
            let patience = if self.knows_hello() { END_WITHIN } else { END_WITHIN_OTHERS };
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

fn lost_frames() -> SocketEnd {
    SocketEnd { fault: Some("frames were lost".to_owned()), ..SocketEnd::default() }
}

fn weight_of(request: &UploadRequest) -> usize {
    let warning = request.warning.as_ref().map_or(0, String::len);
    request.filename.len()
        + request.filepath.len()
        + request.upload_id.as_ref().map_or(0, String::len)
        + warning
}

fn protocol_error(problem: &str) -> Error {
    Error::new(ErrorCode::RuntimeProtocol, format!("the runtime's answer can't be read: {problem}"))
}

/// What the caller gets for an error of the runtime.
fn failure_of(error: RuntimeError) -> Error {
    let text =
        if error.error.is_empty() { "the runtime reported an error without words" } else { &error.error };
    // Deeper than anybody looks, it is told as text.
    let metadata = error.metadata.read::<Value>().unwrap_or_else(|_| Value::from(error.metadata.text()));
    Error::new(ErrorCode::RuntimeFailed, text).with("metadata", metadata)
}
