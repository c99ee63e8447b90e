//! One session: a client's requests, its files, and its end. The owner task holds all state.
//!
//! The task waits for the client's frames, outcomes of requests, found files, ended uploads, and clocks. After each of them
//! [`Session::advance`] asks the pure siblings what is due: `artifact` decides which files to request, and `end_session` whether
//! a terminal message or the confirm may be sent.
//!
//! A session outlives its socket: a client that sent hello may come back within the grace period. Uploads under way are finished
//! even when it does not.

mod advance;
mod artifacts;

use crate::artifact::{ArtifactBook, PARALLEL_UPLOADS, UploadFailure, Uploaded};
use crate::handler::{CancelReason, CancelSignal, Decided};
use crate::kept_session::KeptSession;
use crate::outbox::{Outbox, Ticket};
use crate::request::{RequestContext, RequestKind, run_request};
use crate::secrets::SessionSecrets;
use crate::sequence::{Arrival, Sequence};
use crate::service::{Closing, Service};
use crate::upload::upload;
use crate::wire::capability::Capabilities;
use crate::wire::client_message::{ArtifactDirs, ClientMessage, Hello};
use crate::wire::frame::{Body, ClientFrame, Malformed};
use crate::wire::reply;
use ground::mpsc;
use ground::os::{Awake, sleep_until};
use serde_json::Map;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wires::watch::{FoundFile, Sweep, TreeWatch};

/// Pause between two sweeps while a process still writes files.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How long a client that resumes may take to acknowledge the confirm.
const CONFIRM_LINGER: Duration = Duration::from_secs(5);

/// An event that a session's owner task handles.
pub enum SessionEvent {
    /// A socket of a client that does not resume.
    Open {
        reply: oneshot::Sender<u64>,
    },
    /// A socket whose client sent hello.
    Attach {
        hello: Hello,
        reply: oneshot::Sender<Attached>,
    },
    Frame {
        socket: u64,
        frame: Result<ClientFrame, Malformed>,
    },
    /// A socket ended; `deliberate` when the client closed it on purpose.
    Closed {
        socket: u64,
        deliberate: bool,
    },
    Swept(Sweep),
}

/// The answer to a hello.
pub struct Attached {
    /// Number of the socket. `None`: frames that the client misses are gone, and it has to begin a new session.
    pub socket: Option<u64>,
    pub hello: Body,
}

/// The way for other tasks to reach a session.
#[derive(Clone)]
pub struct SessionHandle {
    pub events: mpsc::Sender<SessionEvent>,
    pub outbox: Arc<Outbox>,
}

/// The state of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Connected(u64),
    /// Its socket broke; it may come back.
    Away(Instant),
    /// It will not come back.
    Gone,
}

struct Running {
    ticket: Ticket,
    cancel: watch::Sender<Option<CancelReason>>,
    started: Instant,
    next_heartbeat: Option<Instant>,
    deciding: Option<Deciding>,
}

/// A request whose outcome waits for its files.
struct Deciding {
    terminal: Body,
    since: Instant,
    last_progress: Instant,
    /// Number of the sweep that has to finish first.
    sweep: u64,
}

struct Ending {
    since: Instant,
    /// Number of the last sweep, which starts once no request runs.
    sweep: Option<u64>,
    taken_open_files: bool,
    confirmed: Option<Instant>,
}

/// The client, as its last socket left it.
struct ClientState {
    /// Set when the client may come back.
    id: Option<String>,
    /// The capabilities in the hello of the last socket.
    capabilities: Capabilities,
    outbox: Arc<Outbox>,
    inbound: Sequence<Result<ClientMessage, Malformed>>,
    presence: Presence,
    /// Whether a socket has sent hello before.
    greeted: bool,
}

/// The request that runs, and what requests leave for the next one.
struct Requests {
    running: Option<Running>,
    begun: u64,
    /// The agent's session, if one is kept.
    kept: KeptSession,
    secrets: SessionSecrets,
    decided: mpsc::Sender<Decided>,
}

