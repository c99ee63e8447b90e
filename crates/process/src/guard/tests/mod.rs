//! The guard, with real processes.

use super::launch::launch_by;
use super::lifeline::GuardedProcess;
use super::wire::{Exit, StrayCount};
use super::{GuardEvent, GuardFailure, GuardStage, GuardedSpawn, HostEnd, Launch, ResourceLimits};
use crate::Containment;
use crate::launch::unix::wiring::Wiring;
use crate::launch::wires::Source;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

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
    GuardedSpawn {
        program: program.as_ref(),
        mark: "",
        arguments,
        environment: &[],
        cwd: None,
        folder: None,
        containment: Containment::Auto,
        limits: ResourceLimits::default(),
        sandbox: None,
        lends_terminal: false,
        grace: Duration::ZERO,
    }
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
    Ok((launch_by(spawn, wiring, line, scan_proc)?, end))
}

/// Waits until the program runs, or says why not.
async fn started((launch, end): Starting) -> Result<GuardedProcess, GuardFailure> {
    launch.started(end, &tokio::sync::Notify::new()).await
}
