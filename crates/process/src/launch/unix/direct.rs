//! The launcher without a guard. It spawns the command by posix_spawn into a process group of its own and sees the exit through a
//! pidfd. Strays are found by group, parents and mark.
//!
//! The command stays a zombie until the strays are swept: as long as it is not reaped, its pid, and so the number of its group,
//! can't be reused.

use super::super::launched::{Launched, NotLaunched};
use super::super::preparation::Preparation;
use super::super::refusal::no_thread;
use super::super::tree_event::{ExitStatus, TreeEvent};
use super::super::turn::Turn;
use super::super::wires::Wires;
use super::exit::exit_of;
use super::session;
use super::wiring::{Wiring, watch_pipes};
use crate::command_fault::{cwd_refused, spawn_error, start_refused};
use crate::resolved_command::ResolvedCommand;
use crate::spec::{ContainmentLevel, ProcessSpec, ProcessUsage, Strays};
use crate::sweep::{SweepRequest, Swept, sweep};
use ground::error::{Error, Result};
use ground::os::unix::LentTerminal;
use ground::os::{
    Fault, ProcessIdentity, ProcessTable, blocking, has_exited, kill_process, may_execute, signal_group,
    ticks_now, wait_for_exit, walk_descendants,
};
use ground::signal::Signal;
use nix::libc;
use std::collections::HashSet;
use std::io;
use std::time::Instant;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(super) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: &Turn,
    cut_short: &Notify,
) -> std::result::Result<Launched<DirectTree>, NotLaunched> {
    let wires = Wires::of(spec);
    let spawning = blocking(move || spawn(preparation()?, &wires));
    let spawned = tokio::select! {
        spawned = spawning => Ok(spawned),
        // The thread may still start the program; the result is dropped there, which kills it.
        () = cut_short.notified() => Err(NotLaunched::Unknown),
    };
    turn.give_back();
    Ok(spawned?.map_err(no_thread)??)
}

fn spawn(command: ResolvedCommand, wires: &Wires) -> Result<Launched<DirectTree>> {
    let name = || command.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Wiring { program, mut ends } =
        wires.lay(command.input.as_ref()).map_err(|fault| start_refused(&name(), &fault))?;
    let (spawned, since) = (Instant::now(), ticks_now());
    let kind = match &ends.terminal {
        Some(terminal) => session::Wires::Terminal(terminal),
        None if wires.are_hosts() => session::Wires::Hosts(&program),
        None => session::Wires::Own(&program),
    };
    let pid = session::spawn(kind, &command).map_err(|error| refused(&command, &error))?;
    // Only the program has them from here on: their end is its end.
    drop(program);
    let lent = ends.lent.take();
    let tree = DirectTree {
        pid: pid as i32,
        mark: command.mark,
        since,
        state: TreeLife::Running(wait_for_exit(pid as i32)),
        known: HashSet::new(),
        lent,
    };
    match watch_pipes(ends) {
        Ok(pipes) => Ok(Launched { pid, spawned, level: ContainmentLevel::Group, pipes, tree }),
        Err(error) => {
            // It runs already, but nobody could watch it.
            drop(tree);
            Err(error)
        }
    }
}

/// posix_spawn tells neither which of its steps failed nor on which file: the working directory is looked at once more.
fn refused(command: &ResolvedCommand, error: &io::Error) -> Error {
    if let Some(cwd) = &command.cwd {
        let (reached, named) = (command.folder.reach(cwd), command.folder.named(cwd));
        if let Err(error) = may_execute(&reached) {
            return cwd_refused(&reached, &named, &Fault::of("chdir", Some(&named), &error));
        }
    }
    spawn_error(command, &Fault::of("posix_spawn", Some(&command.named()), error))
}

pub(crate) struct DirectTree {
    pid: i32,
    mark: String,
    /// Start of the run; no process of the tree is older.
    since: u64,
    state: TreeLife,
    /// Descendants that were alive when the tree was killed.
    known: HashSet<ProcessIdentity>,
    /// The host's terminal, as long as the program uses it.
    lent: Option<LentTerminal>,
}

