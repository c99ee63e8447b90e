//! Everything before the program runs: its turn, its resolution, its launch, and the words that arrive meanwhile.

use super::command::{ResolvedCommand, resolve};
use super::handle::Command;
use super::launch::{Launched, launch};
use super::runner::sleep_until;
use super::spec::{ProcessSpec, StopReason};
use super::stop::stopped_before_start;
use crate::error::{Error, ErrorCode, Result};
use std::sync::OnceLock;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;

/// Programs being started at once: more would only fight over the cores, with the JavaScript thread too.
static START_TURNS: OnceLock<Semaphore> = OnceLock::new();

fn start_turns() -> Semaphore {
    Semaphore::new(std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8)))
}

/// Commands that arrive before the program runs are kept in `early`; a stop among them means that nothing is started.
pub(super) async fn start(
    spec: &ProcessSpec,
    commands: &mut UnboundedReceiver<Command>,
    early: &mut Vec<Command>,
) -> Result<Launched> {
    if let Some(reason) = spec.passed() {
        return Err(stopped_before_start(reason, spec));
    }
    let turn = START_TURNS.get_or_init(start_turns).acquire().await.ok();
    let owned = spec.clone();
    let mark = new_mark();
    let resolved = tokio::task::spawn_blocking(move || resolve(&owned, mark)).await;
    let command: ResolvedCommand = resolved.unwrap_or_else(|_| {
        Err(Error::new(ErrorCode::ProcessSpawnFailed, "the addon's threads are shutting down"))
    })?;
    while let Ok(command) = commands.try_recv() {
        match command {
            Command::Stop(reason) => return Err(stopped_before_start(reason, spec)),
            other => early.push(other),
        }
    }
    tokio::select! {
        launched = launch(command, spec, turn) => launched,
        // Dropping the launch ends what it has begun.
        error = stopped_meanwhile(spec, commands, early) => Err(error),
    }
}

/// A program's file may take its time to come (a network that hangs): clocks run and words are heard meanwhile.
async fn stopped_meanwhile(
    spec: &ProcessSpec,
    commands: &mut UnboundedReceiver<Command>,
    early: &mut Vec<Command>,
) -> Error {
    let deadline = spec.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Stop(reason)) => return stopped_before_start(reason, spec),
                Some(other) => early.push(other),
                None => return stopped_before_start(StopReason::HostClosing, spec),
            },
            () = sleep_until(deadline) => return stopped_before_start(StopReason::TimedOut, spec),
        }
    }
}

fn new_mark() -> String {
    let mut bytes = [0; 16];
    // Without randomness the mark is still this process's own: pid and time.
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        bytes = (now.as_nanos() ^ (u128::from(std::process::id()) << 96)).to_ne_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
