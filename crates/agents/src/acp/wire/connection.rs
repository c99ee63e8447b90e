//! The process that speaks the protocol, and the connection over its standard streams. All its messages arrive in one
//! [`Inbox`], in the order of the wire. While the inbox is full, the process's pipe is not read.

use crate::acp::wire::update::Update;
use crate::harness::Provider;
use crate::harness::evidence::reason_line::reason_line;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::json;
use ground::os::within;
use ground::window::{WeighedReceiver, WeighedSender, weighed};
use process::{self, ChunkReader, Input, Outcome, Process, ProcessSpec, StdinWriter, StopReason, Stream};
use serde_json::Value;
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use wires::jsonrpc::{ByteSink, ByteSource, Client, Completion, Handler, Noise, Refusal, Wire};

/// Most bytes of unprocessed messages; at the limit the agent's pipe is not read. One message may exceed it.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Each message counts for this at least: no more than 512 of them wait.
const LEAST_WEIGHT: usize = MAX_WAITING_BYTES / 512;

/// A message from the agent.
#[expect(clippy::large_enum_variant, reason = "nearly all that is said is of the large one")]
pub(crate) enum Said {
    Update {
        session: String,
        update: Update,
        raw: Option<String>,
        /// Bytes on the wire.
        weight: usize,
    },
    /// A request; `id` is JSON text.
    Asked { id: String, method: String, params: Value },
    /// It gives a request of its own up.
    Withdrawn { id: String },
    /// The answer to a request that was sent with [`Connection::send`].
    Answered { tag: u64, answer: Result<Value, Error> },
    /// A line that is no message.
    Noise(String),
    /// A notification that nobody knows.
    Other,
    /// The stream is over, for this cause.
    Ended(Error),
}

pub(crate) type Inbox = WeighedReceiver<Said>;

/// How the process ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exit {
    pub exit_code: Option<i32>,
    pub signal: Option<String>,
    pub stderr: String,
}

impl Exit {
    pub(crate) fn of(outcome: &Outcome) -> Exit {
        let Some(result) = &outcome.result else { return Exit::default() };
        Exit {
            exit_code: result.exit_code,
            signal: result.signal.clone(),
            stderr: result.stderr.trim().to_owned(),
        }
    }

    /// `exited with 3`, `was ended by SIGKILL`.
    pub(crate) fn words(&self) -> String {
        match (&self.signal, self.exit_code) {
            (Some(signal), _) => format!("was ended by {signal}"),
            (None, Some(code)) => format!("exited with {code}"),
            (None, None) => "ended without a status".to_owned(),
        }
    }

    /// The line of stderr that says why it ended.
    pub(crate) fn reason(&self) -> Option<String> {
        reason_line(&self.stderr)
    }

    /// How the agent was lost: by its exit, or for this cause. `when` is the end of a sentence.
    pub(crate) fn loss(&self, agent: Provider, when: &str, cause: Option<&Error>) -> String {
        match cause {
            Some(cause) => format!("{}'s connection was lost{when}: {}", agent.as_str(), cause.message()),
            None => format!("{} {}{when}", agent.as_str(), self.words()),
        }
    }

    /// The error of it.
    pub(crate) fn crash(&self, agent: Provider, when: &str, cause: Option<&Error>) -> Error {
        let how = self.loss(agent, when, cause);
        let why = self.reason().filter(|_| cause.is_none()).map(|line| format!(": {line}"));
        let error = Error::new(ErrorCode::AgentCrashed, how + &why.unwrap_or_default());
        self.tell(match cause {
            Some(cause) => error.caused_by(cause.clone()),
            None => error,
        })
    }

    /// Adds the facts of the exit to an error.
    pub(crate) fn tell(&self, error: Error) -> Error {
        error
            .with("exitCode", self.exit_code)
            .with("signal", self.signal.clone())
            .with("stderr", self.stderr.clone())
    }
}

/// A handle; clones share the process, and the last one takes it down.
#[derive(Clone)]
pub(crate) struct Connection {
    pub client: Client,
    pub process: Process,
    letters: WeighedSender<Said>,
}

