//! What answers an invocation: JavaScript's handler, or a coding agent through the harness.

use super::kept_session::KeptSession;
use super::outbox::{Outbox, Ticket};
use super::wire::frame::Body;
use super::wire::reply;
use ground::redaction::Redactor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Why a request is to stop. The first reason stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The client said so.
    Cancelled,
    /// The client ended the session.
    SessionEnded,
    /// The client is gone.
    Disconnected,
    /// The server is closing.
    ServerClosing,
    /// Its outcome is on the wire already: the handler reported an error.
    Answered,
}

/// Where a request's own parts learn that they are to stop.
#[derive(Clone, Debug)]
pub struct CancelSignal(pub(super) watch::Receiver<Option<CancelReason>>);

impl CancelSignal {
    pub fn reason(&self) -> Option<CancelReason> {
        *self.0.borrow()
    }

    /// Resolves with true when the request is to stop, with false when it is over without.
    pub async fn stopped(mut self) -> bool {
        self.0.wait_for(Option::is_some).await.is_ok()
    }

    /// Resolves when the request is to stop; never, when it ended without.
    pub async fn cancelled(&mut self) -> CancelReason {
        loop {
            if let Some(reason) = self.reason() {
                return reason;
            }
            if self.0.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// What an agent is asked.
#[derive(Clone, Debug)]
pub struct AgentInvocation {
    pub request_id: Arc<str>,
    pub source_id: Option<String>,
    pub system_prompt: String,
    pub user_prompt: String,
    pub model: String,
    pub env: Option<BTreeMap<String, String>>,
    pub secrets: Vec<String>,
    /// As the client gave it: `{"type": "json_schema", "schema": {...}}`, unchecked.
    pub output_format: Option<Value>,
    pub cancel: CancelSignal,
    /// The client's own, for as long as its session lasts.
    pub kept: KeptSession,
}

/// What an agent brought home.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentData {
    Text(String),
    Structured(Value),
}

/// An answer with what is to be known about it.
#[derive(Clone, Debug)]
pub struct AgentAnswer {
    pub data: AgentData,
    pub metadata: Map<String, Value>,
}

/// Why there is no answer, in words for the client.
#[derive(Clone, Debug, Default)]
pub struct AgentFault {
    pub error: String,
    pub metadata: Map<String, Value>,
}

pub type AgentFuture = Pin<Box<dyn Future<Output = Result<AgentAnswer, AgentFault>> + Send>>;

/// Answers invocations, many at a time.
pub trait AgentHandler: Send + Sync + 'static {
    fn run(&self, invocation: AgentInvocation, sender: AgentSender) -> AgentFuture;

    /// Whether its agents run in a sandbox. They must not get in as clients then, whose commands run outside.
    fn is_sandboxed(&self) -> bool {
        false
    }
}

/// Where no agent is served: commands only.
pub struct NoAgent;

impl AgentHandler for NoAgent {
    fn run(&self, _: AgentInvocation, _: AgentSender) -> AgentFuture {
        let error = "this runtime serves no agent: it runs commands only".to_owned();
        Box::pin(async move { Err(AgentFault { error, metadata: Map::new() }) })
    }
}

/// An outcome on its way to the session.
#[derive(Debug)]
pub struct Decided {
    pub ticket: Ticket,
    pub terminal: Body,
    /// A directory that could not be registered: a later request may try again.
    pub failed_root: Option<usize>,
}

/// What a handler says while it works.
#[derive(Clone)]
pub struct AgentSender {
    pub(super) outbox: Arc<Outbox>,
    pub(super) ticket: Ticket,
    pub(super) redactor: Redactor,
    pub(super) decided: mpsc::Sender<Decided>,
}

impl AgentSender {
    /// A text without the session's secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }

    /// Sends text to the client; waits while the client is behind. After the request's outcome it does nothing.
    pub async fn assistant(&self, text_blocks: Vec<String>) {
        for body in reply::assistant(&self.redactor.redact_pieces(&text_blocks)) {
            if !self.outbox.stream(&self.ticket, body).await {
                return;
            }
        }
    }

    /// Ends the request with an error, whatever the handler does later.
    pub async fn error(&self, mut fault: AgentFault) {
        if self.outbox.decide(self.ticket.number) {
            self.redactor.redact_fields(&mut fault.metadata);
            let terminal = reply::error(&self.redactor.redact(&fault.error), fault.metadata);
            // Fails when the session is over, and nobody waits for the terminal.
            let _ =
                self.decided.send(Decided { ticket: self.ticket.clone(), terminal, failed_root: None }).await;
        }
    }
}
