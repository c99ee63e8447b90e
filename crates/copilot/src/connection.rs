//! One run of the runtime: connecting to it, the handshake, and the ways it ends.

use super::outbox::Outbox;
use super::reach::{Reached, Streams, Target, reach};
use super::receiver::{Receiver, Shared, close_after_exit};
use super::runtime_process::RuntimeProcess;
use super::sessions::Sessions;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::os::within;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use wires::jsonrpc::{Client, StreamSink, StreamSource, Wire};

/// The options of a start.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    pub target: Target,
    /// Parameters of the `connect` request.
    pub handshake: Map<String, Value>,
    /// Requests to make after the handshake: method and parameters as JSON text.
    pub setup: Vec<(String, String)>,
    /// Limit for the whole start, until the last of these requests is answered. `None`: no limit.
    pub start_timeout: Option<Duration>,
    /// Send lines of stderr to the host.
    pub tell_stderr: bool,
}

/// The facts that the handshake gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub pid: Option<u32>,
    pub port: Option<u16>,
    pub protocol_version: u64,
    /// The runtime's version, if it reports one.
    pub version: Option<String>,
}

struct ConnectionState {
    client: Client,
    process: Option<RuntimeProcess>,
    shared: Arc<Shared>,
}

/// A handle; clones share the connection.
#[derive(Clone)]
pub struct Connection(Arc<ConnectionState>);

impl Connection {
    /// Default of `start_timeout`.
    pub const START_TIMEOUT: Duration = Duration::from_secs(30);
    /// The supported version of the protocol.
    pub const PROTOCOL_VERSION: u64 = 3;
    /// How long the runtime may take to answer the shutdown request.
    const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

