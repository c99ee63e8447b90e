//! The owner task of a run: it alone holds the pipes, the clocks and the tree.
//!
//! One `select!` names what happened and calls `on_<event>`; what follows from it is decided by the [`Watchdog`]. The run is
//! over when the tree is gone and both pipes were read to their end, or closed at the end of the drain.

use super::handle::{Admission, Command, Publisher, Stop};
use super::keep::Keep;
use super::launch::{ExitStatus, Launched, Pipes, Tree, TreeEvent, tree_usage};
use super::newcomer::newcomers;
use super::on_record;
use super::output::{Ask, Output, READ_BUFFER, READ_BYTES, readable};
use super::roster::{Enrolled, Entry};
use super::sink::Sink;
use super::spec::{
    ContainmentLevel, Encoding, Input, Outcome, ProcessSpec, RunResult, Stdio, StopReason, Strays, Stream,
    Usage,
};
use super::start::{Begun, Opened, start};
use super::stdin::{Chunk, Fed, Feed};
use super::stop::stop_error;
use super::watchdog::{Limits, Step, Watchdog};
use crate::error::{Error, ErrorCode};
use crate::line::LineTooLong;
use crate::os::{Awake, Pipe, Terminal, blocking};
use crate::record::{Channel, Record};
use crate::trace::{RUN, debug, trace};
use bytes::Bytes;
use futures_util::FutureExt;
use nix::sys::signal::Signal;
use std::future::{pending, poll_fn};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};

/// Reads of one stream before the other events get their turn.
const READS_A_TURN: usize = 4;
/// What may be waiting in a pipe at the exit at most: larger pipes need a privilege.
const PIPE_BYTES: u64 = 4 << 20;

/// A tree that is killed after a fault of its own watcher is waited for so long.
const FAULT_PATIENCE: Duration = Duration::from_secs(12);
/// More text than this is decoded on another thread: the owner tasks of all runs share this one.
const MUCH_TEXT: u64 = 1 << 20;

/// Runs the spec to its end and publishes what happens.
pub(super) async fn run(
    number: u64,
    spec: ProcessSpec,
    admission: Admission,
    written: Option<Receiver<Chunk>>,
    publisher: Publisher,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut early = Vec::new();
    let mut opened = Opened::default();
    // What admitted it is held to the end.
    let (begun, _held) = start(&spec, admission, &mut commands, &mut early, &mut opened).await;
    let launched = match begun {
        Begun::Launched(launched) => *launched,
        Begun::Not(error) => {
            debug!(target: RUN, id = number, code = error.code().as_str(), "was not started");
            publisher.set_started(Err(error.clone()));
            let mut outcome = Outcome { result: None, error: Some(error) };
            on_record::close(opened.record, &mut outcome).await;
            return finish(&publisher, commands, early, outcome);
        }
        Begun::Unknown(reason) => {
            debug!(target: RUN, id = number, ?reason, "was stopped while it was started");
            let mut outcome = unknown_outcome(spec, reason);
            publisher.set_started(outcome.error.clone().map_or(Ok(0), Err));
            on_record::close(opened.record, &mut outcome).await;
            return finish(&publisher, commands, early, outcome);
        }
    };
    publisher.set_started(Ok(launched.pid));
    let containment = launched.level;
    debug!(target: RUN, id = number, pid = launched.pid, ps = opened.short_mark(), ?containment, "runs");
    let mut runner = Runner::new(number, spec, written, launched, opened);
    let watched = AssertUnwindSafe(async {
        for command in early {
            runner.on_command(Some(command));
        }
        runner.run(&mut commands).await
    });
    let mut outcome = match watched.catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => runner.after_panic().await,
    };
    runner.enrolled.end();
    let duration_ms = outcome.result.as_ref().map(|result| result.duration_ms);
    let error = outcome.error.as_ref().map_or("none", |error| error.code().as_str());
    debug!(target: RUN, id = number, error, duration_ms, "ended");
    on_record::close(runner.record.take(), &mut outcome).await;
    finish(&publisher, commands, Vec::new(), outcome);
}

