//! The owner of a run under way: it alone holds the pipes, the clocks and the tree.
//!
//! One `select!` receives each event and calls `on_<event>`. The [`Watchdog`] decides the next step, or `end` if the event came
//! from the tree. The run is over when the tree is gone and both pipes were read to their end, or closed at the end of the
//! drain.

use super::echo::Echoing;
use super::end::{End, EndStage, stage_of};
use super::launch::{Launched, Pipes, Tree, TreeEvent, tree_usage};
use super::newcomer::newcomers;
use super::order::{Order, WantedEnd};
use super::outlet::Outlet;
use super::output::Ask;
use super::outputs::{Outputs, Read};
use super::report::Report;
use super::roster::{Enrolled, Entry};
use super::run_clock::RunClock;
use super::sink::{Missed, Sink};
use super::spec::{ContainmentLevel, Input, Outcome, ProcessSpec, Stdio, StopReason, Strays};
use super::start::Opened;
use super::stdin::{Chunk, Fed, Feed, feed};
use super::stream::Stream;
use super::watchdog::{RunLimits, Step};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::mpsc::{Receiver, UnboundedReceiver};
use ground::os::{Terminal, sleep_until};
use ground::record::{Channel, Record};
pub(crate) use ground::trace::{RUN, debug, trace};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads of one stream before the other events get their turn.
const READS_A_TURN: usize = 4;
/// Most bytes that can wait in a pipe at the exit; larger pipes need a privilege.
const PIPE_BYTES: u64 = 4 << 20;
/// Longest wait for a tree that is killed after a fault of its own watcher.
const KILLED_AFTER_FAULT_WITHIN: Duration = Duration::from_secs(12);

pub(super) struct Runner {
    number: u64,
    spec: ProcessSpec,
    clock: RunClock,
    outputs: Outputs,
    outlet: Outlet,
    feed: Option<Feed>,
    held: Held,
    enrolled: Enrolled,
    lifespan: Lifespan,
}

/// The running program, and what holds it.
struct Held {
    pid: u32,
    level: ContainmentLevel,
    tree: Tree,
    /// Held to the end: dropping it would hang up the program's terminal.
    terminal: Option<Arc<Terminal>>,
}

/// When the program started and exited, and how its tree ended.
struct Lifespan {
    started: Instant,
    exited: Option<Instant>,
    pipes_held_open: bool,
    end: Option<End>,
}

