//! Serves an agent to a client of the protocol: an editor, or a program in another language. The agent runs as in a session: under
//! the guard, in its sandbox, at its level.
//!
//! ```text
//! client ──chunks──> Face (one select!) ──blocks of lines──> agent
//!        <──lines──    │  gate   PURE  judges each message: from_client, from_agent, opening
//!                      │  rules  PURE  what the level and the sandbox allow; begin  the steps to the level
//!                      │  seat, prompt, requests  PURE  a session; a prompt with its clock; what is open on both sides
//! ```
//!
//! Nothing passes that was not read and judged, and what passes is written anew. All lines of a chunk travel on as one block, so
//! that a flood costs one turn of the loop and one write for each read.
//!
//! The client's end is the end of the face, and then nothing of the agent's tree is left. It is seen whatever waits: when too much
//! waits for a side that reads nothing for [`PATIENCE`], the client is read on, and what it says is refused.

mod begin;
#[cfg(test)]
mod clock_tests;
mod from_agent;
mod from_client;
#[cfg(any(test, fuzzing))]
mod fuzz_tests;
mod gate;
mod halves;
mod message;
mod opening;
mod piece;
mod prompt;
mod requests;
#[cfg(test)]
mod rule_tests;
mod rules;
mod seat;
#[cfg(test)]
mod tests;

