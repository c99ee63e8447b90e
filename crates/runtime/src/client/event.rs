//! The requests that a caller makes of a client's session, and the events that it receives.

use crate::wire::client_message::{ClientMessage, CommandExecution, Invocation};
use crate::wire::runtime_message::{
    AgentResult, CommandResults, OutputStream, Undelivered, UploadRequest, UploadResult,
};
use ground::error::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::oneshot;

/// An event of the session, handed out in the order in which things happened.
/// In JSON an outcome is `{ Ok }` or `{ Err }`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
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
    /// The runtime asks for a URL to upload a file to. The caller answers or declines.
    UploadRequested(UploadRequest),
    /// The outcome of an upload.
    Uploaded(UploadResult),
    /// A request ended. No later event carries its number.
    Ended {
        request: u64,
        outcome: Result<RequestResult>,
    },
    /// The runtime confirmed the end of the session. All events of the session came before it.
    Confirmed,
}

impl ClientEvent {
    /// Approximate size of the event in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        match self {
            ClientEvent::Assistant { text_blocks, .. } => text_blocks.iter().map(String::len).sum(),
            ClientEvent::Output { text, command, .. } => text.len() + command.len(),
            _ => 256,
        }
    }
}

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RequestResult {
    Agent(AgentResult),
    Commands(CommandResults),
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionEnd {
    pub confirmed: bool,
    pub uploaded: u64,
    pub undelivered: Vec<Undelivered>,
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub message: RequestMessage,
    /// The request is cancelled after this long. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Longest pause between two messages of the runtime. `None`: no limit.
    pub idle_timeout: Option<Duration>,
}

impl ClientRequest {
    /// The error of a timeout that has expired before anything is sent: a timeout of zero means a deadline in the past.
    pub(super) fn passed(&self) -> Option<Error> {
        let limits = [
            (ErrorCode::RuntimeTimedOut, "timeoutMs", self.timeout),
            (ErrorCode::RuntimeIdle, "idleTimeoutMs", self.idle_timeout),
        ];
        Error::of_passed("no request was sent", &limits)
    }
}

/// The content of a request, without its id: the session assigns that.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "message_type")]
pub enum RequestMessage {
    #[serde(rename = "invocation_message")]
    Invocation(Box<Invocation>),
    #[serde(rename = "command_execution_message")]
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

/// A command from the handle to the owner task.
pub(super) enum Order {
    Request { request: ClientRequest, reply: oneshot::Sender<Result<u64>> },
    Abort { request: u64 },
    Answer { request: UploadRequest, presigned_url: String, content_type: String },
    Decline { request: UploadRequest, reason: String },
    End,
    Close,
}