/// It may have run, and if it does it is killed: nobody saw it.
fn unknown_outcome(spec: ProcessSpec, reason: StopReason) -> Outcome {
    let result = RunResult {
        command: spec.command.clone(),
        args: spec.args.clone(),
        pid: 0,
        exit_code: None,
        signal: None,
        stdout: String::new(),
        stderr: String::new(),
        raw: [None, None],
        stdout_bytes: 0,
        stderr_bytes: 0,
        truncated: false,
        duration_ms: 0.0,
        first_output_ms: None,
        last_output_ms: None,
        pipes_held_open: false,
        strays_killed: 0,
        strays_left: 1,
        containment: ContainmentLevel::Group,
        usage: Usage::default(),
        record: None,
    };
    let error = stop_error(reason, &spec, &result);
    Outcome { result: Some(result), error }
}

/// Publishes the outcome, then serves the reader that came too late for the live output.
fn finish(
    publisher: &Publisher,
    mut commands: UnboundedReceiver<Command>,
    mut early: Vec<Command>,
    outcome: Outcome,
) {
    let outcome = Arc::new(outcome);
    // In this order: who finds the queue closed finds the outcome.
    publisher.set_outcome(outcome.clone());
    commands.close();
    while let Ok(command) = commands.try_recv() {
        early.push(command);
    }
    for command in early {
        if let Command::Subscribe(mut sink) = command {
            replay(&outcome, sink.as_mut());
        }
    }
}

/// Gives a sink what was kept of an ended run.
pub(super) fn replay(outcome: &Outcome, sink: &mut dyn Sink) {
    if let Some(result) = &outcome.result {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if sink.takes(stream)
                && give(sink, stream, result.bytes_of(stream)).and_then(|()| sink.end(stream)).is_err()
            {
                sink.fail(stream);
            }
        }
    }
    sink.finish();
}

/// In slices as they would have been read: no block is larger than a live one.
fn give(sink: &mut dyn Sink, stream: Stream, kept: &[u8]) -> std::result::Result<(), LineTooLong> {
    kept.chunks(READ_BYTES).try_for_each(|bytes| sink.push(stream, bytes))
}

fn channel_of(stream: Stream) -> Channel {
    match stream {
        Stream::Stdout => Channel::Stdout,
        Stream::Stderr => Channel::Stderr,
    }
}

/// What a read brought.
enum Read {
    Nothing,
    Something,
    /// Something, and in it a line that is too long.
    TooLong,
    Ended,
}

struct Runner {
    number: u64,
    spec: ProcessSpec,
    pid: u32,
    level: ContainmentLevel,
    watchdog: Watchdog,
    awake: Awake,
    /// What `awake` said first, and last: how long this process was stopped.
    lost: [Duration; 2],
    stdout: Output,
    stderr: Output,
    feed: Option<Feed>,
    /// Held to the end: without it the program's terminal would hang up.
    terminal: Option<Arc<Terminal>>,
    tree: Tree,
    sink: Option<Box<dyn Sink>>,
    record: Option<Record>,
    enrolled: Enrolled,
    /// The sink, or the record, has no room: what it takes is not read.
    paused: bool,
    started: Instant,
    first_output: Option<Instant>,
    last_output: Option<Instant>,
    exited: Option<Instant>,
    pipes_held_open: bool,
    end: Option<End>,
}

struct End {
    status: Option<ExitStatus>,
    usage: Usage,
    strays_killed: u32,
    strays_left: u32,
}

