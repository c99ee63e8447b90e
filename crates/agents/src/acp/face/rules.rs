//! PURE: what the level and the sandbox allow a client and its agent, whatever they say.

use super::message::{Message, Shape};
use crate::acp::opening::program::unenforced;
use crate::acp::opening::request::OpenRequest;
use crate::acp::opening::settings::Settings;
use crate::acp::question::policy::Policy;
use crate::harness::clock::ClockLimits;
use crate::harness::provider::restraint::mode_of;
use crate::harness::{AgentSandbox, Level, Provider};
use ground::error::Error;
use ground::json::{self, object::put};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The level, and all that holds it.
pub(super) struct Rules {
    pub(super) agent: Provider,
    pub(super) level: Level,
    pub(super) policy: Policy,
    /// Wanted modes, of which the first that the agent offers is set. Empty: any mode will do.
    pub(super) modes: Vec<String>,
    /// Modes that the client may choose.
    allowed: Vec<String>,
    /// Facts about the mode in a request that begins a session.
    meta: Value,
    /// The folder outside of which no session may be, where it really is; `None`: anywhere.
    workspace: Option<PathBuf>,
    is_sandboxed: bool,
    pub(super) cwd: PathBuf,
    /// The model that is set in each session.
    pub(super) model: Option<String>,
    pub(super) limits: ClockLimits,
    pub(super) kill_grace: Duration,
}

/// Methods that are requests: as notifications they would get by the rules for requests.
const REQUESTS: [&str; 3] = ["initialize", "authenticate", "logout"];

/// Requests that an agent answers at once.
const QUICK: [&str; 10] = [
    "initialize",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/fork",
    "session/set_mode",
    "session/set_config_option",
];

/// The place in `_meta` of claude-code's own options, and the ones that let it do no more than its level. All else that a client
/// writes there (tools that need no question, arguments, settings, hooks, variables) would be above it.
const OPTIONS: &str = "/claudeCode/options";
const NARROWING: [&str; 10] = [
    "disallowedTools",
    "effort",
    "fallbackModel",
    "maxBudgetUsd",
    "maxThinkingTokens",
    "maxTurns",
    "model",
    "outputFormat",
    "promptSuggestions",
    "thinking",
];

/// Methods of a session that need not be open here.
const ELSEWHERE: [&str; 6] =
    ["session/new", "session/load", "session/resume", "session/fork", "session/list", "session/delete"];

impl Rules {
    /// `modes`: wanted modes, of which the first that the agent offers is set. `meta`: facts about the mode in a request that
    /// begins a session, as JSON. `real`: where the folder `cwd` really is.
    pub(super) fn new(request: &OpenRequest, modes: &[String], meta: &str, cwd: &Path, real: &Path) -> Rules {
        let (agent, level) = (request.agent.provider, request.agent.level);
        let is_sandboxed = request.agent.sandbox.is_some();
        let strictest_first = [Level::Plan, Level::Ask, Level::Edit, Level::Auto];
        let below = strictest_first.iter().position(|known| *known == level).unwrap_or(0);
        let named = strictest_first[..=below].iter().filter_map(|level| mode_of(agent, *level, is_sandboxed));
        let mut allowed: Vec<String> =
            named.map(|mode| mode.id.to_owned()).filter(|id| !id.is_empty()).collect();
        let others = modes.iter().filter(|mode| !allowed.contains(mode)).cloned();
        allowed.extend(others.collect::<Vec<_>>());
        let has_workspace = request.agent.sandbox.as_ref().is_some_and(AgentSandbox::is_workspace);
        Rules {
            agent,
            level,
            policy: request.policy.clone(),
            modes: modes.to_vec(),
            allowed,
            meta: json::read_own(meta).unwrap_or_default(),
            workspace: has_workspace.then(|| real.to_owned()),
            is_sandboxed,
            cwd: cwd.to_owned(),
            model: request.agent.model.clone().filter(|_| agent.protocol().model_flag.is_none()),
            limits: request.agent.limits,
            kill_grace: request.agent.kill_grace,
        }
    }

    /// Whether the client's choice of a mode is bounded.
    fn holds_modes(&self) -> bool {
        self.level != Level::Auto && !self.modes.is_empty()
    }

    /// Whether the agent may be in this mode.
    pub(super) fn allows_mode(&self, mode: &str) -> bool {
        !self.holds_modes() || self.allowed.iter().any(|allowed| allowed == mode)
    }

    /// When the agent counts as silent if it does not answer this request; `None`: it may take its time.
    pub(super) fn limit_of(&self, method: &str) -> Option<Duration> {
        self.limits.start.filter(|_| QUICK.contains(&method))
    }

