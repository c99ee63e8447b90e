//! The guard, with real processes.

use super::lifeline::GuardedProcess;
use super::wire::{Exit, Toll};
use super::{GuardEvent, GuardFailure, GuardStage, GuardedSpawn, Launch, Limits, StdinKind, launch};
use crate::process::Containment;
use std::ffi::OsStr;
use std::path::Path;

mod cost;
mod delegated;
mod disabled;
mod fallback;
mod program;
mod strict;
mod survival;

/// A program as it is run when nothing else is said.
fn spawn_of<'a, P: AsRef<Path> + ?Sized>(program: &'a P, arguments: &'a [&'a OsStr]) -> GuardedSpawn<'a> {
    GuardedSpawn {
        program: program.as_ref(),
        arguments,
        environment: &[],
        cwd: None,
        containment: Containment::Auto,
        limits: Limits::default(),
        sandbox: None,
    }
}

/// Waits until the program runs, or says why not.
async fn started(launch: Launch) -> Result<GuardedProcess, GuardFailure> {
    launch.started(&tokio::sync::Notify::new()).await
}