enum TreeLife {
    Running(JoinHandle<()>),
    Exited,
    Sweeping(JoinHandle<Swept>),
    Gone,
}

impl DirectTree {
    pub(super) fn root(&self) -> i32 {
        self.pid
    }

    /// The command itself is a zombie by now, and still in its group.
    pub(super) fn has_group(&self) -> bool {
        ProcessTable::read().is_some_and(|table| table.entries().iter().any(|entry| entry.group == self.pid))
    }

    /// Whether the exit can be seen by now, whatever the runtime knows.
    pub(super) fn look(&mut self) -> Option<TreeEvent> {
        if matches!(self.state, TreeLife::Running(_)) && has_exited(self.pid) {
            self.state = TreeLife::Exited;
            return Some(TreeEvent::Exited);
        }
        None
    }

    pub(super) async fn next(&mut self) -> TreeEvent {
        match &mut self.state {
            TreeLife::Running(exit) => {
                let _ = exit.await;
                self.state = TreeLife::Exited;
                TreeEvent::Exited
            }
            TreeLife::Sweeping(swept) => {
                let swept = swept.await.unwrap_or_default();
                self.state = TreeLife::Gone;
                let (status, usage) = reap(self.pid);
                if let Some(lent) = self.lent.take() {
                    lent.take_back(status.code.is_none());
                }
                let strays_killed = self.known.len() as u32 + swept.killed;
                TreeEvent::Gone { status, usage, strays_killed, strays_left: swept.left }
            }
            TreeLife::Exited | TreeLife::Gone => std::future::pending().await,
        }
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        if !matches!(self.state, TreeLife::Gone) {
            signal_group(self.pid, signal);
            // Members that are stopped could not take it.
            if !signal.stops() {
                signal_group(self.pid, Signal::Cont);
            }
        }
    }

    /// Parents are walked before the kill: afterwards the orphans have another parent.
    pub(super) fn kill(&mut self) {
        if matches!(self.state, TreeLife::Gone | TreeLife::Sweeping(_)) {
            return;
        }
        let descendants = walk_descendants(self.pid);
        signal_group(self.pid, Signal::Kill);
        for identity in &descendants {
            kill_process(*identity);
        }
        self.known.extend(descendants);
    }

    pub(super) fn finish(&mut self, strays: Strays) {
        if !matches!(self.state, TreeLife::Exited) {
            return;
        }
        let request = SweepRequest {
            leader: self.pid,
            mark: self.mark.clone(),
            since: self.since,
            known: self.known.iter().copied().collect(),
        };
        self.state = TreeLife::Sweeping(ground::task::spawn(async move {
            match strays {
                Strays::Kill => sweep(request).await,
                Strays::Keep => Swept::default(),
            }
        }));
    }
}

/// A run that is given up, or dropped: it is killed, and reaped when it can be.
impl Drop for DirectTree {
    fn drop(&mut self) {
        self.kill();
        let pid = self.pid;
        match std::mem::replace(&mut self.state, TreeLife::Gone) {
            TreeLife::Running(exit) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        let _ = exit.await;
                        reap(pid);
                    });
                }
            }
            TreeLife::Exited | TreeLife::Sweeping(_) => {
                reap(pid);
            }
            TreeLife::Gone => {}
        }
    }
}

/// Takes the exit status and the resource usage of an exited child.
fn reap(pid: i32) -> (ExitStatus, ProcessUsage) {
    let mut status = 0;
    // SAFETY: zeroed bytes are a valid rusage, which the call only writes to.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers outlive the call; the pid is an exited child of ours, so the call does not block.
        let reaped = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
        if reaped == pid {
            return (exit_of(status), usage_of(&usage));
        }
        if reaped < 0 && nix::errno::Errno::last() != nix::errno::Errno::EINTR {
            // Somebody else in the host waited for all children: the status is gone.
            return (ExitStatus::default(), ProcessUsage::default());
        }
    }
}

fn usage_of(usage: &libc::rusage) -> ProcessUsage {
    let millis = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "linux") { 1024 } else { 1 };
    ProcessUsage {
        user_ms: millis(usage.ru_utime),
        system_ms: millis(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss.max(0) as u64 * unit,
    }
}