/// The files of the session.
struct Files {
    roots: Vec<Option<String>>,
    /// The watched directories, by the names that the client uses.
    root_names: HashSet<String>,
    watch: Option<(TreeWatch, mpsc::Receiver<FoundFile>)>,
    artifacts: ArtifactBook,
    /// Files that were open for writing at the last sweep.
    written: Vec<FoundFile>,
    sweeps_started: u64,
    sweeps_done: u64,
    last_sweep: Instant,
    /// Takes the results of sweeps.
    swept: mpsc::Sender<SessionEvent>,
    uploads: JoinSet<(u64, Result<Uploaded, UploadFailure>)>,
    upload_slots: Arc<Semaphore>,
}

pub struct Session {
    service: Arc<Service>,
    client: ClientState,
    requests: Requests,
    files: Files,
    ending: Option<Ending>,
    closing: bool,
    events: mpsc::Receiver<SessionEvent>,
    decided: mpsc::Receiver<Decided>,
    wake: Option<Instant>,
    awake: Awake,
}

impl Session {
    /// A session that is ready to run; `id` when its client may come back.
    pub fn new(service: Arc<Service>, id: Option<String>) -> (Session, SessionHandle) {
        let (event_sender, events) = mpsc::channel(64);
        let (decided_sender, decided) = mpsc::channel(4);
        let outbox = Arc::new(Outbox::default());
        if id.is_some() {
            outbox.make_resumable();
        }
        let handle = SessionHandle { events: event_sender.clone(), outbox: outbox.clone() };
        let now = Instant::now();
        let session = Session {
            service,
            client: ClientState {
                id,
                capabilities: Capabilities::default(),
                outbox,
                inbound: Sequence::default(),
                presence: Presence::Away(now),
                greeted: false,
            },
            requests: Requests {
                running: None,
                begun: 0,
                kept: KeptSession::default(),
                secrets: SessionSecrets::default(),
                decided: decided_sender,
            },
            files: Files {
                roots: Vec::new(),
                root_names: HashSet::new(),
                watch: None,
                artifacts: ArtifactBook::default(),
                written: Vec::new(),
                sweeps_started: 0,
                sweeps_done: 0,
                last_sweep: now,
                swept: event_sender,
                uploads: JoinSet::new(),
                upload_slots: Arc::new(Semaphore::new(PARALLEL_UPLOADS)),
            },
            ending: None,
            closing: false,
            events,
            decided,
            wake: None,
            awake: Awake::new(),
        };
        (session, handle)
    }

