//! The one interface between a run and how its program is started and held: [`launch`] gives pipes and a [`Tree`].
//!
//! A tree says when its command exited and when everything is gone; it is told to terminate, to kill, and, after the exit, to
//! finish. `guarded` is the launcher under guard; `direct` the one without: process group, parents and marks.

mod direct;
#[cfg(target_os = "linux")]
mod guarded;

use super::command::ResolvedCommand;
use super::kill_tree::TreeUsage;
use super::spec::{Containment, ContainmentLevel, ProcessSpec, Strays, Usage};
use crate::error::{Error, ErrorCode, Result};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;
use tokio::net::unix::pipe;
use tokio::sync::SemaphorePermit;

/// A started program.
pub(crate) struct Launched {
    pub pid: u32,
    /// Just before the system was asked: the zero of the run's clocks.
    pub spawned: Instant,
    pub level: ContainmentLevel,
    /// `None` when stdin is null.
    pub stdin: Option<pipe::Sender>,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    pub tree: Tree,
}

/// The host's ends of a program's pipes, made ready to be watched.
fn watch_pipes(
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> Result<(Option<pipe::Sender>, pipe::Receiver, pipe::Receiver)> {
    let watch = || -> io::Result<_> {
        let stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
        Ok((stdin, pipe::Receiver::from_owned_fd(stdout)?, pipe::Receiver::from_owned_fd(stderr)?))
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
    Gone { status: ExitStatus, usage: Usage, strays_killed: u32, strays_left: u32 },
    /// What held the tree was killed; the tree is gone all the same.
    Lost { strays_killed: u32 },
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

    /// SIGTERM to the process group.
    pub(crate) fn terminate(&mut self) {
        match self {
            Tree::Direct(tree) => tree.terminate(),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.terminate(),
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
pub(crate) async fn launch(
    command: ResolvedCommand,
    spec: &ProcessSpec,
    turn: Option<SemaphorePermit<'static>>,
) -> Result<Launched> {
    #[cfg(target_os = "linux")]
    let command = match spec.containment {
        Containment::Group => command,
        Containment::Auto | Containment::Strict => match guarded::launch(command, spec, turn).await? {
            guarded::Attempt::Launched(launched) => return Ok(launched),
            guarded::Attempt::Unavailable(command) => command,
        },
    };
    if spec.containment == Containment::Strict {
        return Err(Error::new(
            ErrorCode::ContainmentUnavailable,
            "PID namespaces are Linux's: leave out `containment: \"strict\"`",
        )
        .with("containment", "strict"));
    }
    if spec.memory_max_bytes.is_some() || spec.max_processes.is_some() {
        return Err(no_limits(None));
    }
    direct::launch(command, spec).await
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
    tokio::task::spawn_blocking(move || super::kill_tree::ProcessTable::read().usage(root))
        .await
        .unwrap_or_default()
}
