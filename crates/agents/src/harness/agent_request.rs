//! Options that every agent request has, for a turn or a session: provider, program, folder, environment, level, sandbox, limits.

pub(crate) mod depth;
pub(crate) mod room;

use super::event::Usage;
use super::folder::sandbox::AgentSandbox;
use super::level::Level;
use super::mcp_server::McpServer;
use super::provider::Provider;
use super::provider::hosts::needed_hosts;
use crate::harness::agent_request::depth::depth_below;
use crate::harness::budget::Budget;
use crate::harness::budget::allowance::Allowance;
use crate::harness::clock::ClockLimits;
use crate::harness::launch::package::Program;
use crate::harness::launch::{Launch, NESTING, path_text};
use crate::harness::spending::{Accounting, Caps, METERED, Prices, Spent};
use ground::error::Error;
use ground::os::{
    DEFAULT_PATH, HostFolder, PATH_SEPARATOR, TEMPORARY_VARIABLES, is_same_variable, native_variable,
};
use ground::record::{Place, RecordSpec};
use ground::redaction::{Redactor, Secret};
use process::{
    Containment, Environment, Hosts, Metering, Network, ProcessSpec, Sandbox, contained_folders, secrets_of,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An agent as it is asked for; a turn's request and a session's have one.
#[derive(Clone)]
pub struct AgentRequest {
    pub provider: Provider,
    /// The program, with leading arguments; the provider's own on PATH when `None`.
    pub binary: Option<Vec<String>>,
    /// The working directory; the host's own when `None`.
    pub cwd: Option<PathBuf>,
    /// The host's working folder at the time of the call, in which an agent without `cwd` begins.
    pub folder: HostFolder,
    /// `folder` is the agent's own, held open by the caller, and `cwd` its name: nothing is started by that name.
    pub holds_cwd: bool,
    pub environment: Environment,
    pub kill_grace: Duration,
    pub containment: Containment,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    /// Permission level: the actions that the agent may take without asking.
    pub level: Level,
    /// The sandbox that the kernel enforces on the agent and on all that it starts.
    pub sandbox: Option<AgentSandbox>,
    /// The session to go on with.
    pub resume: Option<String>,
    /// Time limits. In a session `start` bounds every request except prompts; the other limits are the defaults of its prompts.
    pub limits: ClockLimits,
    /// The caller's secrets.
    pub redact: Redactor,
    /// The folder in which the turn or session creates the folder of its record.
    pub record: Option<PathBuf>,
    pub max_record_bytes: Option<u64>,
    /// Display name.
    pub name: Option<String>,
    /// Limits on tokens and cost: of a turn over all its attempts, or of a whole session.
    pub caps: Caps,
    /// Token prices, with which `caps` and `budget` compute the cost.
    pub prices: Option<Prices>,
    /// A budget that is shared with other turns and sessions.
    pub budget: Option<Budget>,
}

impl AgentRequest {
    pub fn new(provider: Provider) -> Self {
        AgentRequest {
            provider,
            binary: None,
            cwd: None,
            folder: HostFolder::default(),
            holds_cwd: false,
            environment: Environment::default(),
            kill_grace: ProcessSpec::KILL_GRACE,
            containment: Containment::Auto,
            model: None,
            system_prompt: None,
            level: Level::Edit,
            sandbox: None,
            resume: None,
            limits: ClockLimits::default(),
            redact: Redactor::default(),
            record: None,
            max_record_bytes: None,
            name: None,
            caps: Caps::default(),
            prices: None,
            budget: None,
        }
    }

    /// Name or path of its program.
    pub(crate) fn command(&self) -> &str {
        let given = self.binary.as_ref().and_then(|words| words.first());
        given.map_or(self.provider.descriptor().program, String::as_str)
    }

    /// The depth of this agent among agents that start agents, or `AGENT_DEPTH`.
    pub(crate) fn depth(&self) -> Result<u64, Error> {
        depth_below(self.provider, self.variable(depth::VARIABLE).as_deref())
    }

    /// The budgets of this request. `INVALID_OPTION` when an agent with this kind of accounting can't be held to them.
    pub(crate) fn allowance(&self, accounting: Accounting) -> Result<Allowance, Error> {
        let accounting = match self.metering(accounting) {
            Metering::Everything => METERED,
            Metering::Nothing | Metering::Own => accounting,
        };
        Allowance::new(self.provider, accounting, self.caps, self.prices, self.budget.as_ref())
    }

    /// Whose answers are metered. `accounting`: what the CLI itself reports.
    fn metering(&self, accounting: Accounting) -> Metering {
        let is_unlimited = self.caps.is_empty() && self.budget.is_none();
        match accounting {
            _ if is_unlimited || self.hosts().is_none() => Metering::Nothing,
            // Nothing else would count what a host that is not known as a model's answers.
            Accounting::Nothing => Metering::Everything,
            Accounting::Tokens(_) | Accounting::TokensAndMoney(_) => Metering::Own,
        }
    }

    /// Returns the `INVALID_OPTION` of a value that is wrong in every request. Starts nothing.
    pub fn check_values(&self) -> Result<(), Error> {
        self.hosts().and_then(|hosts| hosts.egress().problem()).map_or(Ok(()), Err)
    }

    /// The hosts that its sandbox lists.
    fn hosts(&self) -> Option<&Hosts> {
        match &self.sandbox {
            Some(AgentSandbox::Custom(Sandbox { network: Network::Hosts(hosts), .. })) => Some(hosts),
            _ => None,
        }
    }

    /// A text for the CLI, without the secrets of its sandbox.
    pub(crate) fn shown(&self, text: String) -> String {
        match self.hosts() {
            Some(hosts) => hosts.hidden(text),
            None => text,
        }
    }

    /// A server for the CLI, which writes into files and sends what is in it.
    pub(crate) fn shown_server(&self, server: &McpServer) -> McpServer {
        server.map_texts(|text| self.shown(text.to_owned()))
    }

    /// The sandbox with the hosts that this CLI needs. `accounting`: what the CLI itself reports.
    pub(crate) fn own_sandbox(&self, accounting: Accounting) -> Option<AgentSandbox> {
        let mut sandbox = self.sandbox.clone()?;
        if let (Some(hosts), AgentSandbox::Custom(sandbox)) = (self.hosts(), &mut sandbox) {
            let needed = needed_hosts(self.provider, |name| self.variable(name));
            if let Some(hosts) = hosts.egress().for_agent(&needed, self.metering(accounting)) {
                sandbox.network = Network::Hosts(hosts);
            }
        }
        Some(sandbox)
    }

    /// Subtracts the usage `before` from the request's own caps. `AGENT_BUDGET` when that leaves nothing.
    pub fn deduct(&mut self, before: &Usage) -> Result<(), Error> {
        let accounting = self.provider.descriptor().accounting;
        let spent = Spent::of(before, self.prices.as_ref(), accounting);
        if let Some(cap) = self.caps.used_up(spent) {
            return Err(self.caps.error(cap, spent, false, |figures| {
                let cap = cap.as_str();
                format!("the attempts so far used {figures}: nothing of {cap} is left for another attempt")
            }));
        }
        let (max_tokens, max_cost_usd) = self.caps.left(spent);
        self.caps = Caps { max_tokens, max_cost_usd };
        Ok(())
    }

    /// A variable of its environment, by its name on Unix, before the provider's own additions.
    pub fn variable(&self, name: &str) -> Option<String> {
        let name = native_variable(name);
        let is_it = |known: &str| is_same_variable(OsStr::new(known), name);
        if let Some((_, value)) = self.environment.changes.iter().rev().find(|(changed, _)| is_it(changed)) {
            return value.clone();
        }
        self.environment.base.variable(name)
    }

    /// `PATH` of the agent's environment, or the system's usual folders.
    pub(crate) fn search_path(&self) -> String {
        self.variable("PATH").unwrap_or_else(|| DEFAULT_PATH.to_owned())
    }

    /// Folders in which the run's own folder may be made. There are several: a sandboxed program that can write the first of them
    /// can't write the others.
    pub(crate) fn folder_places(&self) -> Vec<PathBuf> {
        let home = self.variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let runtime = self.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let shared = ["/dev/shm", "/var/tmp"].map(PathBuf::from);
        let temporary = self.variable("TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        [temporary].into_iter().chain(runtime).chain(home).chain(shared).collect()
    }

    /// Folders that the agent's sandbox lets it write; empty without a sandbox.
    pub(crate) fn sandboxed_folders(&self) -> Vec<PathBuf> {
        if self.sandbox.is_some() { self.contained() } else { Vec::new() }
    }

    /// Folders that the agent's program, or a program in an earlier sandbox, can write.
    pub(crate) fn contained(&self) -> Vec<PathBuf> {
        let sandbox = match &self.sandbox {
            Some(AgentSandbox::Custom(sandbox)) => Some(sandbox),
            Some(AgentSandbox::Workspace) | None => None,
        };
        contained_folders(self.cwd.as_deref(), sandbox)
    }

    /// The agent's environment with the variables that the provider, its program and the run's own folder need. The request's own
    /// changes win.
    pub(crate) fn environment_for(&self, launch: &Launch, program: &Program, folder: &Path) -> Environment {
        let given = &self.environment.changes;
        let is_given =
            |name: &str| given.iter().any(|(changed, _)| is_same_variable(OsStr::new(changed), name));
        let switches = if self.level == Level::Auto { &[] } else { self.provider.descriptor().switches };
        let removed = NESTING.iter().chain(switches).filter(|name| !is_given(name));
        let set = launch.set.iter().chain(&program.environment).filter(|(name, _)| !is_given(name));
        let mut changes: Vec<(String, Option<String>)> =
            removed.map(|name| ((*name).to_owned(), None)).collect();
        changes.extend(set.map(|(name, value)| (name.clone(), Some(value.clone()))));
        changes.extend(given.iter().cloned());
        changes.extend(launch.held.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
        changes.extend(TEMPORARY_VARIABLES.iter().map(|name| ((*name).to_owned(), Some(path_text(folder)))));
        if let Ok(depth) = self.depth() {
            changes.push((depth::VARIABLE.to_owned(), Some(depth.to_string())));
        }
        changes.extend(self.unproxied());
        if let Some(folder) = &program.path_before {
            let path = self.variable("PATH").map(|path| format!("{folder}{PATH_SEPARATOR}{path}"));
            changes.push(("PATH".to_owned(), Some(path.unwrap_or_else(|| folder.clone()))));
        }
        Environment { base: self.environment.base.clone(), changes }
    }

    /// Behind a proxy, the addresses that an agent has to reach without it: those of the tools that we serve.
    fn unproxied(&self) -> Vec<(String, Option<String>)> {
        const PROXIES: [&str; 6] =
            ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        const OWN: [&str; 3] = ["127.0.0.1", "localhost", "::1"];
        let is_set = |name: &&str| self.variable(name).is_some_and(|value| !value.is_empty());
        if !PROXIES.iter().any(is_set) {
            return Vec::new();
        }
        let names = ["NO_PROXY", "no_proxy"];
        let given: Vec<String> = names.iter().filter_map(|name| self.variable(name)).collect();
        let listed = |name: &str| {
            let own = self.variable(name).filter(|text| !text.trim().is_empty());
            let text = own
                .or_else(|| given.iter().find(|text| !text.trim().is_empty()).cloned())
                .unwrap_or_default();
            let known: Vec<&str> = text.split([',', ' ']).filter(|host| !host.is_empty()).collect();
            let missing = OWN.iter().filter(|host| !known.contains(host)).copied();
            if known.contains(&"*") {
                text.clone()
            } else {
                known.iter().copied().chain(missing).collect::<Vec<_>>().join(",")
            }
        };
        names.iter().map(|name| ((*name).to_owned(), Some(listed(name)))).collect()
    }

    /// A process of this agent. Its turns have the clocks that bound it.
    pub(crate) fn process(
        &self,
        program: &Program,
        args: Vec<String>,
        launch: &Launch,
        scratch: &Path,
    ) -> ProcessSpec {
        let mut spec = ProcessSpec::new(&program.command, program.arguments.iter().cloned().chain(args));
        spec.cwd = self.cwd.clone().filter(|_| !self.holds_cwd);
        spec.folder.clone_from(&self.folder);
        spec.idle_timeout = None;
        spec.timeout = None;
        spec.kill_grace = self.kill_grace;
        spec.containment = self.containment;
        spec.sandbox.clone_from(&launch.sandbox);
        spec.environment = self.environment_for(launch, program, scratch);
        spec
    }

    /// The record that is wanted of it, without its secrets: what the caller names, and what the environment's names call one.
    pub(crate) fn record_spec(&self) -> Option<RecordSpec> {
        let mut spec = RecordSpec::new(Place::Below(self.record.clone()?));
        spec.contained = self.contained();
        spec.secrets = secrets_of(&self.environment);
        let hidden = self.hosts().map(|hosts| hosts.egress().secrets()).unwrap_or_default();
        spec.secrets.extend(hidden.into_iter().map(Secret::new));
        spec.secrets.extend(self.redact.secrets());
        spec.max_bytes = self.max_record_bytes.unwrap_or(spec.max_bytes);
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;
    use process::{Egress, EnvironmentBase, Gate, Traffic};

    /// Knows one secret.
    #[derive(Debug)]
    struct OneSecret;

    impl Egress for OneSecret {
        fn open(
            &self,
            _: &Traffic,
            _: &[(std::ffi::OsString, std::ffi::OsString)],
        ) -> ground::error::Result<Gate> {
            Err(Error::new(ErrorCode::ProcessSpawnFailed, "no program is started here"))
        }

        fn local_ports(&self) -> Vec<u16> {
            Vec::new()
        }

        fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
            let text = std::str::from_utf8(text).ok()?;
            text.contains("REAL").then(|| text.replace("REAL", "****").into_bytes())
        }
    }

    #[test]
    fn a_server_of_tools_is_handed_over_without_the_secrets_of_the_sandbox() {
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let program = |key: &str| McpServer::Program {
            name: "files".into(),
            command: "serve".into(),
            args: vec!["--token".into(), key.into()],
            env: pair("TOKEN", key),
        };
        let http = |key: &str| McpServer::Http {
            name: "web".into(),
            url: format!("https://a.example/?key={key}"),
            headers: pair("authorization", &format!("Bearer {key}")),
        };
        let mut agent = AgentRequest::new(Provider::Codex);
        assert_eq!(agent.shown_server(&program("REAL")), program("REAL"));
        let network = Network::Hosts(Hosts::by(OneSecret));
        agent.sandbox = Some(AgentSandbox::Custom(Sandbox { network, ..Sandbox::default() }));
        assert_eq!(agent.shown_server(&program("REAL")), program("****"));
        assert_eq!(agent.shown_server(&http("REAL")), http("****"));
        assert_eq!(agent.shown("no key".into()), "no key");
    }

    #[test]
    fn variables_of_an_agent_around_it_are_removed_and_switches_too() {
        for provider in Provider::ALL {
            for level in [Level::Edit, Level::Auto] {
                let mut request = AgentRequest::new(provider);
                request.level = level;
                let made =
                    request.environment_for(&Launch::default(), &Program::default(), Path::new("/run"));
                let is_removed = |name: &str| made.changes.contains(&(name.to_owned(), None));
                assert!(is_removed("CLAUDECODE"));
                for switch in provider.descriptor().switches {
                    assert_eq!(is_removed(switch), level == Level::Edit, "{provider:?}: {switch}");
                }
            }
        }
    }

    #[test]
    fn behind_a_proxy_the_loopback_is_reached_without_it() {
        let environment = |changes: &[(&str, &str)]| {
            let mut request = AgentRequest::new(Provider::Gemini);
            request.environment.base = EnvironmentBase::Empty;
            request.environment.changes =
                changes.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
            let made = request.environment_for(&Launch::default(), &Program::default(), Path::new("/run"));
            let last = |name: &str| {
                made.changes
                    .iter()
                    .rev()
                    .find(|(known, _)| known == name)
                    .and_then(|(_, value)| value.clone())
            };
            [last("NO_PROXY"), last("no_proxy")].map(Option::unwrap_or_default)
        };
        let own = "127.0.0.1,localhost,::1";
        let both = |text: &str| [text.to_owned(), text.to_owned()];
        assert_eq!(environment(&[]), both(""));
        assert_eq!(environment(&[("HTTPS_PROXY", "")]), both(""));
        for proxy in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            assert_eq!(environment(&[(proxy, "http://proxy:1")]), both(own), "{proxy}");
        }
        let with = |name: &str, value: &str| environment(&[("HTTPS_PROXY", "http://proxy:1"), (name, value)]);
        assert_eq!(with("NO_PROXY", "internal"), both(&format!("internal,{own}")));
        assert_eq!(with("no_proxy", "a, localhost"), both("a,localhost,127.0.0.1,::1"));
        assert_eq!(with("NO_PROXY", "*"), both("*"));
    }
}