use crate::acp::opening::program::not_started;
use crate::acp::opening::ready::{Ready, ready};
use crate::acp::opening::request::OpenRequest;
use crate::acp::question::place::Places;
use crate::acp::wire::connection::Exit;
use crate::harness::budget::allowance::Allowance;
use crate::harness::clock::Sample;
use crate::harness::limit::scheduler::Waiting;
use crate::harness::turn::audience::Audience;
use crate::harness::{ConcurrencyLimit, Provider};
use bytes::{Buf, Bytes};
#[cfg(any(test, fuzzing))]
pub use fuzz_tests::fuzz_face;
use gate::{Found, Gate, Look};
use ground::error::{Error, ErrorCode};
use ground::line::{LineFramer, LineTooLong};
use ground::mpsc;
use ground::os::{Awake, blocking, destination, within};
use ground::redaction::Redactor;
use message::{Message, Shape};
use process::{ChunkReader, Input, Process, StdinWriter, StopReason, Stream};
use rules::Rules;
use std::future::poll_fn;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Longest line in either direction.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Blocks on their way to the agent's stdin.
const MAX_BLOCKS: usize = 4;
/// Longest block.
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Bytes that wait for one side; at the limit the client is not read.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// Bytes that wait for a side that does not read, though its messages are answered. Then an agent is not read, because it may
/// write before it reads on, and a client is at its end.
const MAX_ANSWERED_BYTES: usize = 2 * MAX_LINE_BYTES;
/// For a side that takes nothing, at the limit. Then the client is read on, so that its end is seen.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest look at the disk. A folder that is not known by then is outside.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// For the agent's last words and its exit, after the end of its stdout.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// For the next request of a client whose agent could not be started, or is gone.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The side of the client to which the agent's lines go.
pub trait ClientSink: Send {
    /// The next lines, each with its end.
    fn tell(&mut self, lines: Vec<u8>);
    /// The next piece of what the agent writes to stderr.
    fn log(&mut self, piece: Vec<u8>);
    /// Ready when there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// Runs the agent for a client until the client's input ends or the agent is gone. `input`: what the client sends, in chunks of
/// any size. Resolves when nothing of the agent's tree is left.
///
/// # Errors
/// Those of a session that can't be opened; `AGENT_CRASHED`, `AGENT_IDLE`, `AGENT_TIMED_OUT` or `AGENT_BUDGET` when the agent had
/// to be killed or failed; `AGENT_ABORTED` when `aborted` resolves first.
pub async fn serve(
    request: OpenRequest,
    limits: Vec<ConcurrencyLimit>,
    input: mpsc::Receiver<Bytes>,
    output: Box<dyn ClientSink>,
    aborted: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut client = Client { input, framer: LineFramer::new(MAX_LINE_BYTES), output };
    let mut aborted = std::pin::pin!(aborted);
    let clean = request.agent.redact.clone();
    let served = async {
        let allowance = request.allowance()?;
        allowance.check()?;
        let _slot = tokio::select! {
            biased;
            () = &mut aborted => return Err(was_aborted(request.agent.provider)),
            slot = Waiting::begin(limits).end() => slot,
        };
        let mut ready = ready(&request).await?;
        ready.spec.input = Input::Pipe;
        ready.spec.max_output_bytes = 32 << 10;
        let named = ready.cwd.clone();
        let real = blocking(move || destination(&named).unwrap_or(named)).await;
        let real = real.unwrap_or_else(|_| ready.cwd.clone());
        let rules = Rules::new(&request, &ready.modes, ready.meta, &ready.cwd, &real);
        run(ready, Gate::new(rules, allowance.clone()), &allowance, &mut client, aborted).await
    };
    let served = served.await.map_err(|error| clean.redact_error(&error));
    if let Err(error) = &served {
        client.refuse(error).await;
    }
    served
}

async fn run(
    ready: Ready<'_>,
    gate: Gate,
    allowance: &Allowance,
    client: &mut Client,
    aborted: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Ready { agent, spec, folder, record, request, .. } = ready;
    let mut recorder = Audience::new(false, request.agent.redact.clone());
    recorder.record = record;
    let process = process::spawn(spec);
    let started = process.started().await.and_then(|_| {
        process
            .take_stdin()
            .ok_or_else(|| Error::new(ErrorCode::ProcessSpawnFailed, "the agent has no stdin"))
    });
    let ended = match started {
        Ok(stdin) => {
            let (to_agent, blocks) = mpsc::channel(MAX_BLOCKS);
            let writer = ground::task::spawn(write(stdin, blocks));
            let mut face = Face {
                chunks: process.chunks(),
                process: process.clone(),
                gate,
                client,
                redactor: request.agent.redact.clone(),
                for_log: Vec::new(),
                for_agent: Bytes::new(),
                stuck: None,
                to_agent,
                recorder: &mut recorder,
            };
            let over = face.serve(allowance, aborted).await;
            let ended = face.end(over).await;
            drop(face);
            let _ = writer.await;
            ended
        }
        Err(error) => Err(not_started(agent, error)),
    };
    folder.remove().await;
    if let Some(record) = recorder.record.take() {
        record.close(None, ended.as_ref().err(), false).await;
    }
    ended
}

/// Writes the lines for the agent. A closed pipe is no error: the exit that follows is.
async fn write(mut stdin: StdinWriter, mut blocks: mpsc::Receiver<Bytes>) {
    while let Some(block) = blocks.recv().await {
        if stdin.write(block).await.is_err() {
            break;
        }
    }
    // The agent's stdin stays open until its tree is killed, or until it is gone.
    blocks.close();
}

/// Both directions of the client.
struct Client {
    input: mpsc::Receiver<Bytes>,
    framer: LineFramer,
    output: Box<dyn ClientSink>,
}

impl Client {
    /// Answers the requests that no agent has got, because there is none, or none any more.
    async fn refuse(&mut self, error: &Error) {
        let mut lines = Vec::new();
        let read = async {
            while let Some(Some(bytes)) = within(LAST_WORDS, self.input.recv()).await {
                let refuse = |line: &[u8]| {
                    if let Ok(message) = Message::read(line)
                        && message.shape == Shape::Request
                    {
                        Message::refusal(error).write(Some(message.id().clone()), &mut lines);
                    }
                };
                if for_lines(&mut self.framer, &bytes, refuse).is_err() || lines.len() > MAX_WAITING_BYTES {
                    break;
                }
            }
        };
        within(EXIT_WAIT, read).await;
        let room = poll_fn(|context| self.output.poll_room(context));
        if !lines.is_empty() && within(EXIT_WAIT, room).await.is_some() {
            self.output.tell(lines);
        }
    }
}

struct Face<'a> {
    process: Process,
    chunks: ChunkReader,
    gate: Gate,
    client: &'a mut Client,
    /// Removes secrets from the agent's stderr.
    redactor: Redactor,
    /// Text of the agent's stderr that waits for its turn.
    for_log: Vec<u8>,
    /// The block of lines of which the agent has got a part.
    for_agent: Bytes,
    /// Since when a side takes nothing, while too much waits for it.
    stuck: Option<Instant>,
    to_agent: mpsc::Sender<Bytes>,
    recorder: &'a mut Audience,
}

/// The reason why the face is over.
enum Over {
    /// The client's input has ended.
    ClientGone,
    /// The agent's stdout has ended.
    AgentGone,
    /// The agent has to be killed.
    Failed(Error),
}