impl Connection {
    /// Longest wait for the exit of the process after the end of its stdout.
    const EXIT_WAIT: Duration = Duration::from_secs(1);
    /// Bytes of stderr that are kept, at its head and its tail.
    const KEPT_OUTPUT_BYTES: usize = 32 << 10;

    /// Starts the process; resolves when it runs. Call it within tokio.
    pub(crate) async fn start(mut spec: ProcessSpec) -> Result<(Connection, Inbox), Error> {
        spec.input = Input::Pipe;
        spec.max_output_bytes = Self::KEPT_OUTPUT_BYTES;
        let process = process::spawn(spec);
        process.started().await?;
        // At the limit itself there is room for one more.
        let (letters, inbox) = weighed(MAX_WAITING_BYTES + 1);
        let source = Stdout(process.chunks());
        let Some(stdin) = process.take_stdin() else {
            return Err(Error::new(ErrorCode::ProcessSpawnFailed, "the agent has no stdin"));
        };
        let client = Client::start(source, Stdin(stdin), Wire::LINES, Listener(letters.clone()));
        Ok((Connection { client, process, letters }, inbox))
    }

    /// Sends a request; its answer arrives in the inbox, in order with all else. Always one answer.
    pub(crate) fn send(&self, method: &str, params: &Value, timeout: Option<Duration>, tag: u64) {
        let letters = self.letters.clone();
        let complete = Completion::new(move |answer: Result<&str, Error>| {
            let answer = answer.and_then(|text| {
                json::read(text).map_err(|error| {
                    Error::new(ErrorCode::RpcError, format!("cannot parse the agent's answer: {error}"))
                })
            });
            letters.send(Said::Answered { tag, answer }, 0);
        });
        self.client.call(method, &params.to_string(), timeout, complete);
    }

    /// SIGKILL to the whole tree.
    pub(crate) fn kill(&self) {
        self.process.stop(StopReason::Abandoned);
    }

    /// Closes the stream, ends the tree and waits until nothing of it is left: SIGTERM, `kill_grace`, SIGKILL.
    pub(crate) async fn close(&self) -> Exit {
        self.client.close(&Error::new(ErrorCode::SessionClosed, "the session was closed"));
        self.process.stop(StopReason::Killed);
        self.exit().await
    }

    /// Its stream is over: the process is given a moment to end by itself, for its own status tells more than ours.
    pub(crate) async fn ended(&self) -> Exit {
        match within(Self::EXIT_WAIT, self.exit()).await {
            Some(exit) => exit,
            None => self.close().await,
        }
    }

    /// Resolves when nothing of the tree is left.
    pub(crate) async fn exit(&self) -> Exit {
        let outcome = self.process.outcome().await;
        Exit::of(&outcome)
    }
}

/// Runs on the reader's task.
struct Listener(WeighedSender<Said>);

impl Listener {
    fn say_unread(&mut self, method: &str, params: &str, error: &serde_json::Error) {
        self.say(Said::Noise(format!("cannot read {method}: {error}: {params}")), params.len());
    }

    fn say(&mut self, said: Said, weight: usize) {
        self.0.send(said, weight.max(LEAST_WEIGHT));
    }
}

impl Handler for Listener {
    fn on_notification(&mut self, method: &str, params: &str) {
        // A piece of an answer may end within a character.
        let is_piece = method == "session/update" && params.contains("_chunk");
        let kept = if is_piece { json::keep_halves(params.as_bytes()) } else { params.as_bytes().into() };
        let read = match json::read::<Value>(&kept) {
            Ok(read) => read,
            Err(error) => return self.say_unread(method, params, &error),
        };
        match method {
            "session/update" => {
                let update = Update::read(&read["update"]);
                let raw = (update == Update::Unknown).then(|| params.to_owned());
                let session = read["sessionId"].as_str().unwrap_or_default().to_owned();
                let weight = params.len();
                self.say(Said::Update { session, update, raw, weight }, weight);
            }
            "$/cancel_request" => {
                self.say(Said::Withdrawn { id: read["requestId"].to_string() }, params.len())
            }
            _ => self.say(Said::Other, 0),
        }
    }

    fn on_request(&mut self, id: &str, method: &str, params: &str) {
        let weight = id.len() + params.len();
        // Whoever answers it looks for fields, and refuses what has none.
        let params = json::read(params).unwrap_or_else(|_| params.into());
        self.say(Said::Asked { id: id.to_owned(), method: method.to_owned(), params }, weight);
    }

