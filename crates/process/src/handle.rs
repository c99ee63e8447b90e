//! The cloneable handle of a run. The owner task holds all state; a handle sends orders and awaits the shared end.

use super::first_step::spawn_begun;
use super::life;
use super::newcomer::{Moment, Newcomer};
use super::order::{Order, WantedEnd};
use super::publisher::{Published, Publisher};
use super::replay::replay;
use super::sink::{ChunkReader, Sink, Streams, chunk_channel};
use super::spec::{Input, Outcome, ProcessSpec, StopReason};
use super::start::Admission;
use super::stdin::StdinWriter;
use ground::error::Result;
use ground::lock::lock;
use ground::mpsc;
use ground::os::{TerminalSize, TreeUsage, signal_of};
use ground::signal::Signal;
use ground::trace;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// A run. Cloneable; when the last handle is dropped before the end, the tree is killed.
#[derive(Clone)]
pub struct Process {
    orders: mpsc::UnboundedSender<Order>,
    published: Published,
    stdin: Arc<Mutex<Option<StdinWriter>>>,
    number: u64,
    /// See [`ProcessSpec::contained`].
    contained: Arc<[PathBuf]>,
}

/// Starts a run and returns at once: that it could not be started comes by [`Process::started`] and [`Process::outcome`].
/// Call it within tokio.
pub fn spawn(spec: ProcessSpec) -> Process {
    // Its first step hands the start to a thread that may block. That needs no other thread in between.
    begin(spec, Admission::free(), spawn_begun)
}

/// Like [`spawn`], but waits for admission first. The clocks start with the program. A stop during the wait is reported at once.
pub fn spawn_after(spec: ProcessSpec, admission: Admission) -> Process {
    begin(spec, admission, |life| drop(ground::task::spawn(life)))
}

fn begin(
    spec: ProcessSpec,
    admission: Admission,
    spawn: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>),
) -> Process {
    let (orders, received) = mpsc::unbounded_channel();
    let (publisher, published) = Publisher::new(spec.command.clone());
    let (writer, written) = match spec.input {
        Input::Pipe => {
            let (writer, written) = StdinWriter::new();
            (Some(writer), Some(written))
        }
        Input::Null | Input::Bytes(_) | Input::File(_) | Input::Inherit => (None, None),
    };
    let number = trace::number();
    let contained = spec.contained().into();
    let process = Process { orders, published, stdin: Arc::new(Mutex::new(writer)), number, contained };
    spawn(Box::pin(life::run(number, spec, admission, written, publisher, received)));
    process
}

impl Process {
    /// The pid, once the program runs.
    pub async fn started(&self) -> Result<u32> {
        self.published.started.wait().await
    }

    pub(super) fn contained(&self) -> Arc<[PathBuf]> {
        self.contained.clone()
    }

    /// Number of the run in the log.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The end of the run; resolves when the tree is gone. May be awaited many times.
    pub async fn outcome(&self) -> Arc<Outcome> {
        self.published.outcome.wait().await
    }

    /// Calls the listener with what [`Process::started`] gives. No task waits for it.
    pub fn on_started(&self, listener: impl FnOnce(Result<u32>) + Send + 'static) {
        self.published.started.listen(listener);
    }

    /// Calls the listener with what [`Process::outcome`] gives. No task waits for it.
    pub fn on_outcome(&self, listener: impl FnOnce(Arc<Outcome>) + Send + 'static) {
        self.published.outcome.listen(listener);
    }

    /// Ends the run: SIGTERM to the group, `kill_grace`, SIGKILL to the tree for `Aborted`, `Killed` and `TimedOut`; SIGKILL at
    /// once for the others. The first reason wins; after the end nothing happens.
    pub fn stop(&self, reason: StopReason) {
        let _ = self.orders.send(Order::Stop(WantedEnd::because(reason)));
    }

    /// Like [`Process::stop`] with `Killed`, but sends the group the signal of this number at once. SIGKILL ends the whole tree
    /// at once. An unknown number means SIGTERM.
    pub fn kill(&self, signal: i32) {
        let signal = signal_of(signal).unwrap_or(Signal::Term);
        let stop = WantedEnd { reason: StopReason::Killed, signal: Some(signal) };
        let _ = self.orders.send(Order::Stop(stop));
    }

    /// Resizes the program's terminal (`Stdio::Terminal`); does nothing without one.
    pub fn resize(&self, size: TerminalSize) {
        let _ = self.orders.send(Order::Resize(size));
    }

    /// The raw output as it comes, first what was kept so far. One reader a run: a later one takes over.
    pub fn chunks(&self) -> ChunkReader {
        self.chunks_of(Streams::BOTH)
    }

    /// The same of these streams; the others are drained and kept.
    pub(super) fn chunks_of(&self, streams: Streams) -> ChunkReader {
        let (sink, reader) = chunk_channel(streams);
        self.subscribe(Box::new(sink));
        reader
    }

    /// Gives the raw output to a sink as it is read, first what was kept so far. A later sink takes over. A sink that comes after
    /// bytes were dropped is refused.
    pub fn subscribe(&self, sink: Box<dyn Sink>) {
        let Err(mpsc::error::SendError(Order::Subscribe(mut sink))) =
            self.orders.send(Order::Subscribe(sink))
        else {
            return;
        };
        // The owner is gone; it published the outcome first.
        match self.published.outcome.get() {
            Some(outcome) => replay(&outcome, sink.as_mut()),
            None => sink.finish(),
        }
    }

    /// Stop delivering; output is drained and kept.
    pub fn detach_output(&self) {
        let _ = self.orders.send(Order::Detach);
    }

    /// The writer of an `Input::Pipe`; once.
    pub fn take_stdin(&self) -> Option<StdinWriter> {
        lock(&self.stdin).take()
    }

    pub fn downgrade(&self) -> WeakProcess {
        WeakProcess { orders: self.orders.downgrade() }
    }

    /// Resources that the tree has used so far, and its current number of processes; zeros after the end.
    pub async fn tree_usage(&self) -> TreeUsage {
        let (reply, usage) = oneshot::channel();
        let _ = self.orders.send(Order::TreeUsage(reply));
        usage.await.unwrap_or_default()
    }

    /// Living processes of the tree that were born between the two moments; empty after the end.
    pub async fn newcomers(&self, since: Moment, until: Moment) -> Vec<Newcomer> {
        let (reply, found) = oneshot::channel();
        let _ = self.orders.send(Order::Newcomers { since, until, reply });
        found.await.unwrap_or_default()
    }
}

/// A handle that does not keep its run alive.
#[derive(Clone)]
pub struct WeakProcess {
    orders: mpsc::WeakUnboundedSender<Order>,
}

impl WeakProcess {
    /// Like [`Process::stop`]; false when all handles of the run are gone.
    pub fn stop(&self, reason: StopReason) -> bool {
        let stop = Order::Stop(WantedEnd::because(reason));
        self.orders.upgrade().is_some_and(|orders| orders.send(stop).is_ok())
    }

    /// Whether the run has ended, or nobody can reach it any more.
    pub fn is_over(&self) -> bool {
        self.orders.upgrade().is_none_or(|orders| orders.is_closed())
    }
}
