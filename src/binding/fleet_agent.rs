//! Turns a fleet's job into a turn of an agent: the options of the job over those of its worker. JavaScript takes no part in it.

use super::agent::{AgentSpec, AgentTraitsSpec, to_provider};
use super::harness::TurnSpec;
use super::process::environment_base;
use super::sandbox::AgentSandboxSpec;
use agents::harness::observer::OnTurn;
use agents::harness::{AgentRequest, Budget, ConcurrencyLimit, TurnRequest};
use fleet::{JobFault, JobFuture, JobRun, run_turn};
use ground::error::Error;
use process::EnvironmentBase;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The agents of a worker. Clones are the same agents.
#[derive(Clone)]
pub(super) struct FleetAgent {
    shared: Arc<Shared>,
}

struct Shared {
    defaults: TurnSpec,
    /// The environment of the process when the worker started.
    environment: EnvironmentBase,
    limits: Vec<ConcurrencyLimit>,
    budget: Option<Budget>,
    on_turn: OnTurn,
}

/// The options of a job, as they travel.
#[derive(Deserialize)]
struct JobOptions {
    #[serde(flatten)]
    own: AgentSpec,
    #[serde(flatten)]
    turn: TurnSpec,
    /// The agent, if it was submitted with its command.
    agent: Option<AgentProgram>,
    #[serde(rename = "inheritEnv")]
    inherit_env: Option<Inherit>,
    /// Options that no field above has taken.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// The command and the traits of an agent that has no name here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentProgram {
    name: String,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    state: Vec<String>,
    #[serde(default)]
    modes: ProgramModes,
    #[serde(default, rename = "reportsUsage")]
    reports_usage: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProgramModes {
    plan: String,
    edit: String,
    ask: String,
    auto: String,
}

impl AgentProgram {
    fn traits(&self) -> Result<AgentTraitsSpec, Error> {
        let is_place =
            |path: &&String| (path.starts_with('/') || path.starts_with("~/")) && !path.contains('|');
        if let Some(path) = self.state.iter().find(|path| !is_place(path)) {
            let problem = format!("expected an absolute path, or one that begins with \"~/\", got {path:?}");
            return Err(Error::invalid_option("provider.state", problem));
        }
        let ProgramModes { plan, edit, ask, auto } = &self.modes;
        Ok(AgentTraitsSpec {
            // A slash at its end would mean a folder that is only created.
            state: self.state.iter().map(|path| path.trim_end_matches('/').to_owned()).collect(),
            modes: [plan, edit, ask, auto].map(Clone::clone).into(),
            reports_usage: self.reports_usage,
        })
    }

    /// Its program and its own variables, which all others override.
    fn apply(self, agent: &mut AgentRequest) -> Result<(), Error> {
        if agent.binary.is_some() {
            let problem = format!("is given twice: {} has its program in `provider.command`", self.name);
            return Err(Error::invalid_option("binary", problem));
        }
        agent.binary = Some([self.command].into_iter().chain(self.args).collect());
        let variables = self.env.into_iter().map(|(name, value)| (name, Some(value)));
        agent.environment.changes.splice(0..0, variables);
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Inherit {
    Everything(bool),
    Names(Vec<String>),
}

impl FleetAgent {
    /// `defaults` apply to every agent, or only to the one that they name. Reads the environment of the process.
    pub(super) fn new(
        mut defaults: TurnSpec,
        limits: Vec<ConcurrencyLimit>,
        budget: Option<Budget>,
        on_turn: OnTurn,
    ) -> Self {
        let environment = environment_base(defaults.agent.inherited.take(), None);
        FleetAgent { shared: Arc::new(Shared { defaults, environment, limits, budget, on_turn }) }
    }

    pub(super) fn run(&self, run: JobRun) -> JobFuture {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut request = shared.request(&run).map_err(|error| JobFault::from(&error))?;
            request.agent.budget = shared.budget.clone();
            run_turn(run, request, shared.limits.clone(), Some(&shared.on_turn)).await.map(Some)
        })
    }
}

impl Shared {
    fn request(&self, run: &JobRun) -> Result<TurnRequest, Error> {
        let spec = &run.spec;
        let cwd = match &spec.git {
            Some(_) => Some(run.cwd()),
            None => spec.cwd.as_ref().map(PathBuf::from),
        };
        self.request_of(spec.provider.as_deref().unwrap_or_default(), &spec.prompt, cwd, &spec.options)
    }

