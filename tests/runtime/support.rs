//! What the tests of the runtime share: a handler that does what its prompt says, a peer that says what it is told, and a
//! sink for uploads.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use sheepdog::runtime::handler::{
    AgentAnswer, AgentData, AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender,
};
use sheepdog::runtime::server::{RuntimeServer, ServerOptions, serve};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Does what the prompt says: `say X`, `fail X`, `error X` (by sender, then goes on for ever), `json {...}`, `wait` (until
/// cancelled), `stubborn` (never ends), `many N` (messages), `env NAME`, `touch PATH`.
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
                    data: AgentData::Structured(serde_json::from_str(rest).unwrap()),
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

/// A client that says what the test tells it.
pub(crate) struct Peer {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

impl Peer {
    pub(crate) async fn connect(server: &RuntimeServer) -> Peer {
        let (socket, _) = tokio_tungstenite::connect_async(server.url()).await.unwrap();
        Peer { socket }
    }

    /// A client that takes the fates of uploads, and asks for nothing else beyond the protocol.
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
                    return Some(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(_) | Message::Frame(_))) | None | Some(Err(_)) => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next message of this type; those before it are passed over.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("closed before {kind}"));
            if message["message_type"] == kind {
                return message;
            }
        }
    }

    /// All messages up to the terminal of the request, that included.
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

/// What a sink does with a PUT, by its path's first part: `/fail-N/...` answers 500 N times, `/slow/...` takes its time,
/// `/deny/...` answers 403, `/mute/...` never answers, `/later/...` asks once to come again in a second, `/hold/...` answers the
/// first time only when told to.
#[derive(Clone, Default)]
pub(crate) struct Sink {
    pub received: Arc<Mutex<HashMap<String, Vec<Received>>>>,
    pub port: u16,
    pub release: Arc<Notify>,
    came: Arc<Notify>,
    open: Arc<Mutex<(usize, usize)>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub at: Instant,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Sink {
    pub(crate) async fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = Sink { port: listener.local_addr().unwrap().port(), ..Sink::default() };
        let accepting = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        sink
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received.lock().unwrap();
        received
            .get(&format!("/{path}"))
            .into_iter()
            .flatten()
            .map(|received| received.body.clone())
            .collect()
    }

    /// Waits until what has come is so: looked at whenever something comes.
    pub(crate) async fn until(&self, holds: impl Fn(&Sink) -> bool) {
        let held = async {
            loop {
                let came = self.came.notified();
                if holds(self) {
                    return;
                }
                came.await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.expect("what is waited for comes to the sink");
    }

    /// Most requests that were open at a time.
    pub(crate) fn most_open(&self) -> usize {
        self.open.lock().unwrap().1
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            {
                let mut open = self.open.lock().unwrap();
                open.0 += 1;
                open.1 = open.1.max(open.0);
            }
            let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
            let headers: HashMap<String, String> = head
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).await.is_err() {
                return;
            }
            let before = {
                let mut received = self.received.lock().unwrap();
                let list = received.entry(path.clone()).or_default();
                list.push(Received { at: Instant::now(), headers, body });
                list.len()
            };
            self.came.notify_waiters();
            let mode = path.split('/').nth(1).unwrap_or_default();
            let redirect = mode.strip_prefix("redirect-").map(|status| {
                let rest = path.splitn(3, '/').nth(2).unwrap_or_default();
                format!("{status} Elsewhere\r\nLocation: /home/{rest}")
            });
            let status = match mode.split_once('-') {
                _ if redirect.is_some() => redirect.as_deref().unwrap(),
                Some(("fail", times)) if before <= times.parse().unwrap() => "500 Internal Server Error",
                _ if mode == "deny" => "403 Forbidden",
                _ if mode == "later" && before == 1 => "503 Service Unavailable\r\nRetry-After: 1",
                _ => "200 OK",
            };
            match mode {
                "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
                "mute" => std::future::pending().await,
                "hold" if before == 1 => self.release.notified().await,
                _ => {}
            }
            self.open.lock().unwrap().0 -= 1;
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The answer to an upload request: the sink, under `prefix` and the file's own path.
pub(crate) fn upload_response(request: &Value, sink: &Sink, prefix: &str) -> Value {
    let path = request["filename"].as_str().unwrap();
    json!({"message_type": "artifact_upload_response_message", "filename": request["filename"], "filepath": request["filepath"],
           "presigned_url": sink.url(&format!("{prefix}{path}?signature=secret")), "content_type": "text/plain"})
}

/// Ends when nobody holds the pipe's writing end any more; returns once it is open.
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