    /// Starts or reaches the runtime and does the handshake. After a failure the process is killed before the error is returned.
    /// The start is given up when `cancelled` becomes true. Must be called within tokio.
    pub async fn start(
        options: ConnectionOptions,
        outbox: Arc<Outbox>,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<(Self, Started), Error> {
        let deadline = options.start_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let limit = options.start_timeout.unwrap_or_default().as_millis() as u64;
        if options.start_timeout == Some(Duration::ZERO) {
            return Err(not_started(limit));
        }
        let mut process = None;
        let result = tokio::select! {
            result = Self::attempt(options, outbox, &mut process) => result,
            Some(()) = at(deadline) => Err(not_started(limit)),
            Ok(_) = cancelled.wait_for(|cancelled| *cancelled) => {
                Err(Error::new(ErrorCode::SessionClosed, "The client was stopped while it was starting"))
            }
        };
        let Err(error) = result else { return result };
        let Some(process) = process else { return Err(error) };
        process.kill().await;
        let stderr = process.stderr_tail();
        if stderr.is_empty() || error.facts().contains_key("stderr") {
            return Err(error);
        }
        Err(error.with("stderr", stderr))
    }

    async fn attempt(
        options: ConnectionOptions,
        outbox: Arc<Outbox>,
        process: &mut Option<RuntimeProcess>,
    ) -> Result<(Self, Started), Error> {
        let to_host = options.tell_stderr.then(|| Arc::clone(&outbox));
        let reached = reach(options.target, to_host, process).await?;
        let (connection, port) = Self::open(reached, process.clone(), outbox);
        let (protocol_version, version) = connection.shake_hands(&options.handshake, &options.setup).await?;
        let pid = process.as_ref().map(RuntimeProcess::pid);
        Ok((connection, Started { pid, port, protocol_version, version }))
    }

    fn open(reached: Reached, process: Option<RuntimeProcess>, outbox: Arc<Outbox>) -> (Self, Option<u16>) {
        let Reached { streams, port } = reached;
        let shared = Arc::new(Shared::new(outbox));
        let receiver = Receiver {
            told: false,
            process: process.as_ref().map(|process| (process.exit().clone(), process.downgrade())),
            shared: Arc::clone(&shared),
        };
        let client = match streams {
            Streams::Pipes(source, sink) => Client::start(source, sink, Wire::HEADERS, receiver),
            Streams::Socket(socket) => {
                let (read, write) = socket.into_split();
                Client::start(StreamSource::new(read), StreamSink(write), Wire::HEADERS, receiver)
            }
        };
        if let Some(process) = &process {
            ground::task::spawn(close_after_exit(process.exit().clone(), client.clone()));
        }
        (Connection(Arc::new(ConnectionState { client, process, shared })), port)
    }

    async fn shake_hands(
        &self,
        handshake: &Map<String, Value>,
        setup: &[(String, String)],
    ) -> Result<(u64, Option<String>), Error> {
        let client = &self.0.client;
        let hello = match client.request("connect", &Value::Object(handshake.clone()).to_string(), None).await
        {
            Err(error) if is_unhandled(&error, "connect") => client.request("ping", "{}", None).await?,
            hello => hello?,
        };
        // Field by field: one of another type hides no other.
        let hello = match ground::json::read(&hello) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let version = hello.get("protocolVersion").filter(|version| !version.is_null());
        let supported = Self::PROTOCOL_VERSION;
        let mismatch = |found: &str, todo: &str| {
            let message = format!(
                "SDK protocol version mismatch: SDK supports versions {supported}-{supported}, but server {found}. \
                 Please update your {todo} to ensure compatibility."
            );
            Error::new(ErrorCode::ProtocolMismatch, message).with("protocolVersion", version.cloned())
        };
        match version {
            Some(version) if version.as_u64() == Some(supported) => {}
            Some(version) => return Err(mismatch(&format!("reports version {version}"), "SDK or server")),
            None => return Err(mismatch("does not report a protocol version", "server")),
        }
        for (method, params) in setup {
            client.request(method, params, None).await?;
        }
        Ok((supported, hello.get("version").and_then(Value::as_str).map(str::to_owned)))
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn sessions(&self) -> &Sessions {
        &self.0.shared.sessions
    }

    /// Selects the notifications that go to the host beside `session.event`; `*` selects all.
    pub fn want_notifications(&self, methods: impl IntoIterator<Item = String>) {
        let mut wanted = lock(&self.0.shared.notifications);
        *wanted = methods.into_iter().collect();
    }

    /// The state of process and connection as text, for messages.
    pub fn describe(&self) -> String {
        let mut facts = Vec::new();
        match &self.0.process {
            Some(process) => {
                match process.exit().get() {
                    Some(exit) => {
                        facts.push(exit.to_error().message().lines().next().unwrap_or_default().to_owned())
                    }
                    None => facts.push(format!("CLI server running, pid {}", process.pid())),
                }
                let stderr = process.stderr_tail();
                if !stderr.is_empty() {
                    facts.push(format!("stderr: {}", last_characters(&stderr, 2000)));
                }
            }
            None if self.0.client.closed().is_some() => facts.push("the connection is closed".to_owned()),
            None => facts.push("the connection is open".to_owned()),
        }
        match self.0.shared.noise.load(Ordering::Relaxed) {
            0 => {}
            bytes => facts.push(format!("{bytes} bytes from the server were not messages")),
        }
        facts.join("; ")
    }

    /// Ends the runtime gracefully, within five seconds: shutdown request, closed stdin, SIGTERM, SIGKILL. Returns the errors.
    pub async fn stop(&self) -> Vec<Error> {
        self.0.shared.stopping.store(true, Ordering::SeqCst);
        let mut errors = Vec::new();
        let ConnectionState { client, process, .. } = &*self.0;
        if process.is_some() && client.closed().is_none() {
            match client.request("runtime.shutdown", "{}", Some(Self::SHUTDOWN_TIMEOUT)).await {
                Ok(_) => {}
                // Older runtimes do not know the request.
                Err(error) if is_unhandled(&error, "runtime.shutdown") => {}
                Err(error) => {
                    let message = format!("Failed to gracefully shut down runtime: {}", error.message());
                    errors.push(Error::new(error.code(), message).caused_by(error));
                }
            }
        }
        self.close();
        if let Some(process) = process
            && !process.stop().await
            && !process.kill().await
        {
            let message = format!("Timed out waiting for CLI process {} to exit after kill", process.pid());
            errors.push(Error::new(ErrorCode::ConnectionTimedOut, message));
        }
        errors
    }

    /// Kills the runtime at once, within a second.
    pub async fn kill(&self) {
        self.0.shared.stopping.store(true, Ordering::SeqCst);
        self.close();
        if let Some(process) = &self.0.process {
            process.kill().await;
        }
    }

    /// The host's environment is being torn down: kills the process without waiting.
    pub fn abandon(&self) {
        self.0.shared.stopping.store(true, Ordering::SeqCst);
        self.0.shared.outbox.close();
        if let Some(process) = &self.0.process {
            process.abandon();
        }
    }

    fn close(&self) {
        let error = Error::new(ErrorCode::SessionClosed, "The client was stopped");
        self.0.shared.sessions.close_all(&error);
        self.0.client.close(&error);
    }
}

fn last_characters(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().take(count).last().map_or(0, |(at, _)| at);
    &text[start..]
}

/// Whether the error says that the peer does not have this method.
pub(crate) fn is_unhandled(error: &Error, method: &str) -> bool {
    error.code() == ErrorCode::RpcError
        && (error.facts().get("rpcCode").and_then(Value::as_i64) == Some(-32601)
            || error.message() == format!("Unhandled method {method}"))
}

async fn at(deadline: Option<Instant>) -> Option<()> {
    // Not of the time for which this process was stopped.
    within(deadline?.saturating_duration_since(Instant::now()), std::future::pending::<()>()).await;
    Some(())
}

fn not_started(limit: u64) -> Error {
    let message =
        format!("Timeout waiting for CLI server to start: no answer to the handshake within {limit} ms");
    Error::new(ErrorCode::ConnectionTimedOut, message).with("timeoutMs", limit)
}