impl Runner {
    fn new(
        number: u64,
        mut spec: ProcessSpec,
        written: Option<Receiver<Chunk>>,
        launched: Launched,
        opened: Opened,
    ) -> Self {
        let Opened { mark, mut record } = opened;
        if let Some(record) = &mut record {
            record.begin(launched.spawned);
            record.push(Channel::Note, format!("pid {}", launched.pid).as_bytes());
        }
        let enrolled = Enrolled::new(Entry::of(&spec, &mark, &launched, record.as_ref()));
        let limits = Limits {
            // Who prints to somebody else's screen is not heard here.
            idle: spec.idle_timeout.filter(|_| spec.stdio != Stdio::Inherit),
            total: spec.timeout,
            kill_grace: spec.kill_grace,
            drain: spec.drain,
        };
        let first = match std::mem::replace(&mut spec.input, Input::Null) {
            Input::Bytes(bytes) => bytes,
            Input::Null | Input::Pipe | Input::File(_) | Input::Inherit => Bytes::new(),
        };
        let Pipes { stdin, stdout, stderr, terminal } = launched.pipes;
        let limit = spec.max_output_bytes;
        let output = |pipe| Output::new(pipe, Keep::new(limit));
        let awake = Awake::new();
        let lost = awake.lost();
        Runner {
            number,
            awake,
            lost: [lost, lost],
            pid: launched.pid,
            level: launched.level,
            watchdog: Watchdog::new(limits, launched.spawned),
            stdout: output(stdout),
            stderr: output(stderr),
            feed: stdin.map(|stdin| Feed::new(stdin, first, written, terminal.clone())),
            terminal,
            tree: launched.tree,
            sink: None,
            record,
            enrolled,
            paused: false,
            started: launched.spawned,
            first_output: None,
            last_output: None,
            exited: None,
            pipes_held_open: false,
            end: None,
            spec,
        }
    }

    async fn run(&mut self, commands: &mut UnboundedReceiver<Command>) -> Outcome {
        let mut has_handles = true;
        while self.end.is_none() || self.stdout.pipe.is_some() || self.stderr.pipe.is_some() {
            let deadline =
                self.watchdog.deadline().and_then(|deadline| deadline.checked_add(self.stopped_for()));
            let open = [Stream::Stdout, Stream::Stderr].map(|stream| !self.holds(stream));
            tokio::select! {
                biased;
                command = commands.recv(), if has_handles => {
                    has_handles = command.is_some();
                    self.on_command(command);
                }
                event = self.tree.next() => self.on_tree(event),
                () = sleep_until(deadline) => self.on_time(),
                () = room(&mut self.sink, &mut self.record), if self.paused => self.on_room(),
                fed = feed(&mut self.feed) => self.on_fed(fed),
                () = readable([&self.stdout, &self.stderr], open) => {
                    self.pump(READS_A_TURN, Ask::Tokio);
                    // A program that prints faster than it is read must not keep the thread from all others.
                    tokio::task::yield_now().await;
                }
            }
        }
        if let Some(mut sink) = self.sink.take() {
            sink.finish();
        }
        self.outcome().await
    }

    /// Something in here, or a reader's sink, panicked: the tree is killed, and what is known is told.
    async fn after_panic(&mut self) -> Outcome {
        self.sink = None;
        self.feed = None;
        self.watchdog.on_lost();
        self.tree.kill();
        let gone = async {
            while self.end.is_none() {
                match self.tree.next().await {
                    TreeEvent::Exited => self.tree.finish(Strays::Kill),
                    TreeEvent::Dying => {}
                    TreeEvent::Gone { status, usage, strays_killed, strays_left } => {
                        self.end = Some(End { status: Some(status), usage, strays_killed, strays_left });
                    }
                    TreeEvent::Lost { strays_killed, strays_left } => {
                        let usage = Usage::default();
                        self.end = Some(End { status: None, usage, strays_killed, strays_left });
                    }
                }
            }
        };
        let _ = tokio::time::timeout(FAULT_PATIENCE, gone).await;
        self.give_up();
        let mut outcome = self.outcome().await;
        let message = format!(
            "what watched {} failed: its processes were killed; this is a bug of the addon, or of a sink that panicked",
            outcome.result.as_ref().map_or("the program", |result| &result.command)
        );
        outcome.error = Some(Error::new(ErrorCode::ProcessLost, message));
        outcome
    }

