//! The launcher under guard (Linux): see `process/guard`.

use super::super::launched::{Launched, NotLaunched};
use super::super::preparation::Preparation;
use super::super::refusal::{no_limits, no_sandbox, no_thread};
use super::super::tree_event::{ExitStatus, TreeEvent};
use super::super::turn::Turn;
use super::super::wires::Wires;
use super::exit::exit_of;
use super::no_sandbox::{NO_GUARD, no_sandbox_by};
use super::path_error::path_error;
use super::ways::{self, Ways};
use super::wiring::watch_pipes;
use crate::command_fault::{cwd_refused, spawn_error, start_refused};
use crate::fence::{Rules, can_decide};
use crate::gate::Gate;
use crate::guard::{
    GuardEvent, GuardFailure, GuardStage, GuardedSpawn, HostEnd, Launch, Lifeline, Line, Links, OWN_TERMINAL,
    Plan, ResourceLimits, Shortfall, landlock_abi, launch as start,
};
use crate::resolved_command::ResolvedCommand;
use crate::sandbox::Sandbox;
use crate::spec::{Containment, ProcessSpec, ProcessUsage, Strays};
use crate::sweep::{SweepRequest, Swept, sweep};
use crate::traffic::Traffic;
use futures_util::FutureExt;
use ground::error::{Error, ErrorCode, Result};
use ground::os::unix::{LentTerminal, native};
use ground::os::{ContainedFolders, Fault, group_exists, hand_over, place_below, place_of_folder, ticks_now};
use ground::signal::Signal;
use nix::libc::EACCES;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The result of a launch under guard.
pub(super) enum Attempt {
    Launched(Launched<Box<GuardedTree>>),
    /// No guard can work on this system, for this reason: the command is returned for the launcher without a guard.
    Unavailable(ResolvedCommand, Fault),
}

pub(super) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: &Turn,
    cut_short: &Notify,
) -> std::result::Result<Attempt, NotLaunched> {
    let containment = spec.containment;
    let (end, line) = HostEnd::new()
        .map_err(|error| start_refused(&spec.command, &Fault::of("socketpair", None, &error)))?;
    let spawning = spawn_in(Terms::of(spec), preparation, line, &end, turn);
    let spawned = tokio::select! {
        spawned = spawning => spawned?,
        () = cut_short.notified() => return Err(NotLaunched::Unknown),
    };
    let Spawned { command, mut ways, since, at, sandbox, launched } = spawned;
    let started = match launched {
        Ok(launch) => launch.started(end, cut_short).await,
        Err(failure) => Err(failure),
    };
    let process = match started {
        Ok(process) => process,
        // A level that is asked for, or that a sandbox or a limit needs, is not weakened.
        Err(GuardFailure { stage: GuardStage::Unavailable, fault })
            if containment == Containment::Auto && !needs_guard(spec) =>
        {
            return Ok(Attempt::Unavailable(command, fault));
        }
        Err(failure) => {
            let plan = sandbox.map(|(plan, _)| plan);
            let failure = failure.on_files(&command.program, command.cwd.as_deref(), plan.as_ref());
            let error = plan.and_then(|plan| sandbox_error(&command, &plan, &failure));
            let error = error.or_else(|| limits_error(spec, &failure));
            return Err(error.unwrap_or_else(|| failure_error(&command, containment, &failure)).into());
        }
    };
    if let Some((_, rules)) = sandbox {
        ways::guard(&mut ways, process.listener, rules)?;
    }
    let mut ends = process.ends;
    let lent = ends.lent.take();
    let pipes = watch_pipes(ends)?;
    let tree = GuardedTree {
        lifeline: process.lifeline,
        mark: command.mark,
        since,
        pid: process.pid as i32,
        end: None,
        lost: None,
        over: false,
        lent,
        _ways: ways,
    };
    Ok(Attempt::Launched(Launched {
        pid: process.pid,
        spawned: at,
        level: process.level,
        pipes,
        tree: Box::new(tree),
    }))
}

