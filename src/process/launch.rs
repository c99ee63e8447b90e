//! The one interface between a run and how its program is started and held: [`launch`] gives pipes and a [`Tree`].
//!
//! A tree says when its command exited and when everything is gone; it is given signals, told to be killed, and, after the exit, to
//! finish. `guarded` is the launcher under guard; `direct` the one without: process group, parents and marks.

mod direct;
#[cfg(target_os = "linux")]
mod guarded;
mod session;

use super::command::ResolvedCommand;
use super::spec::{Containment, ContainmentLevel, ProcessSpec, ProcessUsage, Strays};
use super::wiring::Ends;
use crate::error::{Error, ErrorCode, Result};
use crate::os::{Pipe, PipeWriter, ProcessTable, Terminal, TreeUsage, blocking};
use nix::sys::signal::Signal;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, SemaphorePermit};

/// A started program.
pub(crate) struct Launched {
    pub pid: u32,
    /// Just before the system was asked: the zero of the run's clocks.
    pub spawned: Instant,
    pub level: ContainmentLevel,
    pub pipes: Pipes,
    pub tree: Tree,
}

/// The host's ends of what the program reads and writes, made ready to be watched; `None` where there is nothing to be done.
#[derive(Default)]
pub(crate) struct Pipes {
    pub stdin: Option<PipeWriter>,
    pub stdout: Option<Pipe>,
    pub stderr: Option<Pipe>,
    pub terminal: Option<Arc<Terminal>>,
}

/// Why there is nothing to watch.
#[derive(Debug)]
pub(crate) enum NotLaunched {
    /// No byte of the program ran.
    Failed(Error),
    /// It was cut short while the system was at it (a program's file that doesn't come): nobody can say whether it ran. If it
    /// ever does, it is killed at once.
    Unknown,
}

impl From<Error> for NotLaunched {
    fn from(error: Error) -> NotLaunched {
        NotLaunched::Failed(error)
    }
}

/// Work that has a turn has it for a moment only: what hangs (a dead network folder) must not keep the others from starting.
const TURN: Duration = Duration::from_millis(50);

/// The work's result, and its turn when it was done in time.
pub(super) async fn with_turn<T>(
    work: impl Future<Output = T>,
    turn: Option<SemaphorePermit<'static>>,
) -> (T, Option<SemaphorePermit<'static>>) {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(TURN, &mut work).await {
        return (done, turn);
    }
    drop(turn);
    (work.await, None)
}

/// The system gave no thread to start the program on.
pub(super) fn no_thread(error: io::Error) -> Error {
    let message = format!(
        "the system gave no thread to start the program on ({error}): raise the limit of processes (`ulimit -u`), or run fewer at once"
    );
    Error::new(ErrorCode::ProcessSpawnFailed, message)
        .with("errno", error.raw_os_error().unwrap_or(0))
        .with("syscall", "clone")
}

fn watch_pipes(ends: Ends) -> Result<Pipes> {
    let watch = || -> io::Result<Pipes> {
        Ok(Pipes {
            stdin: ends.stdin.map(PipeWriter::from_owned_fd).transpose()?,
            stdout: ends.stdout.map(Pipe::from_owned_fd).transpose()?,
            stderr: ends.stderr.map(Pipe::from_owned_fd).transpose()?,
            terminal: ends.terminal.map(Arc::new),
        })
    };
    watch().map_err(|error| {
        Error::new(ErrorCode::ProcessSpawnFailed, format!("the program's pipes can't be watched: {error}"))
            .with("errno", error.raw_os_error().unwrap_or(0))
            .with("syscall", "epoll_ctl")
    })
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitStatus {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// From the status word of wait(2).
    pub(crate) fn from_wait_status(status: i32) -> Self {
        if nix::libc::WIFSIGNALED(status) {
            ExitStatus { code: None, signal: Some(nix::libc::WTERMSIG(status)) }
        } else {
            ExitStatus { code: Some(nix::libc::WEXITSTATUS(status)), signal: None }
        }
    }

    /// The signal's name, "SIGTERM".
    pub(crate) fn signal_name(self) -> Option<String> {
        let number = self.signal?;
        let named = nix::sys::signal::Signal::try_from(number).map(|signal| signal.as_str().to_owned());
        Some(named.unwrap_or_else(|_| format!("SIG{number}")))
    }
}

/// What a tree reports; each once, `Gone` or `Lost` last.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TreeEvent {
    /// The command itself exited; nothing else was touched yet.
    Exited,
    /// Nothing of the tree is alive (or, with strays kept, nothing that is still ours).
    Gone { status: ExitStatus, usage: ProcessUsage, strays_killed: u32, strays_left: u32 },
    /// What held the tree was killed; the tree is gone all the same, but for what can't be killed.
    Lost { strays_killed: u32, strays_left: u32 },
    /// Killed processes are on their way out: much memory takes the kernel its time. May come many times.
    Dying,
}

