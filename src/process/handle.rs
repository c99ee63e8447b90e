//! The cloneable handle of a run. All state is the owner task's; a handle only sends words and awaits the shared end.

use super::newcomer::{Moment, Newcomer};
use super::runner;
use super::sink::{ChunkReader, Sink, chunk_channel};
use super::spec::{Input, Outcome, ProcessSpec, StopReason};
use super::stdin::StdinWriter;
use crate::error::{Error, ErrorCode, Result};
use crate::os::{TerminalSize, TreeUsage};
use crate::trace;
use nix::sys::signal::Signal;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};

/// What the owner task is told.
pub(super) enum Command {
    Stop(Stop),
    Resize(TerminalSize),
    Subscribe(Box<dyn Sink>),
    Detach,
    TreeUsage(oneshot::Sender<TreeUsage>),
    Newcomers { since: Moment, until: Moment, reply: oneshot::Sender<Vec<Newcomer>> },
}

/// The end that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub reason: StopReason,
    /// What the group is sent in place of SIGTERM: at once, also when it has been sent another one before.
    pub signal: Option<Signal>,
}

/// What the owner task publishes, each once. It lives in that task and nowhere else: however the task ends, by a panic or because
/// its runtime is gone, the handles hear of an end.
pub(super) struct Publisher {
    command: String,
    started: watch::Sender<Option<Result<u32>>>,
    outcome: watch::Sender<Option<Arc<Outcome>>>,
}

impl Publisher {
    pub(super) fn set_started(&self, started: Result<u32>) {
        self.started.send_replace(Some(started));
    }

    pub(super) fn set_outcome(&self, outcome: Arc<Outcome>) {
        self.outcome.send_replace(Some(outcome));
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.outcome.borrow().is_some() {
            return;
        }
        let command = &self.command;
        let error = if self.started.borrow().as_ref().is_some_and(Result::is_ok) {
            let message = format!(
                "what watched {command} ended before it: its processes are killed, its exit status is unknown"
            );
            Error::new(ErrorCode::ProcessLost, message)
        } else {
            let message = format!("{command} was not started: the addon is shutting down, or failed");
            Error::new(ErrorCode::ProcessSpawnFailed, message)
        };
        self.set_started(Err(error.clone()));
        self.set_outcome(Arc::new(Outcome { result: None, error: Some(error) }));
    }
}

/// A run. Cloneable; when the last handle is dropped before the end, the tree is killed.
#[derive(Clone)]
pub struct Process {
    commands: mpsc::UnboundedSender<Command>,
    started: watch::Receiver<Option<Result<u32>>>,
    outcome: watch::Receiver<Option<Arc<Outcome>>>,
    stdin: Arc<Mutex<Option<StdinWriter>>>,
    number: u64,
}

/// Starts a run and returns at once: that it could not be started comes by [`Process::started`] and [`Process::outcome`].
/// Call it within tokio.
pub fn spawn(spec: ProcessSpec) -> Process {
    spawn_after(spec, Admission::free())
}

/// What a run waits for before its start, and holds until its tree is gone: a slot among others.
pub struct Admission(pub(super) Pin<Box<dyn Future<Output = Held> + Send>>);

pub(super) type Held = Box<dyn Send>;

impl Admission {
    /// What the future gives is held.
    pub fn after<T: Send + 'static>(place: impl Future<Output = T> + Send + 'static) -> Self {
        Admission(Box::pin(async move { Box::new(place.await) as Held }))
    }

    fn free() -> Self {
        Self::after(std::future::ready(()))
    }
}

/// As [`spawn`], when it is admitted. Its clocks start with the program; a stop while it waits is told at once.
pub fn spawn_after(spec: ProcessSpec, admission: Admission) -> Process {
    let (commands, received) = mpsc::unbounded_channel();
    let (started, hears_started) = watch::channel(None);
    let (outcome, hears_outcome) = watch::channel(None);
    let publisher = Publisher { command: spec.command.clone(), started, outcome };
    let (writer, written) = match spec.input {
        Input::Pipe => {
            let (writer, written) = StdinWriter::new();
            (Some(writer), Some(written))
        }
        Input::Null | Input::Bytes(_) | Input::File(_) | Input::Inherit => (None, None),
    };
    let number = trace::number();
    let process = Process {
        commands,
        started: hears_started,
        outcome: hears_outcome,
        stdin: Arc::new(Mutex::new(writer)),
        number,
    };
    tokio::spawn(runner::run(number, spec, admission, written, publisher, received));
    process
}

