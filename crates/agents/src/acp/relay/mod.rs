//! Serves an agent to a client of the protocol: an editor, or a program in another language. Both sides speak the protocol, and
//! the messages pass through as they are. The agent runs as in a session: under the guard, in its sandbox, at its level.
//!
//! ```text
//! client ──chunks──> Relay (one select!) ──blocks of lines──> agent
//!        <──blocks──   │  traffic  PURE  what to pass on, to answer, or to change
//!                      │  talk     PURE  one session as seen from between: its tools, its prompt, its clock
//! ```
//!
//! All lines of a chunk travel on as one block, so that a flood costs one turn of the loop and one write for each read.
//!
//! A message is changed only where the level, a clock or a budget requires it (see `traffic`). The client's end is the end of the
//! relay, and then nothing of the agent's tree is left.

mod talk;
mod traffic;

use super::connection::Exit;
use super::opening::aborted as was_aborted;
use super::program::not_started;
use super::ready::{Ready, ready};
use super::request::OpenRequest;
use crate::harness::ConcurrencyLimit;
use crate::harness::limit::allowance::Allowance;
use crate::harness::limit::scheduler::Waiting;
use crate::harness::turn::audience::Audience;
use crate::harness::turn::clock::Sample;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::line::LineFramer;
use ground::mpsc;
use ground::os::{Awake, within};
use ground::redaction::{Redactor, Secret};
use process::{ChunkReader, Input, Process, StdinWriter, StopReason, Stream};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use traffic::{Out, Traffic};

/// Longest line in either direction.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Blocks on their way to the agent's stdin.
const MAX_BLOCKS: usize = 4;
/// Bytes that wait for one side; at the limit the client is not read. As long as it is read, its end is noticed, even if the
/// agent takes nothing.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// For the agent's last words and its exit, after the end of its stdout.
const EXIT_WAIT: Duration = Duration::from_secs(1);

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
pub async fn relay(
    request: OpenRequest,
    limits: Vec<ConcurrencyLimit>,
    input: mpsc::Receiver<Bytes>,
    output: Box<dyn ClientSink>,
    aborted: impl Future<Output = ()>,
) -> Result<(), Error> {
    let allowance = request.allowance()?;
    allowance.check()?;
    let mut aborted = std::pin::pin!(aborted);
    let _slot = tokio::select! {
        biased;
        () = &mut aborted => return Err(was_aborted()),
        slot = Waiting::begin(limits).end() => slot,
    };
    let clean = Audience::new(false, &request.agent.redact);
    let relayed = async {
        let mut ready = ready(&request).await?;
        ready.spec.input = Input::Pipe;
        ready.spec.idle_timeout = None;
        ready.spec.timeout = None;
        ready.spec.max_output_bytes = 32 << 10;
        let traffic = Traffic::new(&request, &ready.modes, ready.meta, &ready.cwd, allowance.clone());
        run(ready, traffic, &allowance, input, output, aborted).await
    };
    relayed.await.map_err(|error| clean.redact_error(&error))
}

async fn run(
    ready: Ready<'_>,
    traffic: Traffic,
    allowance: &Allowance,
    input: mpsc::Receiver<Bytes>,
    output: Box<dyn ClientSink>,
    aborted: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Ready { agent, spec, folder, record, request, .. } = ready;
    let mut recorder = Audience::new(false, &request.agent.redact);
    recorder.keep(record);
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
            let mut relay = Relay {
                chunks: process.chunks(),
                process: process.clone(),
                traffic,
                output,
                redactor: Redactor::new(request.agent.redact.iter().cloned().map(Secret::from)),
                for_log: Vec::new(),
                for_client: Vec::new(),
                for_agent: Vec::new(),
                to_agent,
                recorder: &mut recorder,
            };
            let over = relay.serve(input, allowance, aborted).await;
            let ended = relay.end(over).await;
            drop(relay);
            let _ = writer.await;
            ended
        }
        Err(error) => Err(not_started(agent, error)),
    };
    folder.remove().await;
    if let Some(record) = recorder.record().take() {
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

struct Relay<'a> {
    process: Process,
    chunks: ChunkReader,
    traffic: Traffic,
    output: Box<dyn ClientSink>,
    /// Removes secrets from the agent's stderr.
    redactor: Redactor,
    /// Text of the agent's stderr that waits for its turn.
    for_log: Vec<u8>,
    /// Whole lines that wait for their turn.
    for_client: Vec<u8>,
    for_agent: Vec<u8>,
    to_agent: mpsc::Sender<Bytes>,
    recorder: &'a mut Audience,
}

/// The reason why the relay is over.
enum Over {
    /// The client's input has ended.
    ClientGone,
    /// The agent's stdout has ended.
    AgentGone,
    /// The agent has to be killed.
    Failed(Error),
}