/// Prepares the command and starts its guard, on a thread that may block. The end of that is not waited for: it would wake this
/// thread once more than the report that follows it.
async fn spawn_in(
    terms: Terms,
    preparation: Preparation,
    line: Line,
    end: &HostEnd,
    turn: &Turn,
) -> Result<Spawned> {
    let unfinished = Arc::new(Notify::new());
    let spawning = hand_over({
        let (turn, unfinished) = (turn.clone(), unfinished.clone());
        move || {
            let spawned = terms.spawn(preparation()?, line)?;
            // The guard does the rest by itself, however long the program's file takes to come: it needs no turn for that.
            turn.give_back();
            if spawned.launched.as_ref().is_ok_and(Launch::is_unfinished) {
                unfinished.notify_one();
            }
            Ok(spawned)
        }
    });
    let spawning = spawning.map_err(no_thread)?;
    tokio::select! {
        () = end.heard() => {}
        () = unfinished.notified() => {}
        () = spawning.starved() => {}
    }
    turn.give_back();
    spawning.result().await.map_err(no_thread)?
}

/// The parts of a run's spec that its guard is started by.
struct Terms {
    containment: Containment,
    limits: ResourceLimits,
    sandbox: Option<Sandbox>,
    traffic: Traffic,
    cwd: Option<PathBuf>,
    wires: Wires,
    grace: Duration,
}

/// A guard that was started, or why it was not.
struct Spawned {
    command: ResolvedCommand,
    ways: Ways,
    since: u64,
    at: Instant,
    sandbox: Option<(Plan, Rules)>,
    launched: std::result::Result<Launch, GuardFailure>,
}

impl Terms {
    fn of(spec: &ProcessSpec) -> Terms {
        Terms {
            containment: spec.containment,
            limits: ResourceLimits {
                memory_max_bytes: spec.memory_max_bytes,
                max_processes: spec.max_processes,
            },
            sandbox: spec.sandbox.clone(),
            traffic: spec.traffic.clone(),
            cwd: spec.sandbox.as_ref().and_then(|_| spec.named_cwd()),
            wires: Wires::of(spec),
            grace: spec.kill_grace,
        }
    }

    /// Blocks. Needs tokio, for the gate.
    fn spawn(mut self, mut command: ResolvedCommand, line: Line) -> Result<Spawned> {
        let since = ticks_now();
        let ways = ways::open(self.sandbox.as_ref(), self.traffic.clone(), &mut command)?;
        let at = Instant::now();
        let plan = |sandbox| plan_of(&sandbox, ways.gate.as_ref(), self.cwd.as_deref());
        let mut sandbox = self.sandbox.take().map(plan).transpose()?;
        let plan = sandbox.as_mut().map(|(plan, _)| plan);
        let launched = start_guard(&command, &self, plan, line);
        Ok(Spawned { command, ways, since, at, sandbox, launched })
    }
}

fn start_guard(
    command: &ResolvedCommand,
    terms: &Terms,
    mut sandbox: Option<&mut Plan>,
    line: Line,
) -> std::result::Result<Launch, GuardFailure> {
    // Opened by us: the guard that can't be had leaves it to the next launcher.
    let wiring = terms
        .wires
        .lay(command.input.as_ref())
        .map_err(|fault| GuardFailure { stage: GuardStage::Wires, fault })?;
    if let (Some(plan), Some(terminal)) = (&mut sandbox, &wiring.ends.terminal)
        && Path::new(OWN_TERMINAL).exists()
    {
        let name = terminal.path().ok().map(|path| PathBuf::from(OsStr::from_bytes(path.as_bytes())));
        plan.allow_own_terminal(name.filter(|name| name.exists()));
    }
    let sandbox = sandbox.as_deref();
    // In its sandbox a program could type into the terminal that it shares with others, and signal them.
    let lends_terminal =
        wiring.ends.lent.is_some() && sandbox.is_none() && terms.containment != Containment::Strict;
    let arguments: Vec<&OsStr> = command.argv.iter().map(|argument| argument.as_os_str()).collect();
    let environment: Vec<(&OsStr, &OsStr)> =
        command.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
    let spawn = GuardedSpawn {
        program: &command.program,
        mark: &command.mark,
        arguments: &arguments,
        environment: &environment,
        cwd: command.cwd.as_deref(),
        folder: command.folder.descriptor(),
        containment: terms.containment,
        limits: terms.limits,
        sandbox,
        lends_terminal,
        grace: terms.grace,
    };
    start(&spawn, wiring, line)
}