    /// Why a message of the client has no meaning in this shape.
    pub(super) fn misshapen(message: &Message) -> Option<Error> {
        let (method, params) = (message.method(), message.params());
        let is_known = REQUESTS.contains(&method) || method.starts_with("session/");
        let is_cancel = method == "session/cancel";
        match message.shape {
            Shape::Notice if is_known && !is_cancel => {
                return Some(Error::invalid_option("id", format!("{method} is a request, so it needs one")));
            }
            Shape::Request if is_cancel => {
                return Some(Error::invalid_option("id", "session/cancel is a notification, so it has none"));
            }
            _ => {}
        }
        if is_known && !params.is_object() && !params.is_null() {
            return Some(Error::invalid_option("params", "expected an object"));
        }
        match message.session() {
            Err(()) => Some(Error::invalid_option("sessionId", "expected a string")),
            Ok(None)
                if method.starts_with("session/") && !matches!(method, "session/new" | "session/list") =>
            {
                Some(Error::invalid_option("sessionId", "a session is needed"))
            }
            Ok(_) => None,
        }
    }

    pub(super) fn needs_open_session(method: &str) -> bool {
        !ELSEWHERE.contains(&method)
    }

    /// The folders of a request that begins a session, if they have to be looked at.
    pub(super) fn folders(&self, params: &Value) -> Result<Vec<PathBuf>, Error> {
        let mut folders = Vec::new();
        if !params["additionalDirectories"].is_array() && !params["additionalDirectories"].is_null() {
            return Err(Error::invalid_option("additionalDirectories", "expected a list of paths"));
        }
        let others = params["additionalDirectories"].as_array().into_iter().flatten();
        let named = others.map(|folder| ("additionalDirectories", folder));
        for (path, folder) in [("cwd", &params["cwd"])].into_iter().chain(named) {
            match folder {
                Value::String(folder) => folders.push(self.cwd.join(folder)),
                Value::Null => {}
                _ => return Err(Error::invalid_option(path, "expected a path")),
            }
        }
        let is_bounded = self.workspace.is_some();
        Ok(if is_bounded { folders } else { Vec::new() })
    }

    /// `real`: where each folder leads; `None` if that is not known.
    pub(super) fn check_folders(&self, named: &[PathBuf], real: &[Option<PathBuf>]) -> Result<(), Error> {
        let Some(workspace) = &self.workspace else { return Ok(()) };
        let is_within = |real: Option<&Option<PathBuf>>| {
            real.and_then(Option::as_ref).is_some_and(|real| real.starts_with(workspace))
        };
        match named.iter().enumerate().find(|(index, _)| !is_within(real.get(*index))) {
            None => Ok(()),
            Some((_, folder)) => {
                let problem = format!(
                    "{} is outside of {}, the folder of the sandbox: start `sheepdog acp` in the project's folder, or with --cwd",
                    folder.display(),
                    workspace.display()
                );
                Err(Error::invalid_option("cwd", problem))
            }
        }
    }

    /// The words about servers of tools that are programs, to an agent that starts none of them.
    pub(super) fn lost_programs(&self, params: &Value) -> Option<String> {
        let is_program = |server: &&Value| server["command"].is_string();
        let programs = params["mcpServers"].as_array()?.iter().filter(is_program);
        let names: Vec<&str> = programs.filter_map(|server| server["name"].as_str()).collect();
        if names.is_empty() || self.agent.protocol().give_programs.is_none() {
            return None;
        }
        let (name, list) = (self.agent.as_str(), names.join(", "));
        Some(format!(
            "sheepdog: {name} starts no MCP server that a client names as a program: {list}. Give {name} the server by its own configuration, or by a URL\n"
        ))
    }

    /// Adds the facts about the level to a request that begins a session.
    pub(super) fn add_meta(&self, message: &mut Message) {
        if self.level == Level::Auto && !self.meta.is_object() {
            return;
        }
        let Some(params) = message.params_mut().filter(|params| params.is_object()) else { return };
        // An agent may be claude-code under another name.
        let options = params.get_mut("_meta").and_then(|meta| meta.pointer_mut(OPTIONS));
        if let Some(options) = options.and_then(Value::as_object_mut) {
            options.retain(|name, _| NARROWING.contains(&name.as_str()));
        }
        if self.meta.is_object() {
            let mut meta = params["_meta"].clone();
            join(&mut meta, &self.meta);
            put(params, "_meta", meta);
        }
    }

