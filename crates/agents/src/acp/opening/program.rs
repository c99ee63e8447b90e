//! Finds the program that speaks the protocol, and starts it so that it is held to its level.

use crate::acp::opening::request::OpenRequest;
use crate::harness::Provider;
use crate::harness::launch::package::Program;
use crate::harness::launch::{Launch, Wanted, path_text};
use crate::harness::level::{Level, Mode};
use crate::harness::mcp_server::{self, DOLLAR, McpServer};
use crate::harness::program::install::{NOR_AROUND, find, locate, packages_around};
use crate::harness::provider::restraint::mode_of;
use ground::error::{Error, ErrorCode};
use ground::os::PATH_SEPARATOR;
use serde_json::Value;
use std::path::Path;

/// The program that speaks the protocol: as given, on PATH, or in the packages of the folder and those around it.
pub(crate) fn program_of(agent: Provider, request: &OpenRequest, cwd: &Path) -> Result<Program, Error> {
    request.agent.depth()?;
    let path = request.agent.search_path();
    let path =
        format!("{path}{PATH_SEPARATOR}{}", packages_around(request.packages.as_deref().unwrap_or(cwd)));
    let found = match (&request.agent.binary, agent.protocol().program) {
        // Its command is all that is known of it.
        (Some(words), _) if agent.is_other() => other_program(words, &path),
        (None, Some(program)) => {
            find(program, &path).map(|file| Program { command: path_text(&file), ..Program::default() })
        }
        (binary, _) => locate(agent, binary.as_deref(), &path),
    };
    let command = request.agent.binary.as_ref().filter(|_| agent.is_other()).and_then(|words| words.first());
    found.ok_or_else(|| not_found(agent, command.map_or(agent.protocol_program(), String::as_str)))
}

fn other_program(words: &[String], path: &str) -> Option<Program> {
    let (command, arguments) = words.split_first()?;
    let command = path_text(&find(command, path)?);
    Some(Program { command, arguments: arguments.to_vec(), ..Program::default() })
}

fn not_found(agent: Provider, command: &str) -> Error {
    let (name, install) = (agent.as_str(), agent.protocol().install());
    let message = match install.as_str() {
        "" => format!(
            "{name} was not started: its program, {command}, was not found on PATH{NOR_AROUND}. Check `provider.command`"
        ),
        _ => format!(
            "no session with {name}: its program for the Agent Client Protocol, {command}, was not found on PATH{NOR_AROUND}. Install it with: {install}"
        ),
    };
    Error::new(ErrorCode::AgentNotFound, message).with("install", install).with("command", command)
}

pub(crate) fn not_started(agent: Provider, error: Error) -> Error {
    match error.code() {
        ErrorCode::ProcessNotFound => {
            let command = error.facts().get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
            not_found(agent, &command).caused_by(error)
        }
        _ => error,
    }
}

/// The means that hold the session to its level.
pub(crate) struct Held {
    /// Modes for the session, of which the first that the agent offers is set. Empty: the mode is left as it starts.
    pub(crate) modes: Vec<String>,
    /// The environment that the agent and its mode need. The caller's own changes win, except over the variables that hold the
    /// level.
    pub(super) launch: Launch,
}

impl Held {
    pub(crate) fn of(
        agent: Provider,
        mode: &Mode,
        request: &OpenRequest,
        folder: &Path,
    ) -> Result<Held, Error> {
        let servers = &request.servers;
        let request = &request.agent;
        let mut launch = Launch::new(&Wanted { folder: folder.to_path_buf(), ..Wanted::default() });
        for (name, value) in agent.protocol().set.iter().chain(mode.set) {
            launch.set(name, value);
        }
        if agent.protocol().replaced.needs_dollar() {
            launch.hold(DOLLAR.0, DOLLAR.1);
        }
        launch.args(mode.args.iter().copied());
        let programs: Vec<McpServer> = servers
            .iter()
            .filter(|server| agent.protocol().is_by_command_line(server))
            .map(|server| request.shown_server(server))
            .collect();
        if let Some(give) = agent.protocol().give_programs.filter(|_| !programs.is_empty()) {
            mcp_server::check(servers)?;
            give(&programs, &mut launch);
        }
        let mut modes = Vec::new();
        if !mode.id.is_empty() {
            modes.push(mode.id.to_owned());
        }
        let Some(make) = mode.made else { return Ok(Held { modes, launch }) };
        let name = folder.file_name().map_or("sheepdog".into(), |name| name.to_string_lossy().into_owned());
        let (variable, value) = make(&|variable| request.variable(variable), &name)?;
        launch.hold(variable, &value);
        modes.insert(0, name);
        Ok(Held { modes, launch })
    }

