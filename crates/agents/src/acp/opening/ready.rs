//! Prepares an agent's program for the protocol: finds it, makes its folder, its sandbox and its record, and holds it to its
//! level. Nothing is started.

use crate::acp::opening::program::{Held, program_of, unheld};
use crate::acp::opening::request::OpenRequest;
use crate::harness::Provider;
use crate::harness::folder::RunFolder;
use crate::harness::level::Mode;
use crate::harness::provider::restraint::{check_switches, mode_of};
use crate::harness::turn::record::TurnRecord;
use ground::error::{Error, ErrorCode};
use process::ProcessSpec;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program that can be started.
pub(crate) struct Ready<'a> {
    pub(crate) request: &'a OpenRequest,
    pub(crate) agent: Provider,
    pub(crate) spec: ProcessSpec,
    /// Wanted modes; the first one that the agent offers is set.
    pub(crate) modes: Vec<String>,
    /// Facts about the mode in the request that begins a session.
    pub(crate) meta: &'static str,
    pub(crate) folder: RunFolder,
    pub(crate) cwd: PathBuf,
    pub(crate) record: Option<TurnRecord>,
    /// Path of the program.
    pub(crate) path: String,
}

/// Prepares the program. Call it within tokio.
pub(crate) async fn ready(request: &OpenRequest) -> Result<Ready<'_>, Error> {
    let agent = request.agent.provider;
    let cwd = match &request.agent.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir().map_err(|error| {
            Error::new(
                ErrorCode::ProcessCwdMissing,
                format!("the working directory of this process cannot be found: {error}"),
            )
        })?,
    };
    // The level of an agent without a name is a matter of its command, so that comes first.
    let other = agent.is_other().then(|| program_of(agent, request, &cwd)).transpose()?;
    let Some(mode) = mode_of(agent, request.agent.level, request.agent.sandbox.is_some()) else {
        return Err(unheld(agent, request.agent.level, request.agent.sandbox.is_some()));
    };
    check(request)?;
    let program = match other {
        Some(program) => program,
        None => program_of(agent, request, &cwd)?,
    };
    let label = request.agent.name.clone().unwrap_or_else(|| format!("{} session", agent.as_str()));
    let mut record = TurnRecord::open("session", &request.agent, &label, json!({ "cwd": cwd })).await?;
    let (folder, held) = match room(mode, request, &cwd).await {
        Ok(made) => made,
        Err(error) => {
            if let Some(record) = record {
                record.close(None, Some(&error), false).await;
            }
            return Err(error);
        }
    };
    let args = held.arguments(request);
    let mut spec = request.agent.process(&program, args, &held.launch, folder.scratch());
    spec.cwd = Some(cwd.clone()).filter(|_| !request.agent.holds_cwd);
    spec.record = record.as_mut().map(|record| record.next_attempt(request.agent.provider));
    spec.name = Some(label);
    Ok(Ready {
        request,
        agent,
        spec,
        modes: held.modes,
        meta: mode.meta,
        folder,
        cwd,
        record,
        path: program.command,
    })
}

/// Checks what needs no look at the machine.
fn check(request: &OpenRequest) -> Result<(), Error> {
    let agent = &request.agent;
    check_switches(agent.provider, agent.level, &agent.environment.changes)?;
    let name = agent.provider.as_str();
    if agent.limits.start == Some(Duration::ZERO) {
        let message = format!("{name} was not started: the deadline of `startTimeoutMs` has already passed");
        return Err(Error::new(ErrorCode::AgentIdle, message).with("startTimeoutMs", 0));
    }
    if agent.provider.protocol().lacks_tools && !request.servers.is_empty() {
        let problem = format!("{name} does not support tools over this protocol");
        return Err(Error::invalid_option("tools", problem));
    }
    Ok(())
}

/// The session's own folder, and what is made in it.
async fn room(mode: &Mode, request: &OpenRequest, cwd: &Path) -> Result<(RunFolder, Held), Error> {
    let folder = request.agent.run_folder().await?;
    match hold(mode, request, cwd, &folder).await {
        Ok(held) => Ok((folder, held)),
        Err(error) => {
            folder.remove().await;
            Err(error)
        }
    }
}

/// Prepares the means that hold the session to its mode, and the sandbox.
async fn hold(mode: &Mode, request: &OpenRequest, cwd: &Path, folder: &RunFolder) -> Result<Held, Error> {
    let agent = &request.agent;
    let mut held = Held::of(agent.provider, mode, request, folder.path())?;
    let accounting = agent.provider.protocol().accounting;
    agent.make_room(accounting, folder, cwd.to_owned(), &mut held.launch).await?;
    Ok(held)
}