    /// The request of a job with these options, which were checked where it was submitted.
    fn request_of(
        &self,
        provider: &str,
        prompt: &str,
        cwd: Option<PathBuf>,
        options: &Map<String, Value>,
    ) -> Result<TurnRequest, Error> {
        let JobOptions { mut own, turn, agent, inherit_env, unknown } =
            JobOptions::deserialize(Value::Object(options.clone()))
                .map_err(|error| Error::invalid_option("options", error))?;
        if let Some(name) = unknown.keys().next() {
            return Err(Error::invalid_option(
                name,
                "this worker knows no such option: it may be older than the submitter",
            ));
        }
        let of = &self.defaults.agent.provider;
        // This worker's own command comes first: it knows where the program is on this machine.
        let program = agent.filter(|_| of != provider);
        let traits = match &program {
            Some(program) => Some(program.traits()?),
            None => self.defaults.agent.traits.clone().filter(|_| of == provider),
        };
        let name = program.as_ref().map_or(provider, |program| &program.name);
        let mut request = TurnRequest::of(AgentRequest::new(to_provider(name.to_owned(), traits)?), prompt);
        let mut names = None;
        if of.is_empty() || of == provider {
            names = self.defaults.agent.inherit_only.clone();
            // The hosts are the job's, and the secrets are the worker's, which no job holds.
            if let Some(network) = own.sandbox.as_mut().and_then(AgentSandboxSpec::hosts_mut) {
                let mine = self.defaults.agent.sandbox.clone();
                network.secrets = mine.and_then(|mut mine| mine.hosts_mut()?.secrets.take());
            }
            self.defaults.agent.clone().apply(&mut request.agent);
            self.defaults.clone().apply(&mut request)?;
        }
        if let Some(program) = program {
            program.apply(&mut request.agent)?;
        }
        match inherit_env {
            None => {}
            Some(Inherit::Everything(true)) => names = None,
            Some(Inherit::Everything(false)) => names = Some(Vec::new()),
            Some(Inherit::Names(only)) => names = Some(only),
        }
        request.agent.environment.base = self.environment.only(names.as_deref());
        // The worker's `allow` is for "edit": a job at another level does not get it.
        if own.permission.is_some_and(|level| !level.is_edit()) && turn.allow.is_none() {
            request.allow.clear();
        }
        own.apply(&mut request.agent);
        turn.apply(&mut request)?;
        let folder = request.agent.cwd.take();
        request.agent.cwd = cwd.or(folder).or_else(|| std::env::current_dir().ok());
        request.agent.record = request.agent.record.take().map(absolute);
        Ok(request)
    }
}

fn absolute(folder: PathBuf) -> PathBuf {
    std::path::absolute(Path::new(&folder)).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::secret_spec::SecretSpec;
    use agents::harness::{AgentSandbox, Level, McpServer, request::Background};
    use process::{Containment, Network, Sandbox};
    use serde_json::json;
    use std::time::Duration;

    fn agent(defaults: TurnSpec) -> Shared {
        let variable = |name: &str| (name.into(), "1".into());
        Shared {
            defaults,
            environment: EnvironmentBase::Variables(vec![variable("A"), variable("B")]),
            limits: Vec::new(),
            budget: None,
            on_turn: Arc::new(|_, _| Box::pin(async { Vec::new() })),
        }
    }

    fn request(shared: &Shared, options: Value) -> Result<TurnRequest, Error> {
        let Value::Object(options) = options else { panic!("an object") };
        shared.request_of("codex", "hi", Some("/job".into()), &options)
    }

    fn inherited(request: &TurnRequest) -> Vec<String> {
        let EnvironmentBase::Variables(variables) = &request.agent.environment.base else {
            panic!("variables")
        };
        variables.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_option_of_a_job_reaches_its_request() {
        let request = request(
            &agent(TurnSpec::default()),
            json!({
                "env": { "X": "1", "B": null }, "inheritEnv": ["A"], "killGraceMs": 5, "containment": "group",
                "maxRecordBytes": 7, "record": "/records", "name": "n", "model": "m", "systemPrompt": "s", "cliTools": ["t"],
                "maxTurns": 3, "permission": "plan", "allow": ["npm *"], "sandbox": "workspace",
                "maxTokens": 9, "maxCostUsd": 2, "prices": { "inputPerMillion": 1, "outputPerMillion": 2 },
                "background": "leave", "schema": { "type": "object" }, "resume": "r", "startTimeoutMs": 1, "idleTimeoutMs": 2,
                "toolIdleTimeoutMs": 0, "timeoutMs": -1,
                "retry": { "attempts": 2, "baseDelayMs": 1, "maxDelayMs": 2, "afterTools": true, "waitForResetMs": 3 },
                "images": ["a.png"], "mcpServers": [{ "name": "w", "url": "http://127.0.0.1:1", "headers": { "H": "v" } }],
                "extraArgs": ["-x"], "redact": ["secret"],
            }),
        );
        let request = request.unwrap();
        let agent = &request.agent;
        assert_eq!(agent.cwd.as_deref(), Some(Path::new("/job")));
        assert_eq!(agent.environment.changes, [("X".into(), Some("1".into())), ("B".into(), None)]);
        assert_eq!(inherited(&request), ["A"]);
        assert_eq!((agent.kill_grace, agent.containment), (Duration::from_millis(5), Containment::Group));
        assert_eq!((agent.max_record_bytes, agent.record.as_deref()), (Some(7), Some(Path::new("/records"))));
        assert_eq!((agent.name.as_deref(), agent.model.as_deref()), (Some("n"), Some("m")));
        assert_eq!((agent.system_prompt.as_deref(), agent.resume.as_deref()), (Some("s"), Some("r")));
        assert_eq!(
            (agent.level, agent.caps.max_tokens, agent.caps.max_cost_usd),
            (Level::Plan, Some(9), Some(2.0))
        );
        assert!(matches!(agent.sandbox, Some(AgentSandbox::Workspace)));
        assert_eq!(agent.prices.as_ref().map(|prices| prices.output_per_million), Some(2.0));
        let limits = &agent.limits;
        assert_eq!(
            (limits.start, limits.idle),
            (Some(Duration::from_millis(1)), Some(Duration::from_millis(2)))
        );
        assert_eq!((limits.tool_idle, limits.total), (None, Some(Duration::ZERO)));
        assert_eq!(request.max_turns, Some(3));
        assert_eq!((request.cli_tools, request.allow), (Some(vec!["t".into()]), vec!["npm *".to_owned()]));
        assert_eq!(request.background, Background::Leave);
        assert_eq!(request.schema.unwrap().source(), &json!({ "type": "object" }));
        assert_eq!((request.retry.attempts, request.wait_for_reset), (2, Duration::from_millis(3)));
        assert!(request.retry_after_tools);
        assert_eq!((request.images, request.extra_args), (vec!["a.png".into()], vec!["-x".to_owned()]));
        assert!(matches!(&request.mcp_servers[..], [McpServer::Http { headers, .. }] if headers.len() == 1));
        assert!(agent.redact.secrets().map(|secret| secret.expose().to_owned()).eq(["secret"]));
    }

    #[test]
    fn a_job_goes_over_the_defaults_of_its_agent() {
        let defaults = |provider: &str| TurnSpec {
            agent: AgentSpec {
                provider: provider.into(),
                model: Some("default".into()),
                timeout_ms: ground::json::typed(json!(5)).unwrap(),
                inherit_only: Some(vec!["B".into()]),
                ..AgentSpec::default()
            },
            allow: Some(vec!["git *".into()]),
            ..TurnSpec::default()
        };
        let plain = request(&agent(defaults("codex")), json!({})).unwrap();
        assert_eq!(
            (plain.agent.model.as_deref(), inherited(&plain)),
            (Some("default"), vec!["B".to_owned()])
        );
        assert_eq!(plain.allow, ["git *"]);
        let given =
            json!({ "model": "given", "inheritEnv": true, "permission": "auto", "timeoutMs": f64::MAX });
        let given = request(&agent(defaults("")), given).unwrap();
        assert_eq!((given.agent.model.as_deref(), inherited(&given).len()), (Some("given"), 2));
        assert_eq!((given.agent.limits.total, given.allow.len()), (None, 0));
        let other = request(&agent(defaults("gemini")), json!({})).unwrap();
        assert_eq!((other.agent.model.as_deref(), inherited(&other).len()), (None, 2));
    }

    #[test]
    fn secrets_are_the_workers_and_reach_a_job_that_names_hosts() {
        let network = |value: Value| -> Option<AgentSandboxSpec> {
            Some(ground::json::typed(json!({ "network": value })).unwrap())
        };
        let worker = |provider: &str| {
            let mut sandbox = network(json!({ "hosts": ["worker.example"] }));
            let secret = SecretSpec {
                value: "real-0123456789".into(),
                hosts: vec!["api.example".into()],
                placeholder: None,
            };
            sandbox.as_mut().unwrap().hosts_mut().unwrap().secrets =
                Some([("KEY".to_owned(), secret)].into());
            agent(TurnSpec {
                agent: AgentSpec { provider: provider.into(), sandbox, ..AgentSpec::default() },
                ..TurnSpec::default()
            })
        };
        let values = |request: TurnRequest| match request.agent.sandbox {
            Some(AgentSandbox::Custom(Sandbox { network: Network::Hosts(hosts), .. })) => {
                Some(hosts.egress().secrets())
            }
            _ => None,
        };
        let hosts = || json!({ "sandbox": { "network": { "hosts": ["job.example"] } } });
        let real = || Some(vec!["real-0123456789".to_owned()]);
        for (provider, options, expected) in [
            ("codex", hosts(), real()),
            ("", hosts(), real()),
            // Nothing of the job: the worker's own sandbox.
            ("codex", json!({}), real()),
            // The worker is another agent.
            ("gemini", hosts(), Some(Vec::new())),
            // The job has no list of hosts.
            ("codex", json!({ "sandbox": { "network": "none" } }), None),
            ("codex", json!({ "sandbox": { "network": { "ports": [443] } } }), None),
            ("codex", json!({ "sandbox": "workspace" }), None),
        ] {
            let request = request(&worker(provider), options.clone()).unwrap();
            assert_eq!(values(request), expected, "{provider} {options}");
        }
        // A job brings none, whatever it holds.
        let own = json!({ "sandbox": { "network": { "hosts": [], "secrets": [] } } });
        assert!(request(&worker("codex"), own).is_err());
    }

    #[test]
    fn an_agent_comes_with_its_command_unless_the_worker_knows_it() {
        let program = || json!({ "name": "goose", "command": "goose", "args": ["acp"], "env": { "G": "1" }, "state": ["~/.goose/"] });
        let of = |shared: &Shared, options: Value| {
            let Value::Object(options) = options else { panic!("an object") };
            shared.request_of("goose", "hi", None, &options)
        };
        let given =
            of(&agent(TurnSpec::default()), json!({ "agent": program(), "env": { "X": "2" } })).unwrap();
        assert_eq!(
            (given.agent.provider.as_str(), given.agent.binary),
            ("goose", Some(vec!["goose".into(), "acp".into()]))
        );
        let names: Vec<&str> =
            given.agent.environment.changes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["G", "X"]);
        let known = || AgentSpec {
            provider: "goose".into(),
            traits: Some(AgentTraitsSpec { state: Vec::new(), modes: Vec::new(), reports_usage: false }),
            binary: Some(vec!["/opt/goose".into()]),
            ..AgentSpec::default()
        };
        let mine = agent(TurnSpec { agent: known(), ..TurnSpec::default() });
        assert_eq!(
            of(&mine, json!({ "agent": program() })).unwrap().agent.binary,
            Some(vec!["/opt/goose".into()])
        );
        let twice = agent(TurnSpec {
            agent: AgentSpec { provider: String::new(), ..known() },
            ..TurnSpec::default()
        });
        let problem =
            |shared: &Shared, options| of(shared, options).map(|_| ()).unwrap_err().message().to_owned();
        assert!(problem(&twice, json!({ "agent": program() })).starts_with("binary: is given twice"));
        assert!(problem(&agent(TurnSpec::default()), json!({})).starts_with("provider: "));
        let mut astray = program();
        astray["state"] = json!(["state"]);
        assert!(
            problem(&agent(TurnSpec::default()), json!({ "agent": astray })).starts_with("provider.state: ")
        );
    }

    #[test]
    fn what_a_worker_does_not_know_is_refused_by_its_name() {
        let problem = |options| request(&agent(TurnSpec::default()), options).map(|_| ()).unwrap_err();
        assert!(
            problem(json!({ "probeMs": 1 }))
                .message()
                .starts_with("probeMs: this worker knows no such option")
        );
        for options in [
            json!({ "binary": ["sh"] }),
            json!({ "provider": "pi" }),
            json!({ "sandbox": { "wirte": [] } }),
            json!({ "retry": { "attemps": 2 } }),
            json!({ "env": { "A=B": "1" } }),
            json!({ "timeoutMs": "5s" }),
            json!({ "permission": "everything" }),
        ] {
            assert_eq!(problem(options).code(), ground::error::ErrorCode::InvalidOption);
        }
    }
}