impl Relay<'_> {
    async fn serve(
        &mut self,
        mut input: mpsc::Receiver<Bytes>,
        allowance: &Allowance,
        aborted: impl Future<Output = ()>,
    ) -> Over {
        let mut from_client = LineFramer::new(MAX_LINE_BYTES);
        let mut from_agent = LineFramer::new(MAX_LINE_BYTES);
        let mut aborted = std::pin::pin!(aborted);
        let to_agent = self.to_agent.clone();
        let (awake, mut lost) = (Awake::new(), Duration::ZERO);
        loop {
            let (now, gap) = awake.tick(&mut lost);
            self.traffic.on_stopped(gap, now);
            let deadline = self.traffic.deadline(now);
            let has_room = self.for_client.is_empty() && self.for_log.is_empty();
            let is_read = self.for_agent.len().max(self.for_client.len()) < MAX_WAITING_BYTES;
            let outs = tokio::select! {
                biased;
                () = &mut aborted => return Over::Failed(was_aborted()),
                permit = to_agent.reserve(), if !self.for_agent.is_empty() => {
                    let block = std::mem::take(&mut self.for_agent);
                    // A closed channel is an agent that reads no more; its exit follows.
                    if let Ok(permit) = permit {
                        permit.send(block.into());
                    }
                    continue;
                }
                () = poll_fn(|context| self.output.poll_room(context)), if !has_room => {
                    self.deliver();
                    continue;
                }
                bytes = input.recv(), if is_read => {
                    let Some(bytes) = bytes else { return Over::ClientGone };
                    let now = awake.now();
                    let mut outs = Vec::new();
                    for line in lines(&mut from_client, &bytes) {
                        match line {
                            Ok(line) => outs.extend(self.traffic.on_client(line, now)),
                            Err(()) => return Over::Failed(too_long("the client")),
                        }
                    }
                    outs
                }
                chunk = self.chunks.next(), if has_room => {
                    let bytes = match chunk {
                        Some((Stream::Stdout, bytes)) if bytes.is_empty() => return Over::AgentGone,
                        Some((Stream::Stdout, bytes)) => bytes,
                        Some((Stream::Stderr, piece)) => {
                            self.for_log = self.redactor.push(&piece);
                            continue;
                        }
                        None => return Over::AgentGone,
                    };
                    let now = awake.now();
                    let mut outs = Vec::new();
                    for line in lines(&mut from_agent, &bytes) {
                        match line {
                            Ok(line) => outs.extend(self.traffic.on_agent(line, now)),
                            Err(()) => return Over::Failed(too_long(self.traffic.agent_name())),
                        }
                    }
                    outs
                }
                () = allowance.crossed(), if self.traffic.is_prompting() => self.traffic.on_budget(awake.now()),
                () = awake.sleep_until(deadline) => match self.traffic.on_clock(awake.now()) {
                    Ok(outs) => outs,
                    Err(sampled) => {
                        let used = self.process.tree_usage().await;
                        let (cpu, io_bytes) = (used.cpu, used.io_bytes);
                        self.traffic.on_sample(sampled, Sample { at: awake.now(), cpu, io_bytes });
                        continue;
                    }
                },
            };
            for out in outs {
                match out {
                    Out::Agent(line) => append(&mut self.for_agent, &line),
                    Out::Client(line) => append(&mut self.for_client, &line),
                    Out::Record(events) => self.recorder.tell(events),
                    Out::Log(text) => append(&mut self.for_log, text.as_bytes()),
                    Out::Kill(error) => return Over::Failed(error),
                }
            }
        }
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
                let name = self.traffic.agent_name();
                let why = exit.reason().map_or_else(String::new, |line| format!(": {line}"));
                let message = format!("{name} {}{why}", exit.words());
                exit.tell(Error::new(ErrorCode::AgentCrashed, message))
            }
            Over::Failed(error) => {
                self.process.stop(StopReason::Abandoned);
                let exit = self.exit().await;
                exit.tell(error)
            }
        };
        // The client is told why its requests will not be answered.
        for line in self.traffic.refuse_all(&ended) {
            append(&mut self.for_client, &line);
        }
        let room = poll_fn(|context| self.output.poll_room(context));
        if within(EXIT_WAIT, room).await.is_some() {
            self.deliver();
        }
        Err(ended)
    }

    /// Hands over what waits for the client and for the log.
    fn deliver(&mut self) {
        let (lines, piece) = (std::mem::take(&mut self.for_client), std::mem::take(&mut self.for_log));
        if !piece.is_empty() {
            self.output.log(piece);
        }
        if !lines.is_empty() {
            self.output.tell(lines);
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
        let has_room = poll_fn(|context| Poll::Ready(self.output.poll_room(context).is_ready())).await;
        if has_room {
            self.for_log.extend(piece);
            self.deliver();
        }
    }
}

fn too_long(who: &str) -> Error {
    let message = format!("{who} sent a line of more than {} MiB", MAX_LINE_BYTES >> 20);
    Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown")
}

fn append(block: &mut Vec<u8>, line: &[u8]) {
    block.extend_from_slice(line);
    block.push(b'\n');
}

/// The whole lines of a chunk. An error is a line that is too long.
fn lines(framer: &mut LineFramer, bytes: &[u8]) -> Vec<Result<Bytes, ()>> {
    let mut found = Vec::new();
    let framed = framer.push(bytes, |block| {
        let block = Bytes::copy_from_slice(block);
        let whole = ground::line::lines_of(&block).filter(|line| !line.trim_ascii().is_empty());
        found.extend(whole.map(|line| Ok(block.slice_ref(line))));
    });
    if framed.is_err() {
        found.push(Err(()));
    }
    found
}