    /// How long this process was stopped since the start of the run, as far as it was told.
    fn stopped_for(&self) -> Duration {
        self.lost[1] - self.lost[0]
    }

    /// Now, on the clock that rests while this process is stopped.
    fn now(&mut self) -> Instant {
        let now = Instant::now();
        let lost = self.awake.lost();
        let before = std::mem::replace(&mut self.lost[1], lost);
        if lost > before {
            self.watchdog.on_stopped(lost - before);
        }
        now.checked_sub(self.stopped_for()).unwrap_or(now)
    }

    fn on_command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Stop(Stop { reason, signal })) => {
                debug!(target: RUN, id = self.number, ?reason, ?signal, "is to be stopped");
                match signal {
                    None => self.stop(reason),
                    Some(signal) => self.stop_by(reason, signal),
                }
            }
            Some(Command::Resize(size)) => {
                if let Some(terminal) = &self.terminal {
                    // Of a terminal that was hung up.
                    let _ = terminal.resize(size);
                }
            }
            Some(Command::Subscribe(sink)) => self.on_subscribe(sink),
            Some(Command::Detach) => {
                if let Some(mut sink) = self.sink.take() {
                    sink.finish();
                }
                self.on_room();
            }
            Some(Command::TreeUsage(reply)) => {
                let root = self.tree.root();
                tokio::spawn(async move {
                    let _ = reply.send(tree_usage(root).await);
                });
            }
            Some(Command::Newcomers { since, until, reply }) => {
                let root = self.tree.root();
                tokio::spawn(async move {
                    let _ = reply.send(newcomers(root, since, until).await);
                });
            }
            // The last handle is gone: nobody can want this run any more.
            None => {
                debug!(target: RUN, id = self.number, "has no handle any more");
                self.stop(StopReason::HostClosing);
            }
        }
    }

    fn on_subscribe(&mut self, mut sink: Box<dyn Sink>) {
        let mut too_long = None;
        for (stream, output) in [(Stream::Stdout, &self.stdout), (Stream::Stderr, &self.stderr)] {
            if !sink.takes(stream) {
                continue;
            }
            // What was left out meanwhile can't be given any more; the bounded text says so in a line of its own.
            let kept = output.keep.whole().unwrap_or_else(|| output.keep.clone().into_bytes());
            let given = give(sink.as_mut(), stream, &kept);
            let ended = if output.pipe.is_none() { given.and_then(|()| sink.end(stream)) } else { given };
            if ended.is_err() {
                too_long = Some(stream);
            }
        }
        self.sink = Some(sink);
        if let Some(stream) = too_long {
            self.stop(StopReason::LineTooLong(stream));
        }
        self.check_room();
    }

    fn on_tree(&mut self, event: TreeEvent) {
        match event {
            TreeEvent::Exited => self.on_exit(),
            TreeEvent::Gone { status, usage, strays_killed, strays_left } => {
                debug!(target: RUN, id = self.number, code = status.code, signal = ?status.signal, strays_killed, strays_left, "heard that its tree is gone");
                // Without an exit it could not be killed: nobody can say how it will end, or when its pipes do.
                let exited = self.exited.is_some();
                self.end = Some(End { status: exited.then_some(status), usage, strays_killed, strays_left });
                if !exited {
                    self.give_up();
                }
            }
            TreeEvent::Lost { strays_killed, strays_left } => {
                debug!(target: RUN, id = self.number, strays_killed, strays_left, "lost its guard");
                self.watchdog.on_lost();
                self.end = Some(End { status: None, usage: Usage::default(), strays_killed, strays_left });
                self.give_up();
            }
            TreeEvent::Dying => {
                let now = self.now();
                self.watchdog.on_dying(now);
            }
        }
    }

    fn on_exit(&mut self) {
        self.exited = Some(Instant::now());
        debug!(target: RUN, id = self.number, "heard that its command exited");
        let now = self.now();
        let step = self.watchdog.on_exit(now);
        self.feed = None;
        // What the program itself wrote is in the pipes by now: it is taken whatever the reader's pace, so that nothing is
        // lost and nothing waits for a reader that never comes.
        self.take_what_is_there();
        self.take(step);
        self.check_pipes();
        self.check_room();
    }

    /// Nothing more is to be waited for.
    fn give_up(&mut self) {
        self.exited.get_or_insert_with(Instant::now);
        self.take_what_is_there();
        self.close_pipes();
    }

    /// All that the pipes hold at this moment, whatever the reader's pace: bounded by what a pipe may hold.
    fn take_what_is_there(&mut self) {
        self.unpause();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let until = self.output(stream).keep.total() + PIPE_BYTES;
            while self.read(stream, Ask::Pipe) && self.output(stream).keep.total() < until {}
        }
        self.unpause();
    }

    fn on_time(&mut self) {
        // Bytes that arrived while this task could not run are activity. tokio may not know of them yet: the pipes are asked.
        self.pump(1, Ask::Pipe);
        let now = self.now();
        let step = self.watchdog.on_time(now);
        self.take(step);
    }

    fn on_room(&mut self) {
        self.unpause();
    }

    fn on_fed(&mut self, fed: Fed) {
        match fed {
            Fed::Wrote => {
                let now = self.now();
                self.watchdog.on_activity(now);
            }
            Fed::Reminded => {}
            Fed::Closed => self.feed = None,
        }
    }

    /// Reads what is there, at most so many reads of each stream.
    fn pump(&mut self, reads: usize, ask: Ask) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..reads {
                if self.holds(stream) || !self.read(stream, ask) {
                    break;
                }
            }
        }
        self.check_pipes();
    }

    /// One read; false when there is nothing to read now, or never again.
    fn read(&mut self, stream: Stream, ask: Ask) -> bool {
        // What follows from a read may read again: the buffer is given back first.
        match READ_BUFFER.with_borrow_mut(|buffer| self.read_into(stream, buffer, ask)) {
            Read::Nothing => return false,
            Read::Ended => {
                self.close(stream);
                return false;
            }
            Read::TooLong => self.stop(StopReason::LineTooLong(stream)),
            Read::Something => {}
        }
        self.check_room();
        true
    }

    fn read_into(&mut self, stream: Stream, buffer: &mut [u8], ask: Ask) -> Read {
        let awake_now = self.now();
        let output = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let bytes = match output.read(buffer, ask) {
            Ok(bytes) if !bytes.is_empty() => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Read::Something,
            Ok(_) | Err(_) => return Read::Ended,
        };
        let now = Instant::now();
        self.watchdog.on_activity(awake_now);
        trace!(target: RUN, id = self.number, ?stream, bytes = bytes.len(), "read");
        if self.first_output.is_none() {
            debug!(target: RUN, id = self.number, ?stream, "heard the first of its output");
            self.first_output = Some(now);
        }
        self.last_output = Some(now);
        self.enrolled.on_output(now);
        if let Some(record) = &mut self.record {
            record.push(channel_of(stream), bytes);
        }
        match self.sink.as_mut().filter(|sink| sink.takes(stream)).map(|sink| sink.push(stream, bytes)) {
            Some(Err(LineTooLong)) => Read::TooLong,
            Some(Ok(())) | None => Read::Something,
        }
    }

    fn close(&mut self, stream: Stream) {
        if self.output(stream).pipe.take().is_none() {
            return;
        }
        if let Some(sink) = self.sink.as_mut().filter(|sink| sink.takes(stream))
            && let Err(LineTooLong) = sink.end(stream)
        {
            self.stop(StopReason::LineTooLong(stream));
        }
    }

    fn close_pipes(&mut self) {
        self.close(Stream::Stdout);
        self.close(Stream::Stderr);
    }

    fn check_pipes(&mut self) {
        if self.stdout.pipe.is_none() && self.stderr.pipe.is_none() {
            let step = self.watchdog.on_pipes_ended();
            self.take(step);
        }
    }

    /// Whether the sink's lack of room keeps this stream from being read, or the record's, which takes both.
    fn holds(&self, stream: Stream) -> bool {
        self.paused
            && (self.sink.as_ref().is_some_and(|sink| sink.takes(stream))
                || self.record.as_ref().is_some_and(Record::holds))
    }

    fn check_room(&mut self) {
        let mut nobody = Context::from_waker(Waker::noop());
        let full = poll_room(&mut self.sink, &mut self.record, &mut nobody).is_pending();
        if full && !self.paused {
            debug!(target: RUN, id = self.number, "is not read: who takes its output is behind");
            self.paused = true;
            let now = self.now();
            self.watchdog.on_pause(now);
        }
    }

    fn unpause(&mut self) {
        if std::mem::take(&mut self.paused) {
            debug!(target: RUN, id = self.number, "is read again");
        }
        let now = self.now();
        self.watchdog.on_resume(now);
    }

    fn stop(&mut self, reason: StopReason) {
        let now = self.now();
        let step = self.watchdog.on_stop(reason, now);
        self.take(step);
    }

    fn stop_by(&mut self, reason: StopReason, signal: Signal) {
        let now = self.now();
        if signal == Signal::SIGKILL {
            let step = self.watchdog.on_stop_at_once(reason, now);
            return self.take(step);
        }
        match self.watchdog.on_stop(reason, now) {
            Step::Terminate => self.tree.signal(signal),
            // Told to end before, and asked for again by another signal.
            Step::Nothing if self.watchdog.is_in_grace() => self.tree.signal(signal),
            step => self.take(step),
        }
    }

    fn take(&mut self, step: Step) {
        self.tell_step(step);
        match step {
            Step::Nothing => {}
            Step::Terminate => self.tree.signal(Signal::SIGTERM),
            Step::Kill => self.tree.kill(),
            Step::LookAtGroup => {
                let (alive, now) = (self.tree.has_group(), self.now());
                let step = self.watchdog.on_group(alive, now);
                self.take(step);
            }
            Step::LookAtPipes => {
                let waits = [&self.stdout, &self.stderr]
                    .iter()
                    .any(|output| output.pipe.as_ref().is_some_and(Pipe::has_bytes));
                let step = self.watchdog.on_held(waits);
                self.take(step);
            }
            Step::Sweep => self.sweep(),
            Step::EndDrain => {
                self.take_what_is_there();
                self.pipes_held_open = self.stdout.pipe.is_some() || self.stderr.pipe.is_some();
                self.close_pipes();
                self.sweep();
            }
            Step::GiveUp => {
                self.end.get_or_insert(End {
                    status: None,
                    usage: Usage::default(),
                    strays_killed: 0,
                    strays_left: 1,
                });
                self.give_up();
            }
        }
    }

    fn tell_step(&self, step: Step) {
        let (id, reason) = (self.number, self.watchdog.reason());
        match step {
            Step::Nothing => {}
            // Asked for again and again, until it is gone.
            Step::LookAtGroup => trace!(target: RUN, id, ?step, ?reason, "decided"),
            _ => {
                let silent_ms = self.last_output.unwrap_or(self.started).elapsed().as_secs_f64() * 1e3;
                debug!(target: RUN, id, ?step, ?reason, silent_ms, "decided");
            }
        }
    }

    fn sweep(&mut self) {
        // A run that was stopped leaves nothing behind, whatever is wanted of one that ended by itself.
        let strays = if self.watchdog.kills_strays() { Strays::Kill } else { self.spec.strays };
        self.tree.finish(strays);
    }

    fn output(&mut self, stream: Stream) -> &mut Output {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    async fn outcome(&mut self) -> Outcome {
        let since = |at: Instant| at.saturating_duration_since(self.started).as_secs_f64() * 1e3;
        let nothing = End { status: None, usage: Usage::default(), strays_killed: 0, strays_left: 0 };
        let end = self.end.take().unwrap_or(nothing);
        let duration_ms = since(self.exited.unwrap_or_else(Instant::now));
        let first_output_ms = self.first_output.map(since);
        let last_output_ms = self.last_output.map(since);
        let kept = [&mut self.stdout, &mut self.stderr]
            .map(|output| std::mem::replace(&mut output.keep, Keep::new(1)));
        let [stdout_bytes, stderr_bytes] = [kept[0].total(), kept[1].total()];
        let truncated = kept.iter().any(Keep::truncated);
        let encoding = self.spec.encoding;
        let [(stdout, raw_stdout), (stderr, raw_stderr)] = texts_of(kept, encoding).await;
        let status = end.status.unwrap_or_default();
        let result = RunResult {
            command: std::mem::take(&mut self.spec.command),
            args: std::mem::take(&mut self.spec.args),
            pid: self.pid,
            exit_code: status.code,
            signal: status.signal_name(),
            stdout,
            stderr,
            raw: [raw_stdout, raw_stderr],
            stdout_bytes,
            stderr_bytes,
            truncated,
            duration_ms,
            first_output_ms,
            last_output_ms,
            pipes_held_open: self.pipes_held_open,
            strays_killed: end.strays_killed,
            strays_left: end.strays_left,
            containment: self.level,
            usage: end.usage,
            record: None,
        };
        let error = self.watchdog.reason().and_then(|reason| stop_error(reason, &self.spec, &result));
        Outcome { result: Some(result), error }
    }
}