impl Face<'_> {
    async fn serve(&mut self, allowance: &Allowance, aborted: impl Future<Output = ()>) -> Over {
        let mut from_agent = LineFramer::new(MAX_LINE_BYTES);
        let mut aborted = std::pin::pin!(aborted);
        let to_agent = self.to_agent.clone();
        let (seen, mut found) = mpsc::unbounded_channel();
        let mut awake = Awake::new();
        loop {
            let (now, gap) = awake.tick();
            self.gate.prompts.on_stopped(gap, now);
            let (is_full, is_shut) = self.look_at_room(now);
            let deadline = self.deadline(now);
            let has_room = self.gate.out.client.is_empty() && self.for_log.is_empty();
            tokio::select! {
                biased;
                () = &mut aborted => return Over::Failed(was_aborted(self.gate.rules.agent)),
                permit = to_agent.reserve(), if self.has_for_agent() => {
                    let block = self.next_block();
                    // A closed channel is an agent that reads no more; its exit follows.
                    if let Ok(permit) = permit {
                        permit.send(block);
                    }
                }
                () = poll_fn(|context| self.client.output.poll_room(context)), if !has_room => self.deliver(),
                bytes = self.client.input.recv(), if !is_full || is_shut => {
                    let Some(bytes) = bytes else { return Over::ClientGone };
                    let now = awake.now();
                    let gate = &mut self.gate;
                    if for_lines(&mut self.client.framer, &bytes, |line| gate.on_client(line, is_shut, now)).is_err() {
                        return Over::Failed(too_long("the client"));
                    }
                }
                chunk = self.chunks.next(), if has_room && self.gate.out.agent.len() < MAX_ANSWERED_BYTES => match chunk {
                    Some((Stream::Stderr, piece)) => self.for_log = self.redactor.push(&piece),
                    Some((Stream::Stdout, bytes)) if !bytes.is_empty() => {
                        let now = awake.now();
                        let gate = &mut self.gate;
                        if for_lines(&mut from_agent, &bytes, |line| gate.on_agent(line, now)).is_err() {
                            return Over::Failed(too_long(self.gate.agent_name()));
                        }
                    }
                    Some((Stream::Stdout, _)) | None => {
                        // Its last line may have no end.
                        let _ = from_agent.end(|line| self.gate.on_agent(line, awake.now()));
                        return Over::AgentGone;
                    }
                },
                Some((ticket, found)) = found.recv() => self.gate.on_looked(ticket, found, awake.now()),
                () = allowance.crossed(), if self.gate.is_prompting() => self.gate.on_budget(awake.now()),
                () = awake.sleep_until(deadline) => self.on_clock(&awake).await,
            }
            if let Some(error) = self.heed(&seen) {
                return Over::Failed(error);
            }
        }
    }

    /// Does what the gate has decided. Returns why the agent has to be killed.
    fn heed(&mut self, seen: &mpsc::UnboundedSender<(u64, Found)>) -> Option<Error> {
        let events = std::mem::take(&mut self.gate.out.events);
        if !events.is_empty() {
            self.recorder.tell(events);
        }
        self.for_log.append(&mut self.gate.out.log);
        for (ticket, look) in std::mem::take(&mut self.gate.out.looks) {
            let seen = seen.clone();
            ground::task::spawn(async move {
                // A face that is over needs no answer.
                let _ = seen.send((ticket, find(look).await));
            });
        }
        let refused = || {
            Error::new(ErrorCode::AgentFailed, "the client does not read its answers").with("kind", "unknown")
        };
        let is_over = self.gate.out.client.len() > MAX_ANSWERED_BYTES && self.stuck.is_some();
        self.gate.out.kill.take().or_else(|| is_over.then(refused))
    }

    async fn on_clock(&mut self, awake: &Awake) {
        if let Some(prompt) = self.gate.on_clock(awake.now()) {
            let used = self.process.tree_usage().await;
            let (cpu, io_bytes) = (used.cpu, used.io_bytes);
            self.gate.prompts.on_sample(prompt, Sample { at: awake.now(), cpu, io_bytes });
        }
    }

    /// Whether too much waits for a side, and whether that is so for too long.
    fn look_at_room(&mut self, now: Instant) -> (bool, bool) {
        let waiting = (self.gate.out.agent.len() + self.for_agent.len()).max(self.gate.out.client.len());
        if waiting < MAX_WAITING_BYTES {
            self.stuck = None;
            return (false, false);
        }
        let since = *self.stuck.get_or_insert(now);
        (true, now.saturating_duration_since(since) >= PATIENCE)
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let patience = self.stuck.map(|since| since + PATIENCE).filter(|at| *at > now);
        [self.gate.deadline(now), patience].into_iter().flatten().min()
    }

    fn has_for_agent(&self) -> bool {
        !self.for_agent.is_empty() || !self.gate.out.agent.is_empty()
    }

    fn next_block(&mut self) -> Bytes {
        self.stuck = None;
        if self.for_agent.is_empty() {
            self.for_agent = std::mem::take(&mut self.gate.out.agent).into();
        }
        let length = self.for_agent.remaining().min(MAX_BLOCK_BYTES);
        self.for_agent.split_to(length)
    }

    /// Ends the agent's tree, and tells the client what is left to tell.
    async fn end(&mut self, over: Over) -> Result<(), Error> {
        let ended = match over {
            Over::ClientGone => {
                self.process.stop(StopReason::Killed);
                self.exit().await;
                return Ok(());
            }
            Over::AgentGone => {
                let exit = match within(EXIT_WAIT, self.exit()).await {
                    Some(exit) => exit,
                    None => {
                        self.process.stop(StopReason::Killed);
                        self.exit().await
                    }
                };
                exit.crash(self.gate.rules.agent, "", None)
            }
            Over::Failed(error) => {
                self.process.stop(StopReason::Abandoned);
                let exit = self.exit().await;
                exit.tell(error)
            }
        };
        // The client is told why its requests will not be answered.
        self.gate.refuse_all(&ended);
        let room = poll_fn(|context| self.client.output.poll_room(context));
        if within(EXIT_WAIT, room).await.is_some() {
            self.deliver();
        }
        Err(ended)
    }

    /// Hands over what waits for the client and for the log.
    fn deliver(&mut self) {
        self.stuck = None;
        let (lines, piece) = (std::mem::take(&mut self.gate.out.client), std::mem::take(&mut self.for_log));
        if !piece.is_empty() {
            self.client.output.log(piece);
        }
        if !lines.is_empty() {
            self.client.output.tell(lines);
        }
    }

    /// Waits until nothing of the tree is left. What the agent writes to stderr until then is passed on; a log without room
    /// loses it, because the end waits for no reader.
    async fn exit(&mut self) -> Exit {
        let process = self.process.clone();
        let mut outcome = std::pin::pin!(process.outcome());
        let mut is_open = true;
        let outcome = loop {
            tokio::select! {
                biased;
                chunk = self.chunks.next(), if is_open => match chunk {
                    Some((Stream::Stderr, piece)) => {
                        let piece = self.redactor.push(&piece);
                        self.log_if_room(piece).await;
                    }
                    Some((Stream::Stdout, _)) => {}
                    None => is_open = false,
                },
                outcome = &mut outcome => break outcome,
            }
        };
        let rest = self.redactor.flush();
        self.log_if_room(rest).await;
        Exit::of(&outcome)
    }

    async fn log_if_room(&mut self, piece: Vec<u8>) {
        let has_room = poll_fn(|context| Poll::Ready(self.client.output.poll_room(context).is_ready())).await;
        if has_room {
            self.for_log.extend(piece);
            self.deliver();
        }
    }
}

