//! The guard, with real processes.

use super::lifeline::GuardedProcess;
use super::wire::{Exit, Toll};
use super::{GuardEvent, GuardFailure, GuardStage, GuardedSpawn, Launch, Limits, StdinKind, launch};

mod cost;
mod delegated;
mod disabled;
mod fallback;
mod program;
mod strict;
mod survival;

/// Waits until the program runs, or says why not.
async fn started(launch: Launch) -> Result<GuardedProcess, GuardFailure> {
    launch.started(&tokio::sync::Notify::new()).await
}
