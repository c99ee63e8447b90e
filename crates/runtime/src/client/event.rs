//! What is asked of a session of the client, and what happens in it.

use crate::wire::client_message::{ClientMessage, CommandExecution, Invocation};
use crate::wire::runtime_message::{
    AgentResult, CommandResults, OutputStream, Undelivered, UploadRequest, UploadResult,
};
use ground::error::{Error, ErrorCode, Result};
use std::time::Duration;
use tokio::sync::oneshot;

/// What happens, in order.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    Assistant {
        request: u64,
        text_blocks: Vec<String>,
    },
    Output {
        request: u64,
        stream: OutputStream,
        text: String,
        command: String,
    },
    /// The runtime wants a URL for a file: to be answered or declined.
    UploadRequested(UploadRequest),
    /// How an upload went.
    Uploaded(UploadResult),
    /// The last event of a request.
    Ended {
        request: u64,
        outcome: Result<RequestResult>,
    },
    /// The runtime confirmed the end of the session: all that concerned it came before.
    Confirmed,
}

impl ClientEvent {
    /// About what it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            ClientEvent::Assistant { text_blocks, .. } => text_blocks.iter().map(String::len).sum(),
            ClientEvent::Output { text, command, .. } => text.len() + command.len(),
            _ => 256,
        }
    }
}

/// What a request brought home.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestResult {
    Agent(AgentResult),
    Commands(CommandResults),
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    pub confirmed: bool,
    pub uploaded: u64,
    pub undelivered: Vec<Undelivered>,
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub message: RequestMessage,
    /// `None`: no limit.
    pub timeout: Option<Duration>,
    /// Between two messages of the runtime. `None`: no limit.
    pub idle_timeout: Option<Duration>,
}

impl ClientRequest {
    /// The clock that has run out before anything is sent: a zero is a deadline that has passed.
    pub(super) fn passed(&self) -> Option<Error> {
        let zero = Some(Duration::ZERO);
        let error = |code, path: &str| {
            Error::new(code, format!("no request was sent: the deadline of `{path}` has already passed"))
                .with(path, 0)
        };
        if self.timeout == zero {
            return Some(error(ErrorCode::RuntimeTimedOut, "timeoutMs"));
        }
        (self.idle_timeout == zero).then(|| error(ErrorCode::RuntimeIdle, "idleTimeoutMs"))
    }
}

/// What is asked; the id is the session's to give.
#[derive(Clone, Debug)]
pub enum RequestMessage {
    Invocation(Box<Invocation>),
    CommandExecution(Box<CommandExecution>),
}

impl RequestMessage {
    pub(super) fn into_message(mut self, request_id: &str) -> ClientMessage {
        let id = match &mut self {
            RequestMessage::Invocation(invocation) => &mut invocation.request_id,
            RequestMessage::CommandExecution(execution) => &mut execution.request_id,
        };
        *id = Some(request_id.to_owned());
        match self {
            RequestMessage::Invocation(invocation) => ClientMessage::Invocation(invocation),
            RequestMessage::CommandExecution(execution) => ClientMessage::CommandExecution(execution),
        }
    }
}

/// What the handle has the owner task do.
pub(super) enum Order {
    Request { request: ClientRequest, reply: oneshot::Sender<Result<u64>> },
    Abort { request: u64 },
    Answer { request: UploadRequest, presigned_url: String, content_type: String },
    Decline { request: UploadRequest, reason: String },
    End,
    Close,
}
