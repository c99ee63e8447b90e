//! Starts a run's program: [`launch`] returns its pipes and a [`Tree`], the one interface to the processes of a run.
//!
//! A tree reports the exit of its command and the end of all its processes. It takes signals, an order to kill, and, after the
//! exit, an order to finish. `guarded` launches under a guard; `direct` launches without one: by process group, parents and
//! marks.

mod direct;
#[cfg(target_os = "linux")]
mod guarded;
mod launched;
mod preparation;
mod refusal;
mod session;
mod tree_event;
mod turn;
#[cfg(target_os = "linux")]
mod ways;

pub(super) use launched::{NotLaunched, Pipes, Ways};
pub(super) use preparation::Preparation;
pub(super) use tree_event::{ExitStatus, TreeEvent};

#[cfg(target_os = "linux")]
use super::fence::can_decide;
#[cfg(target_os = "linux")]
use super::guard::landlock_abi;
use super::sandbox::report::{SandboxReport, SandboxSupport};
use super::spec::{Containment, ProcessSpec, Strays};
use ground::error::{Error, ErrorCode};
use ground::os::{ProcessTable, TreeUsage, blocking};
use nix::sys::signal::Signal;
use refusal::{no_limits, no_sandbox};
use tokio::sync::{Notify, SemaphorePermit};
use turn::Turn;

/// A started program and its tree.
pub(crate) type Launched = launched::Launched<Tree>;

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

    /// Signals the process group.
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

/// Starts the prepared program when it has its `turn`, off the JavaScript thread: the host is never forked, and its JavaScript
/// never waits. `cut_short`: what was begun is ended at once, and what became of it is told.
pub(crate) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: Option<SemaphorePermit<'static>>,
    cut_short: &Notify,
) -> std::result::Result<Launched, NotLaunched> {
    let turn = &Turn::new(turn);
    #[cfg(target_os = "linux")]
    let preparation = match spec.containment {
        Containment::Group => preparation,
        Containment::Auto | Containment::Strict => {
            match guarded::launch(preparation, spec, turn, cut_short).await? {
                guarded::Attempt::Launched(launched) => {
                    return Ok(launched.with_tree(Tree::Guarded));
                }
                guarded::Attempt::Unavailable(command) => Box::new(|| Ok(command)) as Preparation,
            }
        }
    };
    if spec.containment == Containment::Strict {
        return Err(Error::new(
            ErrorCode::ContainmentUnavailable,
            "PID namespaces exist on Linux only: leave out `containment: \"strict\"`",
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
    let launched = direct::launch(preparation, spec, turn, cut_short).await?;
    Ok(launched.with_tree(Tree::Direct))
}

/// The sandbox features of this kernel.
pub fn sandbox_support() -> SandboxSupport {
    #[cfg(target_os = "linux")]
    return SandboxSupport::new(landlock_abi(), can_decide());
    #[cfg(not(target_os = "linux"))]
    SandboxSupport::new(0, false)
}

/// The sandbox features that were in force for a run that was started.
pub(crate) fn sandbox_report(spec: &ProcessSpec) -> Option<SandboxReport> {
    spec.sandbox.as_ref().map(|sandbox| SandboxReport::new(sandbox, sandbox_support().landlock))
}

/// Usage so far of the tree below `root`; reads the process table.
pub(crate) async fn tree_usage(root: i32) -> TreeUsage {
    blocking(move || ProcessTable::read().unwrap_or_default().usage(root)).await.unwrap_or_default()
}
