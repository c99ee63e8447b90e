//! Starts a run's program: [`launch`] returns its pipes and a [`Tree`], the one interface to the processes of a run.
//!
//! A tree reports the exit of its command and the end of all its processes. It takes signals, an order to kill, and, after the
//! exit, an order to finish. [`unix`] launches on Linux and macOS, its twin on Windows.

mod launched;
mod preparation;
mod refusal;
mod tree_event;
mod turn;
#[cfg(unix)]
pub(crate) mod unix;
#[cfg(windows)]
mod windows;
pub(crate) mod wires;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(super) use launched::{NotLaunched, Pipes};
pub(super) use preparation::Preparation;
pub(crate) use system::Tree;
pub(super) use tree_event::{ExitStatus, TreeEvent};
pub(super) use turn::{Turn, take_turn};

use super::sandbox::report::{SandboxReport, SandboxSupport};
use super::spec::ProcessSpec;
use ground::os::{ProcessTable, TreeUsage, blocking};
use tokio::sync::Notify;

/// A started program and its tree.
pub(crate) type Launched = launched::Launched<Tree>;

/// Starts the prepared program when it has its `turn`, off the JavaScript thread: the host is never forked, and its JavaScript
/// never waits. `cut_short`: what was begun is ended at once, and what became of it is told.
pub(crate) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: &Turn,
    cut_short: &Notify,
) -> std::result::Result<Launched, NotLaunched> {
    system::launch(preparation, spec, turn, cut_short).await
}

/// The sandbox features of this machine. Blocks: a guard is started for a moment.
pub fn sandbox_support() -> SandboxSupport {
    system::sandbox_support()
}

/// The sandbox features that were in force for a run that was started.
pub(crate) fn sandbox_report(spec: &ProcessSpec) -> Option<SandboxReport> {
    spec.sandbox.as_ref().map(|sandbox| SandboxReport::new(sandbox, system::landlock_version()))
}

/// Usage so far of the tree below `root`; reads the process table.
pub(crate) async fn tree_usage(root: i32) -> TreeUsage {
    blocking(move || ProcessTable::read().unwrap_or_default().usage(root)).await.unwrap_or_default()
}
