//! Helpers of the runtime's tests: a handler that is scripted by its prompt, and a peer that is scripted by the test.

use futures_util::{SinkExt, StreamExt};
use runtime::handler::{
    AgentAnswer, AgentData, AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender,
};
use runtime::server::{RuntimeServer, ServerOptions, serve};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A handler that is scripted by its prompt: `say X`, `fail X`, `error X` (through the sender, then it runs for ever), `json
/// {...}`, `wait` (until cancelled), `stubborn` (never ends), `many N` (messages), `env NAME`, `touch PATH`.
pub(crate) struct Puppet;

impl AgentHandler for Puppet {
    fn run(&self, mut invocation: AgentInvocation, sender: AgentSender) -> AgentFuture {
        Box::pin(async move {
            let prompt = invocation.user_prompt.clone();
            let (verb, rest) = prompt.split_once(' ').unwrap_or((&prompt, ""));
            let mut metadata = Map::new();
            metadata.insert("model".into(), invocation.model.clone().into());
            let text =
                |text: String| Ok(AgentAnswer { data: AgentData::Text(text), metadata: metadata.clone() });
            match verb {
                "say" => {
                    sender.assistant(vec![rest.to_owned()]).await;
                    text(rest.to_owned())
                }
                "many" => {
                    for number in 0..rest.parse().unwrap() {
                        sender.assistant(vec![format!("{number}")]).await;
                    }
                    text("done".into())
                }
                "fail" => Err(AgentFault { error: rest.to_owned(), ..AgentFault::default() }),
                "error" => {
                    sender.error(AgentFault { error: rest.to_owned(), ..AgentFault::default() }).await;
                    sender.assistant(vec!["too late".into()]).await;
                    sender.error(AgentFault { error: "second".into(), ..AgentFault::default() }).await;
                    text("late result".into())
                }
                "json" => Ok(AgentAnswer {
                    data: AgentData::Structured(ground::json::read_own(rest).unwrap()),
                    metadata: Map::new(),
                }),
                "format" => text(invocation.output_format.unwrap_or_default().to_string()),
                "env" => text(invocation.env.unwrap_or_default().get(rest).cloned().unwrap_or_default()),
                "wait" => {
                    sender.assistant(vec!["waiting".into()]).await;
                    let reason = invocation.cancel.cancelled().await;
                    text(format!("{reason:?}"))
                }
                "stubborn" => {
                    sender.assistant(vec!["stubborn".into()]).await;
                    std::future::pending().await
                }
                "panic" => panic!("the handler panics"),
                other => Err(AgentFault { error: format!("no such verb: {other}"), ..AgentFault::default() }),
            }
        })
    }
}

pub(crate) fn options() -> ServerOptions {
    ServerOptions { port: 0, ..ServerOptions::new(Arc::new(Puppet)) }
}

pub(crate) async fn server() -> RuntimeServer {
    serve(options()).await.unwrap()
}

pub(crate) async fn server_with(change: impl FnOnce(&mut ServerOptions)) -> RuntimeServer {
    let mut options = options();
    change(&mut options);
    serve(options).await.unwrap()
}

/// A client that sends the messages of the test.
pub(crate) struct Peer {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

impl Peer {
    pub(crate) async fn connect(server: &RuntimeServer) -> Peer {
        let (socket, _) = tokio_tungstenite::connect_async(server.url()).await.unwrap();
        Peer { socket }
    }

    /// A client that announces only the capability to receive upload results.
    pub(crate) async fn connect_for_fates(server: &RuntimeServer) -> Peer {
        let mut peer = Peer::connect(server).await;
        peer.send(json!({"message_type": "hello_message", "capabilities": ["artifact_upload_result"]})).await;
        peer.next_of("hello_message").await;
        peer
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next message; `None` when the server closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message =
                tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a message or the end");
            match message {
                Some(Ok(Message::Text(text))) => {
                    assert!(text.len() < 1 << 20, "a frame of {} bytes", text.len());
                    return Some(ground::json::read_own(&text).unwrap());
                }
                Some(Ok(Message::Close(_) | Message::Frame(_))) | None | Some(Err(_)) => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Returns the next message of this type and drops the messages before it.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("closed before {kind}"));
            if message["message_type"] == kind {
                return message;
            }
        }
    }

    /// All messages up to and including the terminal message of the request.
    pub(crate) async fn until_terminal(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages
                .push(self.next().await.unwrap_or_else(|| panic!("closed before a terminal: {messages:?}")));
            if is_terminal(messages.last().unwrap()) {
                return messages;
            }
        }
    }

    pub(crate) async fn terminal(&mut self) -> Value {
        self.until_terminal().await.pop().unwrap()
    }

    pub(crate) async fn query(&mut self, prompt: &str) {
        self.send(invocation(prompt)).await;
    }

    pub(crate) async fn run(&mut self, command: &str) -> Value {
        self.send(json!({"message_type": "command_execution_message", "commands": [{"command": command}]}))
            .await;
        self.terminal().await
    }

    pub(crate) async fn end(&mut self) -> Value {
        self.send(json!({"message_type": "end_session_message"})).await;
        self.next_of("end_session_confirm_message").await
    }
}

pub(crate) fn invocation(prompt: &str) -> Value {
    json!({"message_type": "invocation_message", "system_prompt": "s", "user_prompt": prompt, "model": "m"})
}

pub(crate) fn is_terminal(message: &Value) -> bool {
    ["result_message", "error_message", "command_execution_result_message"]
        .iter()
        .any(|kind| message["message_type"] == *kind)
}

/// A task that ends when no process holds the pipe's writing end. Returns once the pipe is open.
pub(crate) async fn reader_until_all_are_gone(fifo: &std::path::Path) -> tokio::task::JoinHandle<usize> {
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let fifo = fifo.to_owned();
    let reader = tokio::task::spawn_blocking(move || {
        let mut pipe = std::fs::File::open(fifo).unwrap();
        opened.send(()).unwrap();
        std::io::Read::read_to_end(&mut pipe, &mut Vec::new()).unwrap()
    });
    is_open.await.unwrap();
    reader
}