    /// The mode that the client chooses, by a request of its own or by the option that is the mode.
    ///
    /// # Errors
    /// It is above the level, or nobody can say whether it is.
    pub(super) fn chosen_mode(
        &self,
        method: &str,
        params: &Value,
        settings: &Settings,
    ) -> Result<Option<String>, Error> {
        let mode = match method {
            "session/set_mode" => params["modeId"].as_str(),
            "session/set_config_option" => {
                let option = params["configId"].as_str().unwrap_or_default();
                if self.holds_modes() && !settings.options.iter().any(|known| known.id == option) {
                    let problem = "the agent has told no option of this name";
                    return Err(Error::invalid_option("configId", problem));
                }
                if !settings.is_mode_option(option) {
                    return Ok(None);
                }
                params["value"].as_str()
            }
            _ => return Ok(None),
        };
        match mode {
            Some(mode) if self.allows_mode(mode) => Ok(Some(mode.to_owned())),
            None if !self.holds_modes() => Ok(None),
            _ => {
                let problem = format!(
                    "the mode {:?} may do more than {:?}: choose one of {}, or start `sheepdog acp` with another --permission",
                    mode.unwrap_or_default(),
                    self.level.as_str(),
                    self.allowed.join(", ")
                );
                Err(Error::invalid_option("permission", problem))
            }
        }
    }

    /// Whether the agent may have the client do this: read or write a file, or run a command. The client does it outside of the
    /// sandbox, and no level of the agent's holds it there.
    pub(super) fn may_ask(&self, method: &str) -> bool {
        let is_file = method.starts_with("fs/");
        if !is_file && !method.starts_with("terminal/") {
            return true;
        }
        !self.is_sandboxed && (self.level != Level::Plan || method == "fs/read_text_file")
    }

    /// Whether the client is to read or write a file, or to run a command.
    pub(super) fn acts(method: &str) -> bool {
        method.starts_with("fs/") || method == "terminal/create"
    }

    /// Whether an agent's message with this method has to be a request.
    pub(super) fn asks(method: &str) -> bool {
        method.starts_with("fs/")
            || method.starts_with("terminal/")
            || matches!(method, "session/request_permission" | "elicitation/create")
    }

    /// Takes out of `initialize` what the client offers and the agent may not ask for.
    pub(super) fn limit_capabilities(&self, params: &mut Value) {
        for name in ["clientCapabilities", "capabilities"] {
            let Some(offered) = params.get_mut(name) else { continue };
            if offered.get("terminal").is_some() && !self.may_ask("terminal/create") {
                put(offered, "terminal", false);
            }
            let Some(files) = offered.get_mut("fs") else { continue };
            for (field, method) in
                [("readTextFile", "fs/read_text_file"), ("writeTextFile", "fs/write_text_file")]
            {
                if files.get(field).is_some() && !self.may_ask(method) {
                    put(files, field, false);
                }
            }
        }
    }

    pub(super) fn unheld(&self, why: &str) -> Error {
        unenforced(self.agent, self.level, why)
    }
}