    /// Runs the session until it is over.
    pub async fn run(mut self) {
        let mut closing = self.service.closing.subscribe();
        let _live = self.service.live();
        if *closing.borrow_and_update() != Closing::Open {
            self.on_server_closing();
        }
        while !self.advance() {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => break,
                },
                Some(decided) = self.decided.recv() => self.on_decided(decided),
                Some(file) = next_found(&mut self.files.watch) => self.on_found(file),
                Some(Ok((id, outcome))) = self.files.uploads.join_next(), if !self.files.uploads.is_empty() => {
                    self.on_uploaded(id, outcome);
                }
                Ok(()) = closing.changed() => {
                    if *closing.borrow() == Closing::Now {
                        break;
                    }
                    self.on_server_closing();
                }
                () = sleep_until(self.wake) => {}
            }
        }
        self.cancel(CancelReason::Disconnected);
        self.client.outbox.close();
        // The server waits for this task, so that no agent outlives its client.
        self.requests.kept.close().await;
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Open { reply } => {
                if let Some(socket) = self.client.outbox.open_socket(0) {
                    self.client.presence = Presence::Connected(socket);
                    // Sending fails when the connection ended before this. Its own event reports that.
                    let _ = reply.send(socket);
                }
            }
            SessionEvent::Attach { hello, reply } => self.on_hello(&hello, reply),
            SessionEvent::Frame { socket, frame } => self.on_frame(socket, frame),
            SessionEvent::Closed { socket, deliberate } => self.on_closed(socket, deliberate),
            SessionEvent::Swept(sweep) => self.on_swept(sweep),
        }
    }

    fn on_hello(&mut self, hello: &Hello, reply: oneshot::Sender<Attached>) {
        let socket = self.client.outbox.open_socket(hello.received);
        if let Some(socket) = socket {
            self.client.presence = Presence::Connected(socket);
        }
        let id = self.client.id.clone().unwrap_or_default();
        let resumed = socket.is_some() && self.client.greeted;
        self.client.greeted = true;
        self.client.capabilities = hello.capabilities;
        let hello = self.hello(&id, resumed);
        // Sending fails when the connection ended before this. Its own event reports that.
        let _ = reply.send(Attached { socket, hello });
    }

    fn hello(&self, id: &str, resumed: bool) -> Body {
        let grace_ms = u64::try_from(self.service.grace.as_millis()).unwrap_or(u64::MAX);
        reply::hello(id, resumed, self.client.inbound.received(), grace_ms)
    }

    fn on_frame(&mut self, socket: u64, frame: Result<ClientFrame, Malformed>) {
        if self.client.presence != Presence::Connected(socket) {
            return;
        }
        let (seq, message, bytes) = match frame {
            Ok(frame) => {
                if let Some(ack) = frame.ack {
                    self.client.outbox.acknowledged(ack);
                }
                if let ClientMessage::Acknowledge(acknowledge) = frame.message {
                    self.client.outbox.acknowledged(acknowledge.ack);
                    return;
                }
                (frame.seq, Ok(frame.message), frame.bytes)
            }
            Err(malformed) => {
                let (seq, bytes) = (malformed.seq, malformed.bytes);
                (seq, Err(malformed), bytes)
            }
        };
        // Without hello the sequence numbers have no meaning.
        let (Some(seq), Some(_)) = (seq, &self.client.id) else { return self.on_message(message) };
        match self.client.inbound.arrive(seq, message, bytes) {
            Arrival::Due(messages) => {
                messages.into_iter().for_each(|message| self.on_message(message));
                self.client.outbox.acknowledge(self.client.inbound.received());
            }
            Arrival::Duplicate => self.client.outbox.acknowledge(self.client.inbound.received()),
            Arrival::Early => {}
            // Only a new socket can bring the missing frame.
            Arrival::Lost => {
                self.client.outbox.abandon_socket();
                self.client.presence = Presence::Away(Instant::now());
            }
        }
    }

    fn on_message(&mut self, message: Result<ClientMessage, Malformed>) {
        match message {
            Err(malformed) => self.refuse(&malformed.problem, malformed.request_id),
            Ok(ClientMessage::Invocation(mut invocation)) => {
                let (id, dirs) = (invocation.request_id.clone(), invocation.take_artifacts());
                self.on_request(id, dirs, RequestKind::Invocation(invocation));
            }
            Ok(ClientMessage::CommandExecution(mut execution)) => {
                let (id, dirs) = (execution.request_id.clone(), execution.take_artifacts());
                self.on_request(id, dirs, RequestKind::CommandExecution(execution));
            }
            Ok(ClientMessage::UploadResponse(response)) => {
                self.note_progress();
                if let Ok(due) = self.files.artifacts.answer(response) {
                    let (http, slots) = (self.service.upload_http.clone(), self.files.upload_slots.clone());
                    self.files.uploads.spawn(async move {
                        // The semaphore is never closed.
                        let _slot = slots.acquire().await;
                        let outcome = upload(&http, &due).await;
                        (due.id, outcome)
                    });
                }
            }
            Ok(ClientMessage::UploadDecline(decline)) => {
                self.note_progress();
                self.files.artifacts.decline(&decline);
            }
            Ok(ClientMessage::Cancel) => self.cancel(CancelReason::Cancelled),
            Ok(ClientMessage::EndSession) => self.on_end_session(),
            // A late hello can't begin to resume, but the peer still gets the server's capabilities. A repeated hello is ignored.
            Ok(ClientMessage::Hello(hello)) if self.client.id.is_none() => {
                self.client.capabilities = hello.capabilities;
                self.client.outbox.push(self.hello("", false));
            }
            Ok(ClientMessage::Hello(_)) => {}
            Ok(ClientMessage::Acknowledge(_) | ClientMessage::Unknown) => {}
        }
    }

    fn refuse(&mut self, problem: &str, request_id: Option<String>) {
        let mut metadata = Map::new();
        metadata.insert("error_name".to_owned(), "ProtocolError".into());
        if let Some(id) = request_id {
            metadata.insert("request_id".to_owned(), id.into());
        }
        self.client.outbox.push(reply::error(&self.requests.secrets.redactor().redact(problem), metadata));
    }

    fn on_request(&mut self, request_id: Option<String>, dirs: ArtifactDirs, kind: RequestKind) {
        if self.ending.is_some() || self.closing {
            return self.refuse("The session is ending: no request is taken any more.", request_id);
        }
        self.requests.begun += 1;
        let id: Arc<str> = match &request_id {
            Some(id) => id.as_str().into(),
            None => format!("request-{}", self.requests.begun).into(),
        };
        if self.requests.running.is_some() {
            return self.refuse("Received request while another is in flight!", request_id);
        }
        // The secrets are learned before the request runs, and only from a request that runs.
        let learned = match &kind {
            RequestKind::Invocation(invocation) => self.requests.secrets.learn_invocation(invocation),
            RequestKind::CommandExecution(execution) => self.requests.secrets.learn_execution(execution),
        };
        if let Err(problem) = learned {
            return self.refuse(&problem, request_id);
        }
        let Some(ticket) = self.client.outbox.begin(id) else {
            return self.refuse("Received request while another is in flight!", request_id);
        };
        let new_roots = self.new_roots(dirs);
        let (cancel, cancelled) = watch::channel(None);
        let context = RequestContext {
            outbox: self.client.outbox.clone(),
            ticket: ticket.clone(),
            cancel: CancelSignal(cancelled),
            redactor: self.requests.secrets.redactor(),
            http: self.service.http.clone(),
            handler: self.service.handler.clone(),
            environment: self.service.environment.clone(),
            decided: self.requests.decided.clone(),
            kept: self.requests.kept.clone(),
            new_roots,
            watch: self.files.watch.as_ref().map(|(watch, _)| watch.clone()),
        };
        let now = Instant::now();
        let next_heartbeat = self.service.heartbeat_interval.map(|interval| now + interval);
        self.requests.running =
            Some(Running { ticket, cancel, started: now, next_heartbeat, deciding: None });
        ground::task::spawn(run_request(context, kind));
    }

    fn cancel(&mut self, reason: CancelReason) {
        if let Some(running) = &self.requests.running {
            running.cancel.send_if_modified(|current| {
                let first = current.is_none();
                if first {
                    *current = Some(reason);
                }
                first
            });
        }
    }

    fn on_decided(&mut self, decided: Decided) {
        let failed = decided.failed_root.and_then(|number| self.files.roots.get_mut(number));
        if let Some(name) = failed.and_then(Option::take) {
            self.files.root_names.remove(&name);
        }
        let is_current = self
            .requests
            .running
            .as_ref()
            .is_some_and(|running| running.ticket.number == decided.ticket.number);
        if !is_current {
            return;
        }
        // A handler that reported an error is stopped.
        self.cancel(CancelReason::Answered);
        let sweep = self.look();
        let now = Instant::now();
        if let Some(running) = &mut self.requests.running {
            running.deciding =
                Some(Deciding { terminal: decided.terminal, since: now, last_progress: now, sweep });
        }
    }

    fn on_end_session(&mut self) {
        if self.ending.is_none() {
            self.ending =
                Some(Ending { since: Instant::now(), sweep: None, taken_open_files: false, confirmed: None });
            self.cancel(CancelReason::SessionEnded);
        }
    }

    fn on_closed(&mut self, socket: u64, deliberate: bool) {
        if self.client.presence != Presence::Connected(socket) {
            return;
        }
        if deliberate || self.client.id.is_none() {
            self.on_gone();
        } else {
            self.client.presence = Presence::Away(Instant::now());
        }
    }

    fn on_gone(&mut self) {
        self.client.presence = Presence::Gone;
        self.client.outbox.close();
        self.cancel(CancelReason::Disconnected);
    }

    fn on_server_closing(&mut self) {
        self.closing = true;
        self.cancel(CancelReason::ServerClosing);
    }
}

async fn next_found(watch: &mut Option<(TreeWatch, mpsc::Receiver<FoundFile>)>) -> Option<FoundFile> {
    match watch {
        Some((_, found)) => found.recv().await,
        None => std::future::pending().await,
    }
}