/// The sandbox plan for this kernel, and the rules of its fence. Blocks.
fn plan_of(sandbox: &Sandbox, gate: Option<&Gate>, cwd: Option<&Path>) -> Result<(Plan, Rules)> {
    let landlock = landlock_abi().map_err(|fault| no_sandbox_by(&fault, Shortfall::LANDLOCK))?;
    let asks = can_decide();
    let plan = Plan::new(&sandbox.within(cwd), landlock, asks.is_ok());
    let mut plan = plan.map_err(|shortfall| match (shortfall, &asks) {
        (Shortfall::Fence, Err(fault)) => no_sandbox_by(fault, &shortfall.reason()),
        _ => no_sandbox(&shortfall.reason()),
    })?;
    let folder = cwd.unwrap_or(Path::new("."));
    place(&mut plan, sandbox, folder)?;
    let rules = ways::rules(&plan, sandbox, folder, gate)?;
    // The program needs its files to use the gate.
    if let Some(own) = gate.and_then(|gate| gate.folder.clone())
        && plan.holds_reads()
    {
        plan.allow_own_folder(own);
    }
    Ok((plan, rules))
}

/// Replaces paths that lie in a folder that this sandbox, or an earlier one, lets its program write by their real paths. Then
/// no link on the way is followed, including one that is made meanwhile.
fn place(plan: &mut Plan, sandbox: &Sandbox, cwd: &Path) -> Result<()> {
    let writable: Vec<PathBuf> = sandbox.write.iter().map(|path| cwd.join(path)).collect();
    // If the whole disk is writable, a link can't lead to anything more.
    if writable.iter().any(|path| path.canonicalize().is_ok_and(|real| real == Path::new("/"))) {
        return Ok(());
    }
    let contained = ContainedFolders::of(writable.iter().map(PathBuf::as_path));
    let placed = |option: &str, place: std::io::Result<Option<PathBuf>>| match place {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Err(Error::invalid_option(option, error.to_string()))
        }
        // The start reports paths that can't be opened.
        place => Ok(place.ok().flatten()),
    };
    let base = placed("cwd", place_of_folder(cwd, &contained))?;
    for grant in plan.paths.iter_mut().chain(&mut plan.sockets) {
        if grant.path.is_relative() {
            if let Some(base) = &base {
                grant.path = base.join(&grant.path);
            }
        } else if let Some(real) = placed(&grant.option, place_below(&grant.path, &contained))? {
            (grant.path, grant.links) = (real, Links::Nowhere);
        }
    }
    Ok(())
}

/// The error of a failure that only a sandbox can cause; `None` for other failures.
fn sandbox_error(command: &ResolvedCommand, plan: &Plan, failure: &GuardFailure) -> Option<Error> {
    let fault = &failure.fault;
    match failure.stage {
        GuardStage::SandboxPath(index) => {
            let grant = plan.paths.get(index as usize)?;
            Some(path_error(&grant.option, fault))
        }
        GuardStage::Unavailable => Some(no_sandbox_by(fault, NO_GUARD)),
        GuardStage::Exec if fault.errno == EACCES && plan.holds_reads() => {
            let program = command.program.display();
            let message = format!(
                "{program} can't be executed inside of its sandbox: {fault}: `sandbox.read` has to name it, its loader and its libraries (\"/usr\", \"/lib\", \"/lib64\", \"/bin\")"
            );
            Some(Error::new(ErrorCode::ProcessNotExecutable, message).with("command", program.to_string()))
        }
        _ => None,
    }
}

fn needs_guard(spec: &ProcessSpec) -> bool {
    spec.sandbox.is_some() || has_limits(spec)
}

fn has_limits(spec: &ProcessSpec) -> bool {
    spec.memory_max_bytes.is_some() || spec.max_processes.is_some()
}

/// The error of limits that need the guard that can't be had.
fn limits_error(spec: &ProcessSpec, failure: &GuardFailure) -> Option<Error> {
    let is_unavailable = failure.stage == GuardStage::Unavailable && spec.containment == Containment::Auto;
    (is_unavailable && has_limits(spec)).then(|| no_limits(Some(&failure.fault)))
}

