//! The program that speaks the protocol: where it is, and how it is started and held to its level.

use super::agent::Agent;
use super::request::OpenRequest;
use crate::error::{Error, ErrorCode};
use crate::harness::install::{find, locate};
use crate::harness::launch::{Launch, Wanted, path_text};
use crate::harness::level::{Level, Mode};
use crate::harness::package::Program;
use crate::process::{Environment, ProcessSpec};
use serde_json::Value;
use std::path::Path;

/// The program that speaks the protocol: as given, on PATH, or in the packages of the folder and those around it.
pub(super) fn program_of(agent: &Agent, request: &OpenRequest, cwd: &Path) -> Result<Program, Error> {
    let path = request.variable("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
    let around: Vec<String> =
        cwd.ancestors().map(|folder| path_text(&folder.join("node_modules").join(".bin"))).collect();
    let path = format!("{path}:{}", around.join(":"));
    let found = match (&request.binary, agent.program) {
        (None, Some(program)) => {
            find(program, &path).map(|file| Program { command: path_text(&file), ..Program::default() })
        }
        (binary, _) => locate(agent.provider, binary.as_deref(), &path),
    };
    found.ok_or_else(|| not_found(agent, agent.program()))
}

fn not_found(agent: &Agent, command: &str) -> Error {
    let install = agent.install();
    let message = format!(
        "{} can't be opened: {command}, which speaks the Agent Client Protocol for it, is no program on PATH. Install it with: {install}",
        agent.name()
    );
    Error::new(ErrorCode::AgentNotFound, message).with("install", install).with("command", command)
}

pub(super) fn not_started(agent: &Agent, error: Error) -> Error {
    match error.code() {
        ErrorCode::ProcessNotFound => {
            let command = error.facts().get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
            not_found(agent, &command).caused_by(error)
        }
        _ => error,
    }
}

/// How the session is held to its level.
pub(super) struct Held {
    /// Of the mode.
    pub(super) id: String,
    args: &'static [&'static str],
    set: Vec<(String, String)>,
    /// Goes before what the caller sets.
    made: Option<(String, String)>,
}

impl Held {
    pub(super) fn of(mode: &Mode, request: &OpenRequest, folder: &Path) -> Result<Held, Error> {
        let name = folder.file_name().map_or("sheepdog".into(), |name| name.to_string_lossy().into_owned());
        let made = mode.made.map(|make| make(&|variable| request.variable(variable), &name)).transpose()?;
        Ok(Held {
            id: if made.is_some() { name } else { mode.id.to_owned() },
            args: mode.args,
            set: mode.set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            made: made.map(|(name, value)| (name.to_owned(), value)),
        })
    }
}

pub(super) fn spec_of(
    agent: &Agent,
    held: &Held,
    request: &OpenRequest,
    program: &Program,
    cwd: &Path,
    folder: &Path,
) -> ProcessSpec {
    let mut args = program.arguments.clone();
    args.extend(agent.args.iter().map(|arg| (*arg).to_owned()));
    if let (Some(flag), Some(model)) = (agent.model_flag, &request.model) {
        args.extend([flag.to_owned(), model.clone()]);
    }
    args.extend(held.args.iter().map(|arg| (*arg).to_owned()));
    let mut spec = ProcessSpec::new(&program.command, args);
    spec.cwd = Some(cwd.to_path_buf());
    spec.kill_grace = request.kill_grace;
    spec.containment = request.containment;
    spec.environment = environment_of(agent, held, request, program, folder);
    spec
}

/// The caller's environment, with what the provider needs. The caller's own changes win.
fn environment_of(
    agent: &Agent,
    held: &Held,
    request: &OpenRequest,
    program: &Program,
    folder: &Path,
) -> Environment {
    let is_given = |name: &str| request.environment.changes.iter().any(|(changed, _)| changed == name);
    let launch = Launch::new(&Wanted::default());
    let removed = launch.removed.iter().map(|name| ((*name).to_owned(), None));
    let switches = request.provider.descriptor().switches.iter().filter(|_| request.level != Level::Auto);
    let removed = removed.chain(switches.map(|name| ((*name).to_owned(), None)));
    let fixed = agent.set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let fixed = fixed.chain(held.set.iter().cloned());
    let set = program.environment.iter().cloned().chain(fixed).map(|(name, value)| (name, Some(value)));
    let mut changes: Vec<(String, Option<String>)> =
        removed.chain(set).filter(|(name, _)| !is_given(name)).collect();
    changes.extend(request.environment.changes.iter().cloned());
    changes.extend(held.made.iter().cloned().map(|(name, value)| (name, Some(value))));
    changes.push(("TMPDIR".to_owned(), Some(path_text(folder))));
    if let Some(folder) = &program.path_before {
        let path = request.variable("PATH").map(|path| format!("{folder}:{path}"));
        changes.push(("PATH".to_owned(), Some(path.unwrap_or_else(|| folder.clone()))));
    }
    Environment { base: request.environment.base.clone(), changes }
}