/// Adds the fields of `from`, which win, to those of `into`; lists become one.
fn join(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                join(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from.iter().cloned()),
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(level: Level, is_sandboxed: bool) -> Rules {
        let mut request = OpenRequest::new(Provider::Gemini);
        request.agent.level = level;
        let cwd = Path::new("/named");
        let mut rules = Rules::new(&request, &[], "", cwd, Path::new("/real"));
        rules.is_sandboxed = is_sandboxed;
        rules.workspace = is_sandboxed.then(|| PathBuf::from("/real"));
        rules
    }

    #[test]
    fn the_levels_meta_wins_over_the_clients_and_keeps_the_rest() {
        let mut meta = json!({"a":{"kept":1,"changed":1}});
        join(&mut meta, &json!({"a":{"changed":2},"b":[3]}));
        assert_eq!(meta, json!({"a":{"kept":1,"changed":2},"b":[3]}));
    }

    #[test]
    fn a_client_cannot_take_claude_above_the_level_by_its_options() {
        let meta = r#"{"claudeCode":{"options":{"allowDangerouslySkipPermissions":false,"disallowedTools":["Bash"]}}}"#;
        let mut rules = rules(Level::Plan, false);
        rules.meta = json::read_own(meta).unwrap();
        let sent = json!({"id":1,"method":"session/new","params":{"_meta":{"x":1,"claudeCode":{"y":2,"options":{
            "allowedTools":["Bash"],"extraArgs":{"dangerously-skip-permissions":null},"settings":"/s","hooks":{},"env":{"A":"b"},
            "permissionMode":"bypassPermissions","allowDangerouslySkipPermissions":true,"disallowedTools":["WebFetch"],"maxTurns":3
        }}}}});
        let mut message = Message::read(sent.to_string().as_bytes()).unwrap();
        rules.add_meta(&mut message);
        // claude-code has no facts of its own under another name.
        let mut named = Message::read(sent.to_string().as_bytes()).unwrap();
        rules.meta = Value::Null;
        rules.add_meta(&mut named);
        let options = json!({"disallowedTools":["WebFetch"],"maxTurns":3});
        assert_eq!(named.params()["_meta"], json!({"x":1,"claudeCode":{"y":2,"options":options}}));
        let options = json!({
            "allowDangerouslySkipPermissions":false,"disallowedTools":["WebFetch","Bash"],"maxTurns":3
        });
        let expected = json!({"x":1,"claudeCode":{"y":2,"options":options}});
        assert_eq!(message.params()["_meta"], expected);
    }

    #[test]
    fn files_and_commands_of_the_client_are_offered_as_the_level_and_the_sandbox_allow() {
        let methods = ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "_x"];
        for (level, is_sandboxed, expected) in [
            (Level::Plan, false, [true, false, false, false, true]),
            (Level::Ask, false, [true; 5]),
            (Level::Auto, false, [true; 5]),
            (Level::Auto, true, [false, false, false, false, true]),
        ] {
            let rules = rules(level, is_sandboxed);
            assert_eq!(methods.map(|method| rules.may_ask(method)), expected, "{level:?} {is_sandboxed}");
            let offered =
                json!({"fs":{"readTextFile":true,"writeTextFile":true,"x":1},"terminal":true,"y":2});
            let mut params = json!({ "clientCapabilities": offered });
            rules.limit_capabilities(&mut params);
            let [read, write, terminal, ..] = expected;
            let expected =
                json!({"fs":{"readTextFile":read,"writeTextFile":write,"x":1},"terminal":terminal,"y":2});
            assert_eq!(params["clientCapabilities"], expected);
        }
    }

    #[test]
    fn folders_are_compared_where_they_really_are() {
        let rules = rules(Level::Auto, true);
        let params = json!({"cwd":"/named/a","additionalDirectories":["/etc"]});
        let named = rules.folders(&params).unwrap();
        assert_eq!(named, [Path::new("/named/a"), Path::new("/etc")]);
        let real = |paths: [&str; 2]| paths.map(|path| Some(PathBuf::from(path))).to_vec();
        assert!(rules.check_folders(&named, &real(["/real/a", "/real"])).is_ok());
        assert!(rules.check_folders(&named, &real(["/real/a", "/etc"])).is_err());
        assert!(rules.check_folders(&named, &real(["/named/a", "/real"])).is_err());
        assert!(rules.check_folders(&named, &[Some("/real".into()), None]).is_err(), "not known");
        assert!(rules.folders(&json!({"cwd":["/etc"]})).is_err());
    }

    #[test]
    fn servers_that_an_agent_does_not_start_are_told() {
        let servers = json!([{"name":"far","type":"http","url":"https://x"},{"name":"near","command":"own","args":[],"env":[]}]);
        let params = json!({"cwd":"/work","mcpServers":servers});
        for (provider, is_told) in [(Provider::Copilot, true), (Provider::Gemini, false)] {
            let request = OpenRequest::new(provider);
            let rules = Rules::new(&request, &[], "", Path::new("/work"), Path::new("/work"));
            let told = rules.lost_programs(&params);
            assert_eq!(told.is_some(), is_told, "{provider:?}");
            assert!(told.is_none_or(|text| text.contains("near") && !text.contains("far")));
        }
    }

    #[test]
    fn a_message_with_a_rule_is_refused_in_another_shape() {
        let misshapen = |text: &str| Rules::misshapen(&Message::read(text.as_bytes()).unwrap()).is_some();
        for (line, expected) in [
            (r#"{"method":"session/prompt","params":{"sessionId":"s"}}"#, true),
            (r#"{"method":"session/set_mode","params":{"sessionId":"s"}}"#, true),
            (r#"{"method":"initialize","params":{}}"#, true),
            (r#"{"id":1,"method":"session/prompt","params":["s"]}"#, true),
            (r#"{"id":1,"method":"session/prompt","params":{"sessionId":["s"]}}"#, true),
            (r#"{"id":1,"method":"session/prompt","params":{}}"#, true),
            (r#"{"id":1,"method":"_x","params":{"sessionId":7}}"#, true),
            (r#"{"id":1,"method":"session/cancel","params":{"sessionId":"s"}}"#, true),
            (r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#, false),
            (r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#, false),
            (r#"{"id":1,"method":"session/new"}"#, false),
            (r#"{"id":1,"method":"_x","params":[1]}"#, false),
            (r#"{"method":"_x","params":[1]}"#, false),
        ] {
            assert_eq!(misshapen(line), expected, "{line}");
        }
    }
}
