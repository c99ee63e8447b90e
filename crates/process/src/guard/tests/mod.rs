//! The guard, with real processes.

use super::lifeline::GuardedProcess;
use super::wire::{Exit, StrayCount};
use super::{GuardEvent, GuardFailure, GuardStage, GuardedSpawn, Launch, ResourceLimits, launch};
use crate::Containment;
use crate::wiring::{Source, Wiring};
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
        mark: "",
        arguments,
        environment: &[],
        cwd: None,
        containment: Containment::Auto,
        limits: ResourceLimits::default(),
        sandbox: None,
    }
}

/// Pipes, and this stdin.
fn piped(stdin: Source) -> Wiring {
    Wiring::piped(stdin, None).unwrap()
}

/// Waits until the program runs, or says why not.
async fn started(launch: Launch) -> Result<GuardedProcess, GuardFailure> {
    launch.started(&tokio::sync::Notify::new()).await
}
