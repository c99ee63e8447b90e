//! Checks the installed agents: finds each CLI, and starts it to get its version.

use super::install::{NOR_AROUND, advice_of_packages, find, here, locate, packages_around};
use crate::harness::agent_request::AgentRequest;
use crate::harness::evidence::failure::without_colors;
use crate::harness::folder::RunFolder;
use crate::harness::launch::package::Program;
use crate::harness::launch::{Launch, Wanted};
use crate::harness::provider::hosts::needed_hosts;
use crate::model::AbortSwitch;
use ground::error::{Error, ErrorCode};
use ground::os::PATH_SEPARATOR;
use process::{self, ProcessSpec, RunResult, StopReason};
use serde::Serialize;
use std::time::Duration;

/// A CLI that does not tell its version by then does not start. The slowest takes 3 s, when it unpacks itself at its first start.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// A probe has nothing to put in order when it is no longer wanted.
pub(crate) const KILL_GRACE: Duration = Duration::from_millis(200);
/// Starts at a time: each is a runtime of its own.
const AT_ONCE: usize = 2;

/// The state of one agent's installation.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub provider: &'static str,
    pub found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The command that installs it.
    pub install: &'static str,
    /// The hosts that it needs, for `sandbox.network.hosts`.
    pub hosts: Vec<String>,
}

/// Looks for the program of each agent and asks it for its version. `AGENT_ABORTED` when the switch is thrown, after what was
/// started is gone.
pub async fn examine(agents: &[AgentRequest], switch: &AbortSwitch) -> Result<Vec<Finding>, Error> {
    examine_each(agents, switch, |agent| examine_one(agent, switch.clone().cancelled_owned())).await
}

/// Runs a check of each agent, a few at a time. `AGENT_ABORTED` when the switch is thrown, after what was started is gone.
pub(crate) async fn examine_each<T, F>(
    agents: &[AgentRequest],
    switch: &AbortSwitch,
    examine: impl Fn(AgentRequest) -> F,
) -> Result<Vec<T>, Error>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut findings = Vec::new();
    for few in agents.chunks(AT_ONCE) {
        let started: Vec<_> = few.iter().map(|agent| ground::task::spawn(examine(agent.clone()))).collect();
        for finding in started {
            // A task that was cut off belongs to an addon that is shutting down.
            findings.extend(finding.await.ok());
        }
        if switch.is_cancelled() {
            return Err(Error::new(ErrorCode::AgentAborted, "the check of the agents was aborted"));
        }
    }
    Ok(findings)
}

/// The problem of a program that is not there.
pub(crate) fn not_on_path(program: &str) -> String {
    format!("{program} was not found on PATH")
}

async fn examine_one(agent: AgentRequest, aborted: impl Future<Output = ()>) -> Finding {
    let provider = agent.provider;
    let mut finding = Finding {
        provider: provider.as_str(),
        found: false,
        path: None,
        version: None,
        problem: None,
        install: provider.descriptor().install,
        hosts: needed_hosts(provider, |name| agent.variable(name)),
    };
    let mut path = agent.search_path();
    let command = agent.command().to_owned();
    if let (true, Some(cwd)) = (provider.is_other(), here(agent.cwd.as_deref())) {
        // Its turns are sessions, which look there as well.
        path = format!("{path}{PATH_SEPARATOR}{}", packages_around(&cwd));
    }
    let Some(file) = find(&command, &path) else {
        let more = match provider.is_other() {
            true => NOR_AROUND.to_owned(),
            false => advice_of_packages(&command, agent.cwd.as_deref()),
        };
        finding.problem = Some(not_on_path(&command) + &more);
        return finding;
    };
    finding.found = true;
    finding.path = Some(file.to_string_lossy().into_owned());
    // The option that prints a version is unknown for other agents. Their greeting tells whether they start.
    let Some(program) = locate(provider, None, &path).filter(|_| !provider.is_other()) else {
        return finding;
    };
    match version_of(&agent, &program, aborted).await {
        Ok(version) => finding.version = Some(version),
        Err(problem) => finding.problem = Some(problem),
    }
    finding
}

async fn version_of(
    agent: &AgentRequest,
    program: &Program,
    aborted: impl Future<Output = ()>,
) -> Result<String, String> {
    let places = agent.folder_places();
    let folder = ground::os::blocking(move || RunFolder::create(&places, &[])).await;
    let folder = folder.map_err(|error| error.to_string())?.map_err(|error| error.message().to_owned())?;
    let mut spec =
        ProcessSpec::new(&program.command, program.arguments.iter().cloned().chain(["--version".to_owned()]));
    spec.timeout = Some(VERSION_TIMEOUT);
    spec.idle_timeout = None;
    spec.kill_grace = KILL_GRACE;
    spec.max_output_bytes = 64 << 10;
    let wanted =
        Wanted { prompt: "version".to_owned(), folder: folder.path().to_owned(), ..Wanted::default() };
    let launch = (agent.provider.descriptor().launch)(&wanted).unwrap_or_else(|_| Launch::default());
    spec.environment = agent.environment_for(&launch, program, folder.scratch());
    let process = process::spawn(spec);
    tokio::select! {
        _ = process.outcome() => {}
        () = aborted => process.stop(StopReason::Aborted),
    }
    let outcome = process.outcome().await;
    folder.remove().await;
    match (&outcome.error, &outcome.result) {
        (Some(error), _) if error.code() == ErrorCode::ProcessTimedOut => Err(format!(
            "it did not print its version within {} s: run `{} --version` by hand to see what it waits for",
            VERSION_TIMEOUT.as_secs(),
            agent.provider.descriptor().program
        )),
        (Some(error), _) => Err(format!("it does not start: {}", error.message())),
        (None, Some(result)) => version_in(result),
        (None, None) => Err("it does not start".to_owned()),
    }
}

fn version_in(result: &RunResult) -> Result<String, String> {
    let words = without_colors(&format!("{}\n{}", result.stdout, result.stderr));
    if result.exit_code != Some(0) {
        let end = result
            .exit_code
            .map_or_else(|| result.signal.clone().unwrap_or_default(), |code| format!("exit code {code}"));
        let line = words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        return Err(format!("it does not start ({end}): {line}"));
    }
    words
        .split(|character: char| character.is_whitespace() || matches!(character, '(' | ')' | ','))
        .map(|word| word.trim_start_matches('v').trim_end_matches('.'))
        .find(|word| is_version(word))
        .map(str::to_owned)
        .ok_or_else(|| "it starts but prints no version".to_owned())
}

fn is_version(word: &str) -> bool {
    let core = word.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() >= 3
        && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_other_numbers() {
        for (word, is) in [
            ("1.0.102", true),
            ("0.15.10-beta.1", true),
            ("20.19", false),
            ("1.2.x", false),
            ("a.b.c", false),
        ] {
            assert_eq!(is_version(word), is, "{word}");
        }
    }
}
