//! The guard, with real processes.

use super::launch::launch_by;
use super::lifeline::GuardedProcess;
use super::wire::{Exit, StrayCount};
use super::{GuardEvent, GuardFailure, GuardStage, GuardedSpawn, HostEnd, Launch};
use crate::launch::unix::wiring::Wiring;
use crate::launch::wires::Source;
use ::guard::protocol::FLAG_SCAN_PROC;
use std::ffi::OsStr;
use std::path::Path;

mod cost;
mod delegated;
mod disabled;
mod fallback;
mod program;
mod protocol;
mod strict;
mod survival;

/// A program as it is run when nothing else is said.
fn spawn_of<'a, P: AsRef<Path> + ?Sized>(program: &'a P, arguments: &'a [&'a OsStr]) -> GuardedSpawn<'a> {
    GuardedSpawn { arguments, ..GuardedSpawn::of(program.as_ref()) }
}

/// Pipes, and this stdin.
fn piped(stdin: Source) -> Wiring {
    Wiring::piped(stdin, None).unwrap()
}

/// A guard that is starting its program.
type Starting = (Launch, HostEnd);

fn launch(spawn: &GuardedSpawn<'_>, wiring: Wiring) -> Result<Starting, GuardFailure> {
    launch_scanning(spawn, wiring, false)
}

/// `scan_proc`: as where the kernel keeps no list of children.
fn launch_scanning(
    spawn: &GuardedSpawn<'_>,
    wiring: Wiring,
    scan_proc: bool,
) -> Result<Starting, GuardFailure> {
    let (end, line) = HostEnd::new().unwrap();
    let flags = if scan_proc { FLAG_SCAN_PROC } else { 0 };
    Ok((launch_by(spawn, wiring, line, flags)?, end))
}

/// Waits until the program runs, or says why not.
async fn started((launch, end): Starting) -> Result<GuardedProcess, GuardFailure> {
    launch.started(end, &tokio::sync::Notify::new()).await
}
