//! Prepares an agent's program for the protocol: finds it, makes its folder, its sandbox and its record, and holds it to its
//! level. Nothing is started.

use crate::acp::opening::program::{Held, program_of, spec_of, unheld};
use crate::acp::opening::request::OpenRequest;
use crate::acp::opening::session_record;
use crate::harness::Provider;
use crate::harness::folder::RunFolder;
use crate::harness::folder::sandbox::{AgentSandbox, SandboxPlace, state_of};
use crate::harness::folder::state_folder::OwnPlace;
use crate::harness::level::Mode;
use crate::harness::provider::restraint::{check_switches, mode_of};
use crate::harness::turn::record::TurnRecord;
use ground::error::{Error, ErrorCode};
use ground::os::{ContainedFolders, blocking};
use process::{ProcessSpec, Sandbox};
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
    let mut record = session_record::open(request, &cwd).await?;
    let (folder, mut sandbox) = make_room(request, &cwd).await?;
    let held = match hold(agent, mode, request, &folder, &mut sandbox).await {
        Ok(held) => held,
        Err(error) => {
            folder.remove().await;
            return Err(error);
        }
    };
    let mut spec = spec_of(agent, &held, request, &program, &cwd, folder.scratch());
    spec.sandbox = sandbox;
    spec.record = record.as_mut().map(|record| record.next_attempt(request.agent.provider));
    spec.name = Some(session_record::label(request));
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
        return Err(Error::new(ErrorCode::AgentIdle, message));
    }
    if agent.provider.protocol().lacks_tools && !request.servers.is_empty() {
        let problem = format!("{name} does not support tools over this protocol");
        return Err(Error::invalid_option("tools", problem));
    }
    Ok(())
}

/// A folder of the session's own, and the sandbox that it is part of.
async fn make_room(request: &OpenRequest, cwd: &Path) -> Result<(RunFolder, Option<Sandbox>), Error> {
    let (places, contained) = (request.agent.folder_places(), request.agent.sandboxed_folders());
    let (cwd, home) = (cwd.to_owned(), request.agent.variable("HOME"));
    let held = match request.agent.own_sandbox(request.agent.provider.protocol().accounting) {
        Some(sandbox) => {
            Some((sandbox, state_of(request.agent.provider, |name| request.agent.variable(name))?))
        }
        None => None,
    };
    let level = request.agent.level;
    let made = blocking(move || {
        let folder = RunFolder::create(&places, &contained)?;
        let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
        let (home, scratch) = (home.as_deref(), folder.scratch());
        let place = SandboxPlace { cwd: &cwd, home, scratch, contained: &contained };
        let prepare = |(sandbox, state): (AgentSandbox, _)| sandbox.prepare(level, state, &place);
        let sandbox = held.map(prepare).transpose()?;
        Ok((folder, sandbox))
    });
    made.await.map_err(|error| Error::new(ErrorCode::ProcessSpawnFailed, error.to_string()))?
}

/// Prepares the means that hold the session to its mode, including a state folder of its own in a sandbox, if its CLI has one.
async fn hold(
    agent: Provider,
    mode: &Mode,
    request: &OpenRequest,
    folder: &RunFolder,
    sandbox: &mut Option<Sandbox>,
) -> Result<Held, Error> {
    let mut held = Held::of(agent, mode, request, folder.path())?;
    let files = held.files();
    if !files.is_empty() {
        let room = folder.again();
        let written = blocking(move || {
            let room = room?;
            files.iter().try_for_each(|(path, text)| room.write(path, text))
        });
        written
            .await
            .flatten()
            .map_err(|error| Error::new(ErrorCode::ProcessSpawnFailed, error.to_string()))?;
    }
    let Some(sandbox) = sandbox else { return Ok(held) };
    let own = OwnPlace::of(request.agent.provider, |name| request.agent.variable(name), folder.path())?;
    if let Some(own) = own {
        held.move_state(own.variable());
        let contained = request.agent.contained();
        let made =
            blocking(move || own.make(&ContainedFolders::of(contained.iter().map(PathBuf::as_path)))).await;
        let made = made.map_err(|error| Error::new(ErrorCode::ProcessSpawnFailed, error.to_string()))?;
        sandbox.write.extend(made?);
    }
    Ok(held)
}