fn was_aborted(agent: Provider) -> Error {
    let message = format!(
        "{} was ended, because `sheepdog acp` was told to end (SIGINT, SIGTERM, SIGHUP), or `serve()` by its `signal`",
        agent.as_str()
    );
    Error::new(ErrorCode::AgentAborted, message)
}

fn too_long(who: &str) -> Error {
    let message = format!("{who} sent a line of more than {} MiB", MAX_LINE_BYTES >> 20);
    Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown")
}

async fn find(look: Look) -> Found {
    match look {
        Look::Files(question, policy, cwd) => Found::Files(Places::find(&question, &policy, &cwd).await),
        Look::Folders(folders) => {
            let unknown = vec![None; folders.len()];
            let real = |folder: &PathBuf| destination(folder).ok();
            let look = blocking(move || folders.iter().map(real).collect());
            let found = within(LONGEST_LOOK, look).await;
            Found::Folders(found.and_then(Result::ok).unwrap_or(unknown))
        }
    }
}

/// Hands over the whole lines of a chunk. An error is a line that is too long.
fn for_lines(
    framer: &mut LineFramer,
    bytes: &[u8],
    mut on_line: impl FnMut(&[u8]),
) -> Result<(), LineTooLong> {
    framer.push(bytes, |block| {
        ground::line::lines_of(block).filter(|line| !line.trim_ascii().is_empty()).for_each(&mut on_line);
    })
}