impl Process {
    /// The pid, once the program runs.
    pub async fn started(&self) -> Result<u32> {
        let mut started = self.started.clone();
        let value = started.wait_for(Option::is_some).await.map(|value| value.clone());
        value.ok().flatten().unwrap_or_else(|| Err(shut_down()))
    }

    /// What the log calls it by.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How the run ended; resolves when the tree is gone. May be awaited many times.
    pub async fn outcome(&self) -> Arc<Outcome> {
        let mut outcome = self.outcome.clone();
        let value = outcome.wait_for(Option::is_some).await.map(|value| value.clone());
        value.ok().flatten().unwrap_or_else(|| Arc::new(Outcome { result: None, error: Some(shut_down()) }))
    }

    /// Ends the run: SIGTERM to the group, `kill_grace`, SIGKILL to the tree for `Aborted`, `Killed` and `TimedOut`; SIGKILL at
    /// once for the others. The first reason wins; after the end nothing happens.
    pub fn stop(&self, reason: StopReason) {
        let _ = self.commands.send(Command::Stop(Stop { reason, signal: None }));
    }

    /// As [`Process::stop`] with `Killed`, but what the group is sent is the signal of this number, now; by SIGKILL the whole tree is
    /// ended at once. A number that is no signal's is SIGTERM.
    pub fn kill(&self, signal: i32) {
        let signal = Signal::try_from(signal).unwrap_or(Signal::SIGTERM);
        let stop = Stop { reason: StopReason::Killed, signal: Some(signal) };
        let _ = self.commands.send(Command::Stop(stop));
    }

    /// Another size for the program's terminal (`Stdio::Terminal`); nothing happens where there is none.
    pub fn resize(&self, size: TerminalSize) {
        let _ = self.commands.send(Command::Resize(size));
    }

    /// The raw output as it comes, first what was kept so far. One reader a run: a later one takes over.
    pub fn chunks(&self) -> ChunkReader {
        let (sink, reader) = chunk_channel();
        self.subscribe(Box::new(sink));
        reader
    }

    /// Gives the raw output to a sink as it is read, first what was kept so far. A later sink takes over.
    pub fn subscribe(&self, sink: Box<dyn Sink>) {
        let Err(mpsc::error::SendError(Command::Subscribe(mut sink))) =
            self.commands.send(Command::Subscribe(sink))
        else {
            return;
        };
        // The owner is gone; it published the outcome first.
        match self.outcome.borrow().as_ref() {
            Some(outcome) => runner::replay(outcome, sink.as_mut()),
            None => sink.finish(),
        }
    }

    /// Stop delivering; output is drained and kept.
    pub fn detach_output(&self) {
        let _ = self.commands.send(Command::Detach);
    }

    /// The writer of an `Input::Pipe`; once.
    pub fn take_stdin(&self) -> Option<StdinWriter> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn downgrade(&self) -> WeakProcess {
        WeakProcess { commands: self.commands.downgrade() }
    }

    /// What the tree has used so far, and how many processes it has right now; zeros after the end.
    pub async fn tree_usage(&self) -> TreeUsage {
        let (reply, usage) = oneshot::channel();
        let _ = self.commands.send(Command::TreeUsage(reply));
        usage.await.unwrap_or_default()
    }

    /// Who was born into the tree between these two, and lives; nobody after the end.
    pub(crate) async fn newcomers(&self, since: Moment, until: Moment) -> Vec<Newcomer> {
        let (reply, found) = oneshot::channel();
        let _ = self.commands.send(Command::Newcomers { since, until, reply });
        found.await.unwrap_or_default()
    }
}

/// A handle that does not keep its run alive.
#[derive(Clone)]
pub struct WeakProcess {
    commands: mpsc::WeakUnboundedSender<Command>,
}

impl WeakProcess {
    /// As [`Process::stop`]; false when the run's handles are all gone.
    pub fn stop(&self, reason: StopReason) -> bool {
        let stop = Command::Stop(Stop { reason, signal: None });
        self.commands.upgrade().is_some_and(|commands| commands.send(stop).is_ok())
    }

    /// Whether the run has ended, or nobody can reach it any more.
    pub fn is_over(&self) -> bool {
        self.commands.upgrade().is_none_or(|commands| commands.is_closed())
    }
}

fn shut_down() -> Error {
    Error::new(ErrorCode::ProcessKilled, "the addon was shut down before the run ended")
}
