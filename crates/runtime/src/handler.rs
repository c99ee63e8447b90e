//! The handler that answers invocations: JavaScript's, or a coding agent through the harness.

use super::kept_session::KeptSession;
use super::outbox::{Outbox, Ticket};
use super::wire::frame::Body;
use super::wire::reply;
use ground::mpsc;
use ground::redaction::Redactor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// The reason why a request is stopped. The first reason is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The client cancelled it.
    Cancelled,
    /// The client ended the session.
    SessionEnded,
    /// The client is gone.
    Disconnected,
    /// The server is closing.
    ServerClosing,
    /// Its outcome has been sent already: the handler reported an error.
    Answered,
}

/// Tells the parts of a request that they have to stop.
#[derive(Clone, Debug)]
pub struct CancelSignal(pub(super) watch::Receiver<Option<CancelReason>>);

impl CancelSignal {
    pub fn reason(&self) -> Option<CancelReason> {
        *self.0.borrow()
    }

    /// Resolves with true when the request has to stop, with false when it has ended by itself.
    pub async fn stopped(mut self) -> bool {
        self.0.wait_for(Option::is_some).await.is_ok()
    }

    /// Resolves when the request has to stop. Stays pending when it has ended by itself.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }
}

/// The input of an agent: a prompt with its settings.
#[derive(Clone)]
pub struct AgentInvocation {
    pub request_id: Arc<str>,
    pub source_id: Option<String>,
    pub system_prompt: String,
    pub user_prompt: String,
    pub model: String,
    pub env: Option<BTreeMap<String, String>>,
    pub secrets: Vec<String>,
    /// The client's value, unchecked: `{"type": "json_schema", "schema": {...}}`.
    pub output_format: Option<Value>,
    pub cancel: CancelSignal,
    /// The agent session of this client, kept until the client's session ends.
    pub kept: KeptSession,
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentData {
    Text(String),
    Structured(Value),
}

/// An agent's answer with its metadata.
#[derive(Clone, Debug)]
pub struct AgentAnswer {
    pub data: AgentData,
    pub metadata: Map<String, Value>,
}

/// The reason why there is no answer, worded for the client.
#[derive(Clone, Debug, Default)]
pub struct AgentFault {
    pub error: String,
    pub metadata: Map<String, Value>,
}

pub type AgentFuture = Pin<Box<dyn Future<Output = Result<AgentAnswer, AgentFault>> + Send>>;

/// Answers invocations. Many may run at a time.
pub trait AgentHandler: Send + Sync + 'static {
    fn run(&self, invocation: AgentInvocation, sender: AgentSender) -> AgentFuture;

    /// Aborts the invocations under way, and each later one as soon as it is requested.
    fn stop(&self) {}

    /// Whether its agents run in a sandbox. Such an agent must not connect as a client, because a client's commands run outside
    /// of the sandbox.
    fn is_sandboxed(&self) -> bool {
        false
    }
}

/// The handler of a runtime without an agent: it runs commands only.
pub struct NoAgent;

impl AgentHandler for NoAgent {
    fn run(&self, _: AgentInvocation, _: AgentSender) -> AgentFuture {
        let error = "this runtime serves no agent: it runs commands only".to_owned();
        Box::pin(async move { Err(AgentFault { error, metadata: Map::new() }) })
    }
}

/// The outcome of a request, on its way to the session.
#[derive(Debug)]
pub struct Decided {
    pub ticket: Ticket,
    pub terminal: Body,
    /// Number of a directory that could not be registered. A later request may try again.
    pub failed_root: Option<usize>,
}

/// Sends a handler's messages while it works.
#[derive(Clone)]
pub struct AgentSender {
    pub(super) outbox: Arc<Outbox>,
    pub(super) ticket: Ticket,
    pub(super) redactor: Redactor,
    pub(super) decided: mpsc::Sender<Decided>,
}

impl AgentSender {
    /// The text with the session's secrets replaced.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }

    /// Sends text to the client; waits while the client is behind. Has no effect after the request's outcome.
    pub async fn assistant(&self, text_blocks: Vec<String>) {
        for body in reply::assistant(&self.redactor.redact_pieces(&text_blocks)) {
            if !self.outbox.stream(&self.ticket, body).await {
                return;
            }
        }
    }

    /// Ends the request with this error. A later result of the handler is ignored.
    pub async fn error(&self, mut fault: AgentFault) {
        if self.outbox.decide(self.ticket.number) {
            self.redactor.redact_fields(&mut fault.metadata);
            let terminal = reply::error(&self.redactor.redact(&fault.error), fault.metadata);
            // Sending fails when the session is over, and then no terminal message is needed.
            let _ =
                self.decided.send(Decided { ticket: self.ticket.clone(), terminal, failed_root: None }).await;
        }
    }
}
