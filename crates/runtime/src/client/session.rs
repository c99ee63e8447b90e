//! The owner task of a client's session: orders, frames and clocks in, events out.

use super::event::{ClientEvent, ClientRequest, Order, RequestResult, SessionEnd};
use super::handle::closed_error;
use super::in_flight::{Due, InFlight};
use super::line::Line;
use super::peer::Peer;
use super::socket::{Address, ClientStream, Greeting, SocketEnd, SocketEvent};
use super::upload_queue::{MAX_WAITING, UploadQueue};
use crate::sequence::Arrival;
use crate::wire::capability::{Capabilities, Capability};
use crate::wire::client_message::{ClientMessage, UploadDecline, UploadResponse};
use crate::wire::frame::{Body, RuntimeFrame};
use crate::wire::runtime_message::{RuntimeError, RuntimeMessage, UploadRequest};
use ground::error::{Error, ErrorCode, Result};
use ground::mpsc;
use ground::os::Awake;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Longest time that the end of a session may take. Other runtimes may drain longer than this project's.
const END_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN_OTHERS: Duration = Duration::from_secs(95);
/// The state of a client's session.
pub(super) struct ClientSession {
    peer: Peer,
    /// Whether the runtime resumes, for the handle; `None` until that is known.
    resumes: watch::Sender<Option<bool>>,
    line: Line,
    current: Option<InFlight>,
    last_number: u64,
    pending: VecDeque<ClientEvent>,
    uploads: UploadQueue,
    events: mpsc::Sender<ClientEvent>,
    ending_since: Option<Instant>,
    ended: watch::Sender<Option<SessionEnd>>,
    awake: Awake,
}