fn failure_error(command: &ResolvedCommand, containment: Containment, failure: &GuardFailure) -> Error {
    let fault = &failure.fault;
    let name = || command.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match failure.stage {
        GuardStage::Exec => spawn_error(command, fault),
        GuardStage::Chdir => {
            let cwd = command.cwd.as_deref().unwrap_or(Path::new("."));
            cwd_refused(&command.folder.reach(cwd), &command.folder.named(cwd), fault)
        }
        GuardStage::Wires
        | GuardStage::Fork
        | GuardStage::Terminal
        | GuardStage::Spawn
        | GuardStage::Request
        | GuardStage::Supervise => start_refused(&name(), fault),
        GuardStage::Nul => {
            Error::invalid_option("args", "contains a NUL character, which cannot be passed to a program")
        }
        GuardStage::Lost => Error::new(
            ErrorCode::ProcessLost,
            "the guard was killed while it started the program: nothing runs",
        ),
        GuardStage::Sandbox | GuardStage::SandboxPath(_) => {
            no_sandbox_by(fault, "the kernel, or what holds this process, refuses its rules")
        }
        GuardStage::Limits => no_limits(Some(fault)),
        GuardStage::Namespace | GuardStage::Cgroup | GuardStage::Unavailable => {
            let wanted = if containment == Containment::Strict { "strict" } else { "auto" };
            let cause = match failure.stage {
                GuardStage::Namespace => {
                    "this machine provides no PID namespace: leave out `containment: \"strict\"`, or allow user namespaces"
                }
                GuardStage::Cgroup => "the run's cgroup could not be joined",
                _ => NO_GUARD,
            };
            let error = Error::new(ErrorCode::ContainmentUnavailable, format!("{fault}: {cause}"));
            fault.mark(error).with("containment", wanted)
        }
    }
}

/// A run's two guards.
pub(crate) struct GuardedTree {
    lifeline: Lifeline,
    mark: String,
    /// Start of the run; no process of the tree is older.
    since: u64,
    /// Pid of the command, and so the id of its group.
    pid: i32,
    end: Option<(ExitStatus, ProcessUsage)>,
    /// The last sweep of a lost run.
    lost: Option<JoinHandle<Swept>>,
    over: bool,
    /// The host's terminal, as long as the program uses it.
    lent: Option<LentTerminal>,
    /// Open as long as the tree may live; the last to be dropped.
    _ways: Ways,
}

impl GuardedTree {
    /// The outer guard: everything of the run is below it.
    pub(super) fn root(&self) -> i32 {
        self.lifeline.guard_pid() as i32
    }

    /// The command was reaped by its guard: its group's number is in use only as long as the group has members.
    pub(super) fn has_group(&self) -> bool {
        self.pid > 0 && group_exists(self.pid)
    }

    /// The program's exit, if it has been reported.
    pub(super) fn look(&mut self) -> Option<TreeEvent> {
        if self.over || self.end.is_some() || !self.lifeline.has_news() {
            return None;
        }
        self.next().now_or_never()
    }

    pub(super) async fn next(&mut self) -> TreeEvent {
        if self.over {
            return std::future::pending().await;
        }
        match self.lifeline.next().await {
            GuardEvent::Exited(exit) => {
                let usage = ProcessUsage {
                    user_ms: exit.user.as_secs_f64() * 1e3,
                    system_ms: exit.system.as_secs_f64() * 1e3,
                    max_rss_bytes: exit.max_rss_bytes,
                };
                self.end = Some((exit_of(exit.status), usage));
                TreeEvent::Exited
            }
            GuardEvent::Dying => TreeEvent::Dying,
            GuardEvent::Gone(count) => {
                let (status, usage) = self.end.unwrap_or_default();
                self.be_over(status.code.is_none());
                TreeEvent::Gone { status, usage, strays_killed: count.strays_killed, strays_left: count.left }
            }
            GuardEvent::Lost(Some(count)) => {
                self.be_over(true);
                TreeEvent::Lost { strays_killed: count.strays_killed, strays_left: count.left }
            }
            GuardEvent::Lost(None) => {
                // Both guards were killed: only marks are left to find the tree by.
                let (mark, since) = (self.mark.clone(), self.since);
                let swept = self.lost.get_or_insert_with(|| {
                    ground::task::spawn(sweep(SweepRequest { leader: 0, mark, since, known: Vec::new() }))
                });
                let swept = swept.await.unwrap_or_default();
                self.be_over(true);
                TreeEvent::Lost { strays_killed: swept.killed, strays_left: swept.left }
            }
        }
    }

    /// `unfinished`: the program could not give the terminal back by itself.
    fn be_over(&mut self, unfinished: bool) {
        self.over = true;
        if let Some(lent) = self.lent.take() {
            lent.take_back(unfinished);
        }
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        if let Some(signal) = native(signal) {
            self.lifeline.signal(signal);
        }
    }

    pub(super) fn kill(&mut self) {
        self.lifeline.kill();
    }

    pub(super) fn finish(&mut self, strays: Strays) {
        match strays {
            Strays::Kill => self.lifeline.kill(),
            Strays::Keep => self.lifeline.release(),
        }
    }
}