    fn on_noise(&mut self, noise: Noise<'_>) {
        let line = match noise {
            Noise::Line(line) => line.to_owned(),
            Noise::Garbage { bytes } | Noise::BadBody { bytes } => {
                format!("{bytes} bytes that are no message")
            }
            Noise::StrayReply => "an answer that nobody waits for".to_owned(),
            Noise::Fault(message) => format!("the agent could not read a message: {message}"),
        };
        let weight = line.len();
        self.say(Said::Noise(line), weight);
    }

    async fn ready(&mut self) {
        poll_fn(|context| self.0.window.poll_room(context)).await;
    }

    async fn on_end(&mut self, cause: Error) -> Error {
        self.say(Said::Ended(cause.clone()), 0);
        cause
    }
}

/// The process's stdout; its stderr is kept by the process itself.
struct Stdout(ChunkReader);

impl ByteSource for Stdout {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.0.next().await {
                // An empty chunk is the stream's end.
                Some((Stream::Stdout, bytes)) => return Ok((!bytes.is_empty()).then_some(bytes)),
                Some((Stream::Stderr, _)) => {}
                None => return Ok(None),
            }
        }
    }
}

struct Stdin(StdinWriter);

impl ByteSink for Stdin {
    async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        self.0.write(bytes).await.map_err(|error| io::Error::other(error.to_string()))
    }
}

pub(crate) fn unknown_method(method: &str) -> Refusal {
    Refusal { code: -32_601, message: format!("Method not found: {method}"), data: None }
}

pub(crate) fn unknown_session(session: &str) -> Refusal {
    Refusal { code: -32_602, message: format!("Unknown session: {session}"), data: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn listen() -> (Listener, Inbox) {
        // At the limit itself there is room for one more.
        let (letters, inbox) = weighed(MAX_WAITING_BYTES + 1);
        (Listener(letters), inbox)
    }

    #[tokio::test]
    async fn a_part_that_rust_cannot_hold_does_not_lose_the_message() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for part in [r#""\ud83d""#, "1e999", &deep] {
            let (mut listener, mut inbox) = listen();
            listener.on_notification("session/update", &format!(
                r#"{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"delete \ud83d it"}},"_meta":{part}}}}}"#
            ));
            listener.on_request(
                "1",
                "session/request_permission",
                &format!(r#"{{"sessionId":"s","_meta":{part}}}"#),
            );
            listener.on_notification("$/cancel_request", &format!(r#"{{"requestId":1,"_meta":{part}}}"#));
            let Said::Update { session, update, .. } = inbox.next().await.unwrap() else { panic!("{part}") };
            assert_eq!(session, "s");
            // The half is kept until it is known whether the next piece has the other one.
            assert!(format!("{update:?}").contains(r"delete \u{10ffff}\u{e03d} it"), "{update:?}");
            assert_eq!(json::Pieces::default().push("delete \u{10ffff}\u{e03d} it"), "delete \u{fffd} it");
            let Said::Asked { params, .. } = inbox.next().await.unwrap() else { panic!("{part}") };
            assert_eq!(params["sessionId"], "s");
            let Said::Withdrawn { id } = inbox.next().await.unwrap() else { panic!("{part}") };
            assert_eq!(id, "1");
        }
    }

    #[tokio::test]
    async fn an_agent_is_held_back_by_the_bytes_of_its_messages_too() {
        let (mut listener, mut inbox) = listen();
        let half = "x".repeat(MAX_WAITING_BYTES / 2);
        listener.ready().await;
        for line in [half.as_str(), half.as_str(), "one more"] {
            listener.on_noise(Noise::Line(line));
            let is_ready = listener.ready().now_or_never().is_some();
            assert_eq!(is_ready, line != "one more");
        }
        drop(inbox.next().await);
        listener.ready().await;
        // A message that is longer than the whole limit passes alone.
        while inbox.next_now().is_some() {}
        listener.on_noise(Noise::Line(&"x".repeat(MAX_WAITING_BYTES * 2)));
        assert!(listener.ready().now_or_never().is_none());
        while inbox.next_now().is_some() {}
        listener.ready().await;
    }
}