impl Runner {
    pub(super) fn new(
        number: u64,
        mut spec: ProcessSpec,
        written: Option<Receiver<Chunk>>,
        launched: Launched,
        opened: Opened,
    ) -> Self {
        let Opened { mark, mut record, awake, .. } = opened;
        if let Some(record) = &mut record {
            record.begin(launched.spawned);
            record.push(Channel::Note, format!("pid {}", launched.pid).as_bytes());
        }
        let enrolled = Enrolled::new(Entry::of(&spec, &mark, &launched, record.as_ref()));
        let limits = RunLimits {
            // Silence can't be measured when the program prints to the host's own descriptors.
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
        Runner {
            number,
            clock: RunClock::new(limits, launched.spawned, awake),
            outputs: Outputs::new(stdout, stderr, spec.max_output_bytes),
            outlet: Outlet::new(record, spec.echo.take().map(Echoing::begin)),
            feed: stdin.map(|stdin| Feed::new(stdin, first, written, terminal.clone())),
            held: Held { pid: launched.pid, level: launched.level, tree: launched.tree, terminal },
            enrolled,
            lifespan: Lifespan { started: launched.spawned, exited: None, pipes_held_open: false, end: None },
            spec,
        }
    }

    pub(super) async fn run(&mut self, orders: &mut UnboundedReceiver<Order>) -> Outcome {
        let mut has_handles = true;
        while self.lifespan.end.is_none() || self.outputs.are_open() {
            let deadline = self.clock.deadline();
            let may_read = Stream::BOTH.map(|stream| !self.outlet.holds(stream));
            let is_paused = self.outlet.is_paused;
            tokio::select! {
                biased;
                order = orders.recv(), if has_handles => {
                    has_handles = order.is_some();
                    self.on_order(order);
                }
                event = self.held.tree.next() => self.on_tree(event),
                () = sleep_until(deadline) => self.on_time(),
                () = self.outlet.room(), if is_paused => self.on_room(),
                fed = feed(&mut self.feed) => self.on_fed(fed),
                () = self.outputs.readable(may_read) => {
                    self.pump(READS_A_TURN, Ask::Tokio);
                    // A program that prints faster than it is read must not keep the thread from all others.
                    tokio::task::yield_now().await;
                }
            }
        }
        self.outlet.finish();
        self.outcome().await
    }

    /// Something in here, or a reader's sink, panicked: the tree is killed, and what is known is told.
    pub(super) async fn after_panic(&mut self) -> Outcome {
        self.outlet.abandon();
        self.clock.watchdog.on_lost();
        self.held.tree.kill();
        let gone = async {
            while self.lifespan.end.is_none() {
                match stage_of(self.held.tree.next().await, true) {
                    EndStage::Exited => self.held.tree.finish(Strays::Kill),
                    EndStage::Dying => {}
                    EndStage::Over { end, .. } => self.lifespan.end = Some(end),
                }
            }
        };
        let _ = tokio::time::timeout(KILLED_AFTER_FAULT_WITHIN, gone).await;
        self.give_up();
        let mut outcome = self.outcome().await;
        let message = format!(
            "the task that watched {} failed: its processes were killed; this is a bug of the addon, or of a sink that panicked",
            outcome.result.as_ref().map_or("the program", |result| &result.command)
        );
        outcome.error = Some(Error::new(ErrorCode::ProcessLost, message));
        outcome
    }

    /// Removes the ended run from the list, and returns its record to be closed and its echo to be waited for.
    pub(super) fn leave(mut self) -> (Option<Record>, Option<Echoing>) {
        self.enrolled.end();
        (self.outlet.take_record(), self.outlet.take_echo())
    }

    pub(super) fn on_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Stop(WantedEnd { reason, signal })) => {
                debug!(target: RUN, id = self.number, ?reason, ?signal, "is to be stopped");
                self.look_at_tree();
                let now = self.clock.now();
                let step = match signal {
                    None => self.clock.watchdog.on_stop(reason, now),
                    Some(signal) => self.clock.watchdog.on_signal(reason, signal, now),
                };
                self.take(step);
                if reason == StopReason::HostClosing {
                    // Its readers end with it: they must not hold up a program that prints while it cleans up.
                    self.outlet.finish();
                    self.on_room();
                }
            }
            Some(Order::Resize(size)) => {
                if let Some(terminal) = &self.held.terminal {
                    // Resizing fails on a terminal that was hung up, which does not matter.
                    let _ = terminal.resize(size);
                }
            }
            Some(Order::Subscribe(sink)) => self.on_subscribe(sink),
            Some(Order::Detach) => {
                self.outlet.finish();
                self.on_room();
            }
            Some(Order::TreeUsage(reply)) => {
                let root = self.held.tree.root();
                ground::task::spawn(async move {
                    let _ = reply.send(tree_usage(root).await);
                });
            }
            Some(Order::Newcomers { since, until, reply }) => {
                let root = self.held.tree.root();
                ground::task::spawn(async move {
                    let _ = reply.send(newcomers(root, since, until).await);
                });
            }
            // The last handle is gone: nobody can want this run any more.
            None => {
                debug!(target: RUN, id = self.number, "has no handle any more");
                self.stop(StopReason::Abandoned);
            }
        }
    }

    fn on_subscribe(&mut self, mut sink: Box<dyn Sink>) {
        match self.outputs.catch_up(sink.as_mut()) {
            Ok(()) => self.outlet.attach(sink),
            Err(Missed::LineTooLong(stream)) => {
                self.outlet.attach(sink);
                self.stop(StopReason::LineTooLong(stream));
            }
            // The run goes on without a reader.
            Err(missed @ Missed::Dropped { .. }) => {
                debug!(target: RUN, id = self.number, ?missed, "refuses a reader that came too late");
                sink.refuse(missed);
                sink.finish();
            }
        }
        self.check_room();
    }

    fn on_tree(&mut self, event: TreeEvent) {
        match stage_of(event, self.lifespan.exited.is_some()) {
            EndStage::Exited => self.on_exit(),
            EndStage::Dying => {
                let now = self.clock.now();
                self.clock.watchdog.on_dying(now);
            }
            EndStage::Over { end, is_lost, gives_up } => {
                let End { strays_killed, strays_left, .. } = end;
                if is_lost {
                    debug!(target: RUN, id = self.number, strays_killed, strays_left, "lost its guard");
                    self.clock.watchdog.on_lost();
                } else {
                    let (code, signal) =
                        end.status.map_or((None, None), |status| (status.code, status.signal));
                    debug!(target: RUN, id = self.number, code, ?signal, strays_killed, strays_left, "heard that its tree is gone");
                }
                self.lifespan.end = Some(end);
                if gives_up {
                    self.give_up();
                }
            }
        }
    }

    fn on_exit(&mut self) {
        self.lifespan.exited = Some(Instant::now());
        debug!(target: RUN, id = self.number, "heard that its command exited");
        let now = self.clock.now();
        let step = self.clock.watchdog.on_exit(now);
        self.feed = None;
        if let Some(terminal) = &self.held.terminal {
            terminal.expect_end();
        }
        // All output of the program itself is in the pipes by now. It is read regardless of the reader's pace, so that nothing
        // is lost and the end does not wait for a reader that never comes.
        self.take_what_is_there();
        self.take(step);
        self.check_pipes();
        self.check_room();
    }

    /// Stops waiting for anything else.
    fn give_up(&mut self) {
        self.lifespan.exited.get_or_insert_with(Instant::now);
        self.take_what_is_there();
        self.close_pipes();
    }

    /// All that the pipes hold at this moment, whatever the reader's pace: bounded by what a pipe may hold.
    fn take_what_is_there(&mut self) {
        self.on_room();
        for stream in Stream::BOTH {
            let until = self.outputs.total(stream) + PIPE_BYTES;
            while self.read(stream, Ask::Pipe) && self.outputs.total(stream) < until {}
        }
        self.on_room();
    }

    /// The event that happened first wins, not the one that is looked at first: an exit that is known by now comes before any stop.
    fn look_at_tree(&mut self) {
        if let Some(event) = self.held.tree.look() {
            self.on_tree(event);
        }
    }

    fn on_time(&mut self) {
        self.look_at_tree();
        // Bytes that arrived while this task could not run are activity. tokio may not know of them yet: the pipes are asked.
        self.pump(1, Ask::Pipe);
        let now = self.clock.now();
        let step = self.clock.watchdog.on_time(now);
        self.take(step);
    }

    fn on_fed(&mut self, fed: Fed) {
        match fed {
            Fed::Wrote => {
                let now = self.clock.now();
                self.clock.watchdog.on_activity(now);
            }
            Fed::Reminded => {}
            Fed::Closed => self.feed = None,
        }
    }

    /// Reads what is there, at most so many reads of each stream.
    fn pump(&mut self, reads: usize, ask: Ask) {
        for stream in Stream::BOTH {
            for _ in 0..reads {
                if self.outlet.holds(stream) || !self.read(stream, ask) {
                    break;
                }
            }
        }
        self.check_pipes();
    }

    /// One read; false when there is nothing to read now, or never again.
    fn read(&mut self, stream: Stream, ask: Ask) -> bool {
        let awake_now = self.clock.now();
        let Runner { number, outputs, outlet, enrolled, clock, .. } = self;
        let is_first = outputs.first.is_none();
        let read = outputs.read(stream, ask, |bytes, now| {
            clock.watchdog.on_activity(awake_now);
            trace!(target: RUN, id = *number, ?stream, bytes = bytes.len(), "read");
            if is_first {
                debug!(target: RUN, id = *number, ?stream, "heard the first of its output");
            }
            enrolled.on_output(now);
            outlet.push(stream, bytes)
        });
        match read {
            Read::Nothing => return false,
            Read::Ended => {
                self.close(stream);
                return false;
            }
            Read::Something(Err(_)) => self.stop(StopReason::LineTooLong(stream)),
            Read::Something(Ok(())) | Read::Interrupted => {}
        }
        self.check_room();
        true
    }

    fn close(&mut self, stream: Stream) {
        if self.outputs.close(stream) && self.outlet.end(stream).is_err() {
            self.stop(StopReason::LineTooLong(stream));
        }
    }

    fn close_pipes(&mut self) {
        Stream::BOTH.into_iter().for_each(|stream| self.close(stream));
    }

    fn check_pipes(&mut self) {
        if !self.outputs.are_open() {
            let step = self.clock.watchdog.on_pipes_ended();
            self.take(step);
        }
    }

    fn check_room(&mut self) {
        if self.outlet.is_full() && !self.outlet.is_paused {
            debug!(target: RUN, id = self.number, "is not read: who takes its output is behind");
            self.outlet.is_paused = true;
            let now = self.clock.now();
            self.clock.watchdog.on_pause(now);
        }
    }

    fn on_room(&mut self) {
        if std::mem::take(&mut self.outlet.is_paused) {
            debug!(target: RUN, id = self.number, "is read again");
        }
        let now = self.clock.now();
        self.clock.watchdog.on_resume(now);
    }

    fn stop(&mut self, reason: StopReason) {
        let now = self.clock.now();
        let step = self.clock.watchdog.on_stop(reason, now);
        self.take(step);
    }

    fn take(&mut self, step: Step) {
        self.tell_step(step);
        match step {
            Step::Nothing => {}
            Step::Signal(signal) => self.held.tree.signal(signal),
            Step::Kill => {
                if let Some(feed) = &mut self.feed {
                    feed.hold();
                }
                self.held.tree.kill();
            }
            Step::LookAtGroup => {
                let (alive, now) = (self.held.tree.has_group(), self.clock.now());
                let step = self.clock.watchdog.on_group(alive, now);
                self.take(step);
            }
            Step::LookAtPipes => {
                let step = self.clock.watchdog.on_held(self.outputs.wait());
                self.take(step);
            }
            Step::Sweep => self.sweep(),
            Step::EndDrain => {
                self.take_what_is_there();
                self.lifespan.pipes_held_open = self.outputs.are_open();
                self.close_pipes();
                self.sweep();
            }
            Step::GiveUp => {
                self.lifespan.end.get_or_insert(End::UNKNOWN);
                self.give_up();
            }
        }
    }

    fn tell_step(&self, step: Step) {
        let (id, reason) = (self.number, self.clock.watchdog.reason());
        match step {
            Step::Nothing => {}
            // This step repeats until the group is gone, so it is logged at trace level.
            Step::LookAtGroup => trace!(target: RUN, id, ?step, ?reason, "decided"),
            _ => {
                let silent_ms =
                    self.outputs.last.unwrap_or(self.lifespan.started).elapsed().as_secs_f64() * 1e3;
                debug!(target: RUN, id, ?step, ?reason, silent_ms, "decided");
            }
        }
    }

    fn sweep(&mut self) {
        // A run that was stopped leaves nothing behind, whatever is wanted of one that ended by itself.
        let strays = if self.clock.watchdog.kills_strays() { Strays::Kill } else { self.spec.strays };
        self.held.tree.finish(strays);
    }

    async fn outcome(&mut self) -> Outcome {
        let report = Report {
            pid: self.held.pid,
            level: self.held.level,
            started: self.lifespan.started,
            exited: self.lifespan.exited.unwrap_or_else(Instant::now),
            first_output: self.outputs.first,
            last_output: self.outputs.last,
            kept: self.outputs.take_kept(),
            pipes_held_open: self.lifespan.pipes_held_open,
            end: self.lifespan.end.take().unwrap_or_default(),
            reason: self.clock.watchdog.reason(),
            refused: self.spec.traffic.refusals.list(),
            spec: &mut self.spec,
        };
        report.outcome().await
    }
}
