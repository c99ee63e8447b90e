//! Launching on Linux and macOS. `guarded` launches under a guard (Linux); `direct` launches without one: by process group, parents
//! and marks.

mod direct;
mod exit;
#[cfg(target_os = "linux")]
mod guarded;
mod no_sandbox;
#[cfg(target_os = "linux")]
mod path_error;
mod sandbox_trial;
mod session;
#[cfg(target_os = "linux")]
mod ways;
pub(crate) mod wiring;

use super::launched::{Launched, NotLaunched};
use super::preparation::Preparation;
use super::refusal::{no_limits, no_sandbox};
use super::tree_event::TreeEvent;
use super::turn::Turn;
#[cfg(target_os = "linux")]
use crate::guard::landlock_abi;
use crate::sandbox::report::SandboxSupport;
use crate::spec::{Containment, ProcessSpec, Strays};
use ground::error::{Error, ErrorCode};
use ground::signal::Signal;
use ground::trace::{RUN, debug};
use tokio::sync::Notify;

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

    /// An event that is there by now, whatever the runtime knows of it: right after a stop of this process it knows nothing.
    pub(crate) fn look(&mut self) -> Option<TreeEvent> {
        match self {
            Tree::Direct(tree) => tree.look(),
            #[cfg(target_os = "linux")]
            Tree::Guarded(tree) => tree.look(),
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

/// Starts the prepared program.
pub(super) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: &Turn,
    cut_short: &Notify,
) -> std::result::Result<Launched<Tree>, NotLaunched> {
    #[cfg(target_os = "linux")]
    let preparation = match spec.containment {
        Containment::Group => preparation,
        Containment::Auto | Containment::Strict => {
            match guarded::launch(preparation, spec, turn, cut_short).await? {
                guarded::Attempt::Launched(launched) => {
                    return Ok(with_tree(launched, Tree::Guarded));
                }
                guarded::Attempt::Unavailable(command, fault) => {
                    let (call, errno) = (fault.call, fault.errno);
                    debug!(target: RUN, call, errno, "has no guard: the level is group");
                    Box::new(|| Ok(command)) as Preparation
                }
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
        return Err(no_sandbox("it needs the guard, which `containment: \"group\"` leaves out").into());
    }
    if spec.memory_max_bytes.is_some() || spec.max_processes.is_some() {
        return Err(no_limits(None).into());
    }
    let launched = direct::launch(preparation, spec, turn, cut_short).await?;
    Ok(with_tree(launched, Tree::Direct))
}

/// The same, its tree as one of the two kinds.
fn with_tree<T>(launched: Launched<T>, as_one: impl FnOnce(T) -> Tree) -> Launched<Tree> {
    let Launched { pid, spawned, level, pipes, tree } = launched;
    Launched { pid, spawned, level, pipes, tree: as_one(tree) }
}

/// The version of Landlock that a sandbox here uses; 0: there is none.
pub(crate) fn landlock_version() -> u32 {
    #[cfg(target_os = "linux")]
    return landlock_abi().unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    0
}

/// The sandbox features of this machine. Blocks.
pub(crate) fn sandbox_support() -> SandboxSupport {
    #[cfg(target_os = "linux")]
    return sandbox_trial::support();
    #[cfg(not(target_os = "linux"))]
    SandboxSupport::new(0, false)
}