/// What is kept of a stream: its text, and its bytes where that is something else.
type Text = (String, Option<Vec<u8>>);

/// Of both streams. Without a thread for much of it, it takes the other runs' time.
async fn texts_of(kept: [Keep; 2], encoding: Encoding) -> [Text; 2] {
    if encoding == Encoding::Bytes {
        return kept.map(|kept| (String::new(), Some(kept.into_bytes())));
    }
    if kept.iter().all(|kept| kept.total() <= MUCH_TEXT) {
        return kept.map(Keep::into_text);
    }
    let kept = Arc::new(std::sync::Mutex::new(Some(kept)));
    let take = move |kept: &std::sync::Mutex<Option<[Keep; 2]>>| {
        kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    };
    let lent = kept.clone();
    let texts = blocking(move || take(&lent).map(|kept| kept.map(Keep::into_text))).await;
    match texts {
        Ok(Some(texts)) => texts,
        _ => take(&kept).map(|kept| kept.map(Keep::into_text)).unwrap_or_default(),
    }
}

pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

/// Room in both: for the reader, and for the record.
async fn room(sink: &mut Option<Box<dyn Sink>>, record: &mut Option<Record>) {
    if sink.is_none() && record.is_none() {
        return pending().await;
    }
    poll_fn(|context| poll_room(sink, record, context)).await
}

fn poll_room(
    sink: &mut Option<Box<dyn Sink>>,
    record: &mut Option<Record>,
    context: &mut Context<'_>,
) -> Poll<()> {
    // Both are asked: each has to know whom to wake.
    let in_sink = sink.as_mut().map_or(Poll::Ready(()), |sink| sink.poll_room(context));
    let in_record = record.as_mut().map_or(Poll::Ready(()), |record| record.poll_room(context));
    if in_sink.is_ready() { in_record } else { Poll::Pending }
}

async fn feed(feed: &mut Option<Feed>) -> Fed {
    match feed {
        Some(feed) => feed.step().await,
        None => pending().await,
    }
}