    /// The program's arguments, after those that lead to it.
    pub(crate) fn arguments(&self, request: &OpenRequest) -> Vec<String> {
        let protocol = request.agent.provider.protocol();
        let model = protocol.model_flag.zip(request.agent.model.as_deref());
        let args = protocol.args.iter().copied().chain(model.into_iter().flat_map(<[&str; 2]>::from));
        args.map(str::to_owned).chain(self.launch.args.iter().cloned()).collect()
    }
}

/// The error of an agent that does not offer, or does not take, the mode of this level.
pub(crate) fn unenforced(agent: Provider, level: Level, why: &str) -> Error {
    let (name, level, advice) = (agent.as_str(), level.as_str(), agent.protocol().advice());
    Error::invalid_option("permission", format!("{name} cannot enforce {level:?}: {why}{advice}"))
}

/// The error of an agent that can't be held to this level, with the ways out.
pub(crate) fn unheld(agent: Provider, level: Level, is_sandboxed: bool) -> Error {
    if agent.is_other() {
        let problem = format!(
            "{} can't be held to {:?}: nothing shows that it asks before it acts. Add `sandbox: \"workspace\"`, so that the kernel holds it; name its mode that does so in `provider.modes`; or ask for \"auto\" by name",
            agent.as_str(),
            level.as_str()
        );
        return Error::invalid_option("permission", problem);
    }
    let held = mode_of(agent, level, false).is_some();
    let (place, why) = match is_sandboxed && held {
        true => (
            " in a sandbox",
            "its own sandbox can't be put up in another one. Leave `sandbox` out, or run turns (`harness.run`), which can be held there",
        ),
        false if mode_of(agent, Level::Ask, is_sandboxed).is_some() => (
            "",
            "its questions don't name the file that it writes. Ask for \"ask\", with `onPermission`, or for \"plan\"",
        ),
        false if is_sandboxed => (
            "",
            "it never asks. Ask for \"auto\" by name: the sandbox holds it then, or run turns (`harness.run`)",
        ),
        false => (
            "",
            "it never asks. Ask for \"auto\" by name, with `sandbox: \"workspace\"` so that the kernel holds it, or run turns (`harness.run`)",
        ),
    };
    let problem =
        format!("{} can't be held to {:?} over this protocol{place}: {why}", agent.as_str(), level.as_str());
    Error::invalid_option("permission", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pi_never_asks_and_so_holds_one_level() {
        let pi = Provider::Pi;
        assert!(
            [Level::Plan, Level::Edit, Level::Ask].iter().all(|level| mode_of(pi, *level, false).is_none())
        );
    }

    #[test]
    fn a_mode_that_does_more_than_edit_is_not_taken_for_it() {
        for provider in [Provider::ClaudeCode, Provider::Qwen] {
            assert_eq!(mode_of(provider, Level::Edit, false).map(|mode| mode.id), Some("default"));
        }
    }

    #[test]
    fn codex_holds_no_level_of_a_session_within_a_sandbox() {
        let codex = Provider::Codex;
        let id = |level, is_sandboxed| mode_of(codex, level, is_sandboxed).map(|mode| mode.id);
        assert_eq!(id(Level::Edit, false), Some("workspace-write"));
        for level in [Level::Plan, Level::Edit, Level::Ask] {
            assert_eq!(
                id(level, true),
                None,
                "its own sandbox fails inside of ours, and the network is open"
            );
        }
        assert_eq!(id(Level::Auto, true), Some("agent-full-access"));
    }
}