/// The processes of a run.
pub(crate) enum Tree {
    Direct(direct::DirectTree),
    #[cfg(target_os = "linux")]
    Guarded(Box<guarded::GuardedTree>),
}

impl Tree {
    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> TreeEvent {
        match self {
            Tree::Direct(tree) => tree.next().await,
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.next().await,
        }
    }

    /// To the process group.
    pub(crate) fn signal(&mut self, signal: Signal) {
        match self {
            Tree::Direct(tree) => tree.signal(signal),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.signal(signal),
        }
    }

    /// SIGKILL to everything, now.
    pub(crate) fn kill(&mut self) {
        match self {
            Tree::Direct(tree) => tree.kill(),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.kill(),
        }
    }

    /// After `Exited`: kill what is left, or let it live. `Gone` follows.
    pub(crate) fn finish(&mut self, strays: Strays) {
        match self {
            Tree::Direct(tree) => tree.finish(strays),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.finish(strays),
        }
    }

    /// Whether somebody of the command's process group is alive.
    pub(crate) fn has_group(&self) -> bool {
        match self {
            Tree::Direct(tree) => tree.has_group(),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.has_group(),
        }
    }

    /// The process that everything of the run is below.
    pub(crate) fn root(&self) -> i32 {
        match self {
            Tree::Direct(tree) => tree.root(),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.root(),
        }
    }
}

/// Starts the program when it has its `turn`, off the JavaScript thread: the host is never forked, and its JavaScript never waits.
/// `cut_short`: what was begun is ended at once, and what became of it is told.
pub(crate) async fn launch(
    command: ResolvedCommand,
    spec: &ProcessSpec,
    turn: Option<SemaphorePermit<'static>>,
    cut_short: &Notify,
) -> std::result::Result<Launched, NotLaunched> {
    #[cfg(target_os = "linux")]
    let (command, turn) = match spec.containment {
        Containment::Group => (command, turn),
        Containment::Auto | Containment::Strict => {
            match guarded::launch(command, spec, turn, cut_short).await? {
                guarded::Attempt::Launched(launched) => return Ok(launched),
                guarded::Attempt::Unavailable(command) => (command, None),
            }
        }
    };
    if spec.containment == Containment::Strict {
        return Err(Error::new(
            ErrorCode::ContainmentUnavailable,
            "PID namespaces are Linux's: leave out `containment: \"strict\"`",
        )
        .with("containment", "strict")
        .into());
    }
    if spec.sandbox.is_some() {
        return Err(no_sandbox(
            "it needs the guard: Linux, a place to execute it from, and `containment` other than \"group\"",
        )
        .into());
    }
    if spec.memory_max_bytes.is_some() || spec.max_processes.is_some() {
        return Err(no_limits(None).into());
    }
    direct::launch(command, spec, turn, cut_short).await
}

fn no_sandbox(reason: &str) -> Error {
    Error::new(
        ErrorCode::SandboxUnavailable,
        format!("`sandbox` can't be had here, so nothing was started: {reason}"),
    )
}

/// `CONTAINMENT_UNAVAILABLE` for limits that nothing could enforce.
fn no_limits(errno: Option<i32>) -> Error {
    let message = "nothing here can enforce `memoryMaxBytes` or `maxProcesses`: they need a writable cgroup (version 2) with the \
         controllers memory and pids, as `systemd-run --user --scope` gives one, and `containment` other than \"group\"";
    let error = Error::new(ErrorCode::ContainmentUnavailable, message).with("containment", "group");
    if let Some(errno) = errno { error.with("errno", errno) } else { error }
}

/// What the tree below `root` has used so far; reads the process table.
pub(crate) async fn tree_usage(root: i32) -> TreeUsage {
    blocking(move || ProcessTable::read().unwrap_or_default().usage(root)).await.unwrap_or_default()
}