impl ClientSession {
    pub(super) fn new(
        address: Address,
        session_id: String,
        capabilities: Option<Capabilities>,
        resumes: watch::Sender<Option<bool>>,
        events: mpsc::Sender<ClientEvent>,
        ended: watch::Sender<Option<SessionEnd>>,
    ) -> ClientSession {
        ClientSession {
            line: Line::new(address, session_id),
            peer: capabilities.map_or(Peer::Undecided, Peer::Resumes),
            resumes,
            current: None,
            last_number: 0,
            pending: VecDeque::new(),
            uploads: UploadQueue::default(),
            events,
            ending_since: None,
            ended,
            awake: Awake::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        stream: ClientStream,
        early: Vec<RuntimeFrame>,
        mut orders: mpsc::Receiver<Order>,
        closed: watch::Sender<bool>,
    ) {
        self.tell_peer();
        self.take_socket(stream, 0, early);
        let events = self.events.clone();
        loop {
            let wake = self.on_clock();
            let rung = self.awake.clone();
            self.hand_on();
            if self.line.is_closed() {
                break;
            }
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Close) | None => break,
                    Some(order) => self.on_order(order),
                },
                // Nothing is read while events wait, so that a slow caller slows the runtime down.
                Some(event) = self.line.sockets.recv(), if self.pending.is_empty() => self.on_socket(event),
                room = events.reserve(), if !self.pending.is_empty() => {
                    match (room, self.pending.pop_front()) {
                        (Ok(room), Some(event)) => room.send(event),
                        // The receiver of events is gone.
                        _ => self.pending.clear(),
                    }
                }
                Some(reopened) = self.line.reopened.recv() => self.on_reopened(reopened),
                () = rung.sleep_until(wake) => {}
            }
        }
        self.finish(closed_error());
        self.say_ended(SessionEnd::default());
        self.line.part().await;
        closed.send_replace(true);
        for event in self.pending {
            // A receiver that is still there gets the remaining events.
            if events.send(event).await.is_err() {
                break;
            }
        }
    }

    fn take_socket(&mut self, stream: ClientStream, received: u64, early: Vec<RuntimeFrame>) {
        if self.line.take_socket(stream, received) {
            early.into_iter().for_each(|frame| self.on_frame(frame));
        } else {
            self.lose(Error::new(ErrorCode::RuntimeClosed, "the runtime has lost the session"));
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Request { request, reply } => {
                // The caller may have gone. Then the request continues without a receiver, as after an abort.
                let _ = reply.send(self.on_request(request));
            }
            Order::Abort { request } => {
                self.stop(Some(request), Error::new(ErrorCode::RuntimeAborted, "the request was aborted"));
            }
            Order::Answer { request, presigned_url, content_type } => {
                self.uploads.on_answer();
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
                self.uploads.on_answer();
                self.decline(request, reason);
            }
            Order::End => {
                if self.ending_since.is_none() {
                    let now = self.now();
                    self.ending_since = Some(now);
                    self.say(&ClientMessage::EndSession);
                    if let Some(current) = &mut self.current {
                        current.stop(ended_error(), now);
                    }
                }
            }
            Order::Close => {}
        }
    }

    /// Learns from a frame whether the runtime numbers its frames and resumes.
    fn learn_peer(&mut self, frame: &RuntimeFrame) {
        let before = self.peer;
        self.peer = before.on_frame(frame);
        if before == self.peer {
            return;
        }
        if self.peer == Peer::Plain {
            self.line.outbox.make_plain();
        }
        self.tell_peer();
    }

    fn tell_peer(&self) {
        self.resumes.send_replace(self.peer.resumes());
    }

    fn say(&self, message: &ClientMessage) {
        self.line.outbox.push(Body::of(message));
    }

    /// Runtimes without this capability get no message; their own timeout applies.
    fn decline(&self, request: UploadRequest, reason: String) {
        if self.peer.has(Capability::ArtifactUploadDecline) {
            let UploadRequest { upload_id, filepath, .. } = request;
            self.say(&ClientMessage::UploadDecline(UploadDecline { upload_id, filepath, reason }));
        }
    }

    /// Passes upload requests on to the caller, as fast as it answers. Passes none while the answers can't be sent.
    fn hand_on(&mut self) {
        while self.line.outbox.has_room() {
            let Some(request) = self.uploads.next() else { return };
            self.pending.push_back(ClientEvent::UploadRequested(request));
        }
    }

    fn on_upload_request(&mut self, request: UploadRequest) {
        if !request.names_a_file() {
            let problem = format!(
                "Invalid file name {:?}: artifact names may not be empty, \".\" or \"..\", nor contain \"/\" or \"\\\".",
                request.filename
            );
            return self.decline(request, problem);
        }
        if !self.uploads.push(request) {
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
                "the runtime has not ended the stopped request yet: wait, or open another connection"
            } else {
                "a request is running: send one at a time, or open another connection"
            };
            return Err(Error::new(ErrorCode::RuntimeBusy, problem));
        }
        self.last_number += 1;
        let session = &self.line.session_id;
        let request_id = format!("{}-{}", &session[..8.min(session.len())], self.last_number);
        let now = self.now();
        self.current = Some(InFlight::new(self.last_number, request_id.clone(), &request, now));
        self.say(&request.message.into_message(&request_id));
        Ok(self.last_number)
    }

    /// Cancels the current request; its outcome is the error.
    fn stop(&mut self, request: Option<u64>, error: Error) {
        let now = self.now();
        let Some(current) = &mut self.current else { return };
        let is_other = request.is_some_and(|request| request != current.number);
        if !is_other && current.stop(error, now) {
            self.say(&ClientMessage::Cancel);
        }
    }

    fn on_socket(&mut self, event: SocketEvent) {
        match event {
            SocketEvent::Frame { socket, frame } if self.line.is_by(socket) => self.on_frame(frame),
            SocketEvent::Closed { socket, end } if self.line.is_by(socket) => {
                let may_resume = self.peer != Peer::Plain && !end.deliberate && self.ended.borrow().is_none();
                if may_resume {
                    self.reopen(end);
                } else if end.deliberate {
                    self.lose(end.into_error(ErrorCode::RuntimeClosed, "the runtime closed the connection"));
                } else {
                    self.lose(
                        end.into_error(ErrorCode::RuntimeClosed, "the connection to the runtime broke"),
                    );
                }
            }
            SocketEvent::Frame { .. } | SocketEvent::Closed { .. } => {}
        }
    }

    fn on_frame(&mut self, frame: RuntimeFrame) {
        self.learn_peer(&frame);
        if let RuntimeMessage::Acknowledge(acknowledge) = frame.message {
            self.line.outbox.acknowledged(acknowledge.ack);
            return;
        }
        if let RuntimeMessage::Hello(_) = frame.message {
            return;
        }
        let (Some(seq), true) = (frame.seq, self.peer != Peer::Plain) else { return self.on_message(frame) };
        match self.line.arrive(seq, frame) {
            Arrival::Due(frames) => {
                frames.into_iter().for_each(|frame| self.on_message(frame));
                self.line.acknowledge();
            }
            Arrival::Duplicate => self.line.acknowledge(),
            Arrival::Early => {}
            Arrival::Lost => self.reopen(lost_frames()),
        }
    }

    fn on_message(&mut self, frame: RuntimeFrame) {
        let is_mine = |current: &InFlight| match &frame.request_id {
            Some(id) => *id == current.request_id,
            // Other runtimes name no request: the frame can only mean the current one.
            None => true,
        };
        let now = self.now();
        let live = self.current.as_mut().filter(|current| is_mine(current));
        let request = live.map(|current| {
            current.heard(now);
            (current.number, current.request_id.clone(), current.is_stopped())
        });
        // A runtime that knows ids names the request.
        let is_named = frame.request_id.is_some() || self.peer == Peer::Plain;
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
            // A refusal does not belong to a request, but its text names the request.
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

    /// Ends the request with this outcome, or with the client's own reason when the client stopped it.
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
        self.line.close();
        self.finish(error);
    }

    fn reopen(&mut self, end: SocketEnd) {
        if let Err(error) = self.line.reopen(end) {
            self.lose(error);
        }
    }

    fn on_reopened(&mut self, reopened: Option<(ClientStream, Greeting)>) {
        match reopened {
            Some((stream, Greeting { answer: Some(hello), early })) if hello.resumed => {
                self.peer = Peer::Resumes(hello.capabilities);
                self.tell_peer();
                self.take_socket(stream, hello.received, early);
            }
            _ => self.lose(Error::new(
                ErrorCode::RuntimeClosed,
                "the connection broke, and the runtime does not have the session any more",
            )),
        }
    }

    /// Now, on the clock that rests while this process is stopped.
    fn now(&mut self) -> Instant {
        let (now, gap) = self.awake.tick();
        if let Some(current) = &mut self.current {
            current.on_stopped(gap, now);
        }
        now
    }

    /// Acts on the clocks that have expired. Returns the time of the next check.
    fn on_clock(&mut self) -> Option<Instant> {
        let now = self.now();
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
        match self.line.gap_ends() {
            Some(end) if now >= end => self.reopen(lost_frames()),
            Some(end) => wake_at(end),
            None => {}
        }
        if let Some(since) = self.ending_since
            && self.ended.borrow().is_none()
        {
            let within = if self.peer.resumes() == Some(true) { END_WITHIN } else { END_WITHIN_OTHERS };
            if now >= since + within {
                self.lose(closed_error());
            } else {
                wake_at(since + within);
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

fn protocol_error(problem: &str) -> Error {
    Error::new(ErrorCode::RuntimeProtocol, format!("cannot parse the runtime's answer: {problem}"))
}

/// Converts an error message of the runtime into the caller's error.
fn failure_of(error: RuntimeError) -> Error {
    let text =
        if error.error.is_empty() { "the runtime reported an error without a message" } else { &error.error };
    // Metadata nested deeper than the parser's limit is kept as text.
    let metadata = error.metadata.read::<Value>().unwrap_or_else(|_| Value::from(error.metadata.text()));
    Error::new(ErrorCode::RuntimeFailed, text).with("metadata", metadata)
}
