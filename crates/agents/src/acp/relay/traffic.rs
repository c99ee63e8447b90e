//! PURE: what happens to each message between a client and its agent.
//!
//! | message | what happens |
//! |---|---|
//! | any other, and what is no message | it passes as it is |
//! | client: `session/new`, `load`, `resume`, `fork` | the level's `_meta` is added; a folder outside of the sandbox is refused |
//! | agent: the answer to it | it waits until the level's mode and the model are set, and tells the mode that is set |
//! | client: `session/set_mode`, and the option that is the mode | a mode above the level is refused |
//! | client: `session/prompt` | its clock begins; refused when the budget is used up |
//! | agent: `session/request_permission` | answered where the rules or the level decide; else it passes |
//! | agent: the end of a turn that a clock or a budget ended | the client gets the error instead |
//!
//! An agent that has not ended its turn `kill_grace` after the cancel is killed.

use super::talk::Talk;
use crate::acp::opening_fault::is_opening;
use crate::acp::permission::{Ruling, rule};
use crate::acp::place::Places;
use crate::acp::policy::Policy;
use crate::acp::question::{Answer, Question, outcome};
use crate::acp::request::OpenRequest;
use crate::acp::settings::set_option;
use crate::acp::turn_state::Version;
use crate::acp::update::{ToolUpdate, TurnEnd, Update};
use crate::harness::level::restraint::mode_of;
use crate::harness::limit::allowance::{Accounts, Allowance};
use crate::harness::turn::clock::{ClockLimits, Sample};
use crate::harness::{AgentEvent, AgentSandbox, Level, Provider, Usage};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::json::{self, object::put};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Something to do.
#[derive(Debug)]
pub(super) enum Out {
    /// A line for the agent, without its end.
    Agent(Bytes),
    /// A line for the client, without its end.
    Client(Bytes),
    Record(Vec<AgentEvent>),
    /// A line for the log of the client, beside what the agent itself writes there.
    Log(String),
    Kill(Error),
}

/// A request of the client that the agent has not answered.
struct Pending {
    method: String,
    session: Option<String>,
    cwd: Option<PathBuf>,
    /// When the agent counts as silent; `None`: it may take its time.
    until: Option<Instant>,
}

/// An answer that waits until the session is as its level and its options want it.
struct Opening {
    /// The answer for the client.
    answer: Value,
    session: String,
    steps: VecDeque<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    /// The first of these modes that the agent offers.
    Mode(Vec<String>),
    Model(String),
}

/// The level, and all that holds it.
struct Hold {
    level: Level,
    policy: Policy,
    /// Wanted modes, of which the first that the agent offers is set. Empty: any mode will do.
    modes: Vec<String>,
    /// Modes that the client may choose.
    allowed: Vec<String>,
    meta: Value,
    /// The folder outside of which no session may be; `None`: anywhere.
    workspace: Option<PathBuf>,
    cwd: PathBuf,
}

pub(super) struct Traffic {
    agent: Provider,
    hold: Hold,
    model: Option<String>,
    limits: ClockLimits,
    kill_grace: Duration,
    version: Version,
    pending: HashMap<String, Pending>,
    /// Ids of requests that were refused in the agent's place, because it did not answer in time.
    refused: HashSet<String>,
    openings: HashMap<String, Opening>,
    talks: HashMap<String, Talk>,
    /// Requests of this relay so far.
    own: u64,
    allowance: Allowance,
    accounts: Accounts,
}

/// Requests that an agent answers at once.
const QUICK: [&str; 9] = [
    "initialize",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/fork",
    "session/set_mode",
    "session/set_config_option",
];
/// The id of a request of this relay begins so.
const OWN: &str = "sheepdog/";

impl Traffic {
    /// `modes`: wanted modes, of which the first that the agent offers is set. `meta`: facts about the mode in a request that
    /// begins a session, as JSON.
    pub(super) fn new(
        request: &OpenRequest,
        modes: &[String],
        meta: &str,
        cwd: &Path,
        allowance: Allowance,
    ) -> Traffic {
        let (agent, level) = (request.agent.provider, request.agent.level);
        let is_sandboxed = request.agent.sandbox.is_some();
        let strictest_first = [Level::Plan, Level::Ask, Level::Edit, Level::Auto];
        let below = strictest_first.iter().position(|known| *known == level).unwrap_or(0);
        let named = strictest_first[..=below].iter().filter_map(|level| mode_of(agent, *level, is_sandboxed));
        let mut allowed: Vec<String> =
            named.map(|mode| mode.id.to_owned()).filter(|id| !id.is_empty()).collect();
        allowed.extend(modes.iter().cloned());
        let workspace = request.agent.sandbox.as_ref().is_some_and(AgentSandbox::is_workspace);
        let accounts = allowance.open();
        Traffic {
            agent,
            hold: Hold {
                level,
                policy: request.policy.clone(),
                modes: modes.to_vec(),
                allowed,
                meta: json::read_own(meta).unwrap_or_default(),
                workspace: workspace.then(|| cwd.to_owned()),
                cwd: cwd.to_owned(),
            },
            model: request.agent.model.clone().filter(|_| agent.protocol().model_flag.is_none()),
            limits: request.agent.limits,
            kill_grace: request.agent.kill_grace,
            version: Version::One,
            pending: HashMap::new(),
            refused: HashSet::new(),
            openings: HashMap::new(),
            talks: HashMap::new(),
            own: 0,
            allowance,
            accounts,
        }
    }

    pub(super) fn agent_name(&self) -> &'static str {
        self.agent.as_str()
    }

    pub(super) fn is_prompting(&self) -> bool {
        self.talks.values().any(|talk| talk.prompt.as_ref().is_some_and(|prompt| prompt.stop.is_none()))
    }

    // The client.

    pub(super) fn on_client(&mut self, line: Bytes, now: Instant) -> Vec<Out> {
        let Some(mut message) = json::read::<Value>(&line).ok().filter(Value::is_object) else {
            return vec![Out::Client(line_of(&unread()))];
        };
        let method = message["method"].as_str().map(str::to_owned);
        let Some(method) = method else { return self.on_client_answer(line, &message, now) };
        let id = message.get("id").map(Value::to_string);
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let Some(id) = id else {
            // Without an id it would pass by the level, the clocks and the budget, and an agent may act on it all the same.
            let is_request = method == "session/prompt" || QUICK.contains(&method.as_str());
            let problem = Error::invalid_option("id", format!("{method} is a request, which has an id"));
            return vec![if is_request { refuse(&Value::Null, &problem) } else { Out::Agent(line) }];
        };
        let mut is_changed = false;
        let mut cwd = None;
        let mut outs = Vec::new();
        if is_opening(&method) {
            outs.extend(self.lost_programs(&message["params"]).map(Out::Log));
            let folder = message["params"]["cwd"].as_str().map(PathBuf::from);
            if let Some(refusal) = self.refused_folder(folder.as_deref()) {
                return vec![refuse(&message["id"], &refusal)];
            }
            cwd = folder.or_else(|| Some(self.hold.cwd.clone()));
            if self.hold.meta.is_object() && message["params"].is_object() {
                let mut meta = message["params"]["_meta"].clone();
                join(&mut meta, &self.hold.meta);
                if let Some(params) = message.get_mut("params") {
                    put(params, "_meta", meta);
                }
                is_changed = true;
            }
        }
        if let Some(refusal) = self.refused_mode(&method, &message["params"], session.as_deref()) {
            return vec![refuse(&message["id"], &refusal)];
        }
        if method == "session/prompt" {
            if let Err(error) = self.allowance.check() {
                return vec![refuse(&message["id"], &error)];
            }
            let limits = self.limits;
            let text = prompt_text(&message["params"]["prompt"]);
            outs.push(Out::Record(vec![AgentEvent::Prompt { text }]));
            let cwd = self.hold.cwd.clone();
            let session = session.clone().unwrap_or_default();
            let talk = self.talks.entry(session).or_insert_with(|| Talk::new(cwd, &Value::Null));
            // Another prompt while one is open: the agent decides what becomes of it, and the clock of the first goes on.
            if talk.prompt.is_none() {
                talk.begin(id.clone(), limits, now);
            }
        }
        let until = QUICK.contains(&method.as_str()).then(|| now.checked_add(self.limits.start?)).flatten();
        self.pending.insert(id, Pending { method, session, cwd, until });
        outs.push(Out::Agent(if is_changed { line_of(&message) } else { line }));
        outs
    }

    fn on_client_answer(&mut self, line: Bytes, message: &Value, now: Instant) -> Vec<Out> {
        let id = message["id"].to_string();
        for talk in self.talks.values_mut() {
            if talk.asked.remove(&id) {
                talk.hold(now);
                break;
            }
        }
        vec![Out::Agent(line)]
    }

    /// A line about servers of tools that are programs, for an agent that starts none of them.
    fn lost_programs(&self, params: &Value) -> Option<String> {
        let is_program = |server: &&Value| server["command"].is_string();
        let programs = params["mcpServers"].as_array()?.iter().filter(is_program);
        let names: Vec<&str> = programs.filter_map(|server| server["name"].as_str()).collect();
        if names.is_empty() || self.agent.protocol().give_programs.is_none() {
            return None;
        }
        let (name, list) = (self.agent.as_str(), names.join(", "));
        Some(format!(
            "sheepdog: {name} starts no MCP server that a client names as a program: {list}. Give {name} the server by its own configuration, or by a URL"
        ))
    }

    fn refused_folder(&self, cwd: Option<&Path>) -> Option<Error> {
        let workspace = self.hold.workspace.as_ref()?;
        let cwd = cwd?;
        if cwd.starts_with(workspace) {
            return None;
        }
        let problem = format!(
            "{} is outside of {}, the folder of the sandbox: start `sheepdog acp` in the project's folder, or with --cwd",
            cwd.display(),
            workspace.display()
        );
        Some(Error::invalid_option("cwd", problem))
    }

    fn refused_mode(&self, method: &str, params: &Value, session: Option<&str>) -> Option<Error> {
        if self.hold.level == Level::Auto || self.hold.modes.is_empty() {
            return None;
        }
        let mode = match method {
            "session/set_mode" => &params["modeId"],
            "session/set_config_option" => {
                let option = params["configId"].as_str();
                let settings = session.and_then(|session| self.talks.get(session)).map(|talk| &talk.settings);
                // An option of which nothing is known may be the mode.
                let may_be_mode =
                    option.zip(settings).is_none_or(|(id, settings)| settings.is_mode_option(id));
                may_be_mode.then(|| &params["value"])?
            }
            _ => return None,
        };
        if self.hold.allowed.iter().any(|allowed| mode == allowed) {
            return None;
        }
        let problem = format!(
            "the mode {mode} may do more than {:?}: choose one of {}, or start `sheepdog acp` with another --permission",
            self.hold.level.as_str(),
            self.hold.allowed.join(", ")
        );
        Some(Error::invalid_option("permission", problem))
    }

    // The agent.

    pub(super) fn on_agent(&mut self, line: Bytes, now: Instant) -> Vec<Out> {
        // A line that cannot be judged is not passed on.
        let Some(message) = json::read::<Value>(&line).ok().filter(Value::is_object) else {
            return Vec::new();
        };
        match (message["method"].as_str(), message.get("id")) {
            (Some("session/update"), None) => self.on_update(line, &message, now),
            (Some("session/request_permission"), Some(_)) => self.on_question(line, &message, now),
            (Some(_), Some(id)) => {
                // The agent waits for the client: for a file, a terminal, a form.
                let session = message["params"]["sessionId"].as_str().unwrap_or_default();
                if let Some(talk) = self.talks.get_mut(session) {
                    talk.asked.insert(id.to_string());
                    talk.heard(now);
                    talk.hold(now);
                }
                vec![Out::Client(line)]
            }
            (Some(_), None) => vec![Out::Client(line)],
            (None, _) => self.on_agent_answer(line, &message, now),
        }
    }

    fn on_update(&mut self, line: Bytes, message: &Value, now: Instant) -> Vec<Out> {
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or_default();
        let counts_on = self.agent.protocol().counts_on;
        for pending in self.pending.values_mut().filter(|pending| pending.session.as_deref() == Some(session))
        {
            // It repeats a long conversation.
            pending.until = pending.until.map(|until| until.max(now + self.limits.start.unwrap_or_default()));
        }
        let Some(talk) = self.talks.get_mut(session) else { return vec![Out::Client(line)] };
        let seen = talk.on_update(Update::read(&params["update"]), counts_on);
        talk.heard(now);
        let mut outs = Vec::new();
        if !seen.events.is_empty() {
            outs.push(Out::Record(seen.events));
        }
        let mut told = line;
        if seen.has_ended
            && let Some(error) = talk.finish().and_then(|prompt| prompt.stop)
        {
            let mut message = message.clone();
            let update = json!({
                "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": fault_of(&error),
            });
            if let Some(params) = message.get_mut("params") {
                put(params, "update", update);
            }
            told = Bytes::from(message.to_string());
        }
        outs.push(Out::Client(told));
        if seen.used.is_some() {
            outs.extend(self.charge(now));
        }
        outs
    }

    fn on_question(&mut self, line: Bytes, message: &Value, now: Instant) -> Vec<Out> {
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or_default();
        let id = message["id"].to_string();
        let known = |call: &str| -> Option<ToolUpdate> { self.talks.get(session)?.book.known(call) };
        let question = Question::read(&id, params, known);
        let cwd = self.talks.get(session).map_or(&self.hold.cwd, |talk| &talk.cwd);
        let places = Places::look(&question, &self.hold.policy, cwd);
        let told = match rule(&self.hold.policy, self.hold.level, &question, &places) {
            // The client decides if the agent offers no option that allows it once.
            Ruling::Allow if question.choose(&Answer::Allow).is_some() => Some(Answer::Allow),
            Ruling::Reject(_) => Some(Answer::Reject),
            Ruling::Allow | Ruling::Open => None,
        };
        if let Some(talk) = self.talks.get_mut(session) {
            talk.heard(now);
            match told {
                None => {
                    talk.asked.insert(id);
                    talk.hold(now);
                }
                Some(Answer::Reject) => talk.book.on_refused(&question.tool.id),
                Some(_) => {}
            }
        }
        let Some(told) = told else { return vec![Out::Client(line)] };
        let result = outcome(question.choose(&told));
        let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let event = AgentEvent::Permission { request: json!(question), answer: told.to_json(), by: "policy" };
        vec![Out::Record(vec![event]), Out::Agent(line_of(&reply))]
    }

    fn on_agent_answer(&mut self, line: Bytes, message: &Value, now: Instant) -> Vec<Out> {
        if let Some(opening) = message["id"].as_str().and_then(|id| self.openings.remove(id)) {
            return self.on_step(opening, message);
        }
        let id = message["id"].to_string();
        let Some(pending) = self.pending.remove(&id) else {
            // The client was told already that a late answer will not come.
            return if self.refused.remove(&id) { Vec::new() } else { vec![Out::Client(line)] };
        };
        if pending.method == "initialize"
            && let Ok(version) = Version::of(&message["result"])
        {
            self.version = version;
        }
        if is_opening(&pending.method) && message["result"].is_object() {
            return self.on_opened(pending, message.clone());
        }
        let session = pending.session.unwrap_or_default();
        let version = self.version;
        let counts_on = self.agent.protocol().counts_on;
        let Some(talk) = self.talks.get_mut(&session).filter(|_| pending.method == "session/prompt") else {
            if pending.method == "session/close" {
                self.talks.remove(&session);
            } else if let Some(talk) = self.talks.get_mut(&session) {
                talk.settings.on_options(&message["result"]["configOptions"]);
            }
            return vec![Out::Client(line)];
        };
        let is_refused = message.get("error").is_some();
        if !talk.ends_by_answer(version, &id) && !is_refused {
            return vec![Out::Client(line)];
        }
        let mut outs = Vec::new();
        let events = match TurnEnd::read(&message["result"]) {
            Some(end) => talk.on_end(&end, counts_on),
            None => vec![AgentEvent::End { ok: false }],
        };
        outs.push(Out::Record(events));
        let stop = talk.finish().and_then(|prompt| prompt.stop);
        outs.push(match stop {
            Some(error) => refuse(&message["id"], &error),
            None => Out::Client(line),
        });
        outs.extend(self.charge(now));
        outs
    }

    /// A session is open: its level and its model are set before the client hears of it.
    fn on_opened(&mut self, pending: Pending, answer: Value) -> Vec<Out> {
        let told = answer["result"]["sessionId"].as_str().map(str::to_owned);
        let Some(session) = told.or(pending.session) else { return vec![Out::Client(line_of(&answer))] };
        let talk = Talk::new(pending.cwd.unwrap_or_else(|| self.hold.cwd.clone()), &answer["result"]);
        self.talks.insert(session.clone(), talk);
        let mut steps = VecDeque::new();
        if !self.hold.modes.is_empty() {
            steps.push_back(Step::Mode(self.hold.modes.clone()));
        }
        steps.extend(self.model.clone().map(Step::Model));
        self.next_step(Opening { answer, session, steps })
    }

    fn next_step(&mut self, mut opening: Opening) -> Vec<Out> {
        loop {
            let Some(talk) = self.talks.get(&opening.session) else { return Vec::new() };
            let settings = &talk.settings;
            let asked = match opening.steps.front() {
                None => return vec![Out::Client(line_of(&opening.answer))],
                Some(Step::Mode(modes)) => {
                    let offered = settings.modes();
                    let found = modes.iter().find(|mode| offered.iter().any(|known| known.id == **mode));
                    let Some(mode) = found else {
                        let names: Vec<&str> = offered.iter().map(|known| known.id.as_str()).collect();
                        let problem = format!(
                            "{} cannot enforce {:?}: it offers the modes {:?}, not {}{}",
                            self.agent.as_str(),
                            self.hold.level.as_str(),
                            names.join(", "),
                            modes.join(", "),
                            self.agent.protocol().advice()
                        );
                        return vec![refuse(
                            &opening.answer["id"],
                            &Error::invalid_option("permission", problem),
                        )];
                    };
                    let is_set = settings.mode().as_deref() == Some(mode);
                    settings.set_mode(self.version, &opening.session, mode).filter(|_| !is_set)
                }
                Some(Step::Model(model)) => settings
                    .model(model)
                    .map(|(id, value)| set_option(self.version, &opening.session, id, &json!(value))),
            };
            let Some((method, params)) = asked else {
                opening.steps.pop_front();
                continue;
            };
            self.own += 1;
            let id = format!("{OWN}{}", self.own);
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            self.openings.insert(id, opening);
            return vec![Out::Agent(line_of(&request))];
        }
    }

    /// The agent has answered a request of this relay.
    fn on_step(&mut self, mut opening: Opening, message: &Value) -> Vec<Out> {
        let step = opening.steps.pop_front();
        let error = message.get("error");
        let Some(talk) = self.talks.get_mut(&opening.session) else { return Vec::new() };
        match (step, error) {
            (Some(Step::Mode(_)), Some(error)) => {
                let words = error["message"].as_str().unwrap_or_default();
                let problem =
                    format!("{} cannot enforce {:?}: {words}", self.agent.as_str(), self.hold.level.as_str());
                return vec![refuse(&opening.answer["id"], &Error::invalid_option("permission", problem))];
            }
            (Some(Step::Mode(modes)), None) => {
                talk.settings.on_options(&message["result"]["configOptions"]);
                let offered = talk.settings.modes();
                let mode = modes.into_iter().find(|mode| offered.iter().any(|known| known.id == *mode));
                if let Some(mode) = mode {
                    talk.settings.on_mode(&mode);
                    tell_mode(&mut opening.answer, &mode);
                }
            }
            _ => {}
        }
        let options = &message["result"]["configOptions"];
        if options.is_array()
            && let Some(result) = opening.answer.get_mut("result")
        {
            put(result, "configOptions", options.clone());
        }
        self.next_step(opening)
    }

    // Clocks and budgets.

    /// See [`Clock::on_stopped`](crate::harness::turn::clock::Clock::on_stopped).
    pub(super) fn on_stopped(&mut self, gap: Duration, now: Instant) {
        for prompt in self.talks.values_mut().filter_map(|talk| talk.prompt.as_mut()) {
            prompt.clock.on_stopped(gap, now);
        }
    }

    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let talks = self.talks.values().filter_map(|talk| talk.deadline(now));
        talks.chain(self.pending.values().filter_map(|pending| pending.until)).min()
    }

    /// Does what is due. `Err`: a sample of the tree is due, for the session with this id.
    pub(super) fn on_clock(&mut self, now: Instant) -> Result<Vec<Out>, String> {
        let name = self.agent.as_str();
        let mut outs = Vec::new();
        let mut due = Vec::new();
        for (session, talk) in &mut self.talks {
            if let Some(prompt) =
                talk.prompt.as_mut().filter(|prompt| prompt.kill_at.is_some_and(|at| at <= now))
            {
                let error = prompt.stop.take();
                return Ok(error.map(Out::Kill).into_iter().collect());
            }
            match talk.due(name, now) {
                Ok(Some(error)) => due.push((session.clone(), error)),
                Ok(None) => {}
                Err(()) => return Err(session.clone()),
            }
        }
        for (session, error) in due {
            outs.extend(self.stop(&session, error, now));
        }
        let silent: Vec<String> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.until.is_some_and(|until| until <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            let Some(pending) = self.pending.remove(&id) else { continue };
            let limit = self.limits.start.unwrap_or_default().as_secs_f64();
            let message =
                format!("{name} did not answer {} within {limit} s (`startTimeoutMs`)", pending.method);
            let refused = json::read_own(&id).unwrap_or_default();
            outs.push(refuse(&refused, &Error::new(ErrorCode::AgentIdle, message)));
            self.refused.insert(id);
        }
        Ok(outs)
    }

    pub(super) fn on_sample(&mut self, session: String, sample: Sample) {
        if let Some(talk) = self.talks.get_mut(&session) {
            talk.on_sample(sample);
        }
    }

    /// More was used than is allowed.
    pub(super) fn on_budget(&mut self, now: Instant) -> Vec<Out> {
        let sessions: Vec<String> = self.talks.keys().cloned().collect();
        let error = self.allowance.exceeded();
        sessions.into_iter().flat_map(|session| self.stop(&session, error.clone(), now)).collect()
    }

    fn charge(&mut self, now: Instant) -> Vec<Out> {
        let used = self.talks.values().map(Talk::used).reduce(Usage::plus);
        if self.accounts.set(used) { self.on_budget(now) } else { Vec::new() }
    }

    /// Cancels the prompt of a session, which ends with this error.
    fn stop(&mut self, session: &str, error: Error, now: Instant) -> Vec<Out> {
        let kill_at = now + self.kill_grace;
        let Some(talk) = self.talks.get_mut(session) else { return Vec::new() };
        let Some(prompt) = talk.prompt.as_mut().filter(|prompt| prompt.stop.is_none()) else {
            return Vec::new();
        };
        prompt.stop = Some(error);
        prompt.kill_at = Some(kill_at);
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
        vec![Out::Agent(line_of(&cancel))]
    }

    /// The answers to all requests that the agent will not answer any more.
    pub(super) fn refuse_all(&mut self, error: &Error) -> Vec<Bytes> {
        let ids = self.pending.drain().map(|(id, _)| json::read_own(&id).unwrap_or_default());
        let held = self.openings.drain().map(|(_, opening)| opening.answer["id"].clone());
        let ids: Vec<Value> = ids.chain(held).collect();
        ids.iter().map(|id| line_of(&refusal(id, error))).collect()
    }
}

/// The answer to a line that is no message.
fn unread() -> Value {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "Parse error" } })
}

fn line_of(message: &Value) -> Bytes {
    Bytes::from(message.to_string())
}

fn refusal(id: &Value, error: &Error) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": fault_of(error) })
}

fn refuse(id: &Value, error: &Error) -> Out {
    Out::Client(line_of(&refusal(id, error)))
}

/// An error of Sheepdog as a JSON-RPC error; its code is in `data`.
fn fault_of(error: &Error) -> Value {
    let code = if error.code() == ErrorCode::InvalidOption { -32_602 } else { -32_603 };
    let words = format!("{}: {}", error.code().as_str(), error.message());
    json!({ "code": code, "message": words, "data": { "code": error.code().as_str() } })
}

/// Writes the mode that is set into the answer that opens a session.
fn tell_mode(answer: &mut Value, mode: &str) {
    if let Some(modes) = answer.pointer_mut("/result/modes").filter(|modes| modes.is_object()) {
        put(modes, "currentModeId", mode);
    }
    let options = answer.pointer_mut("/result/configOptions").and_then(Value::as_array_mut);
    for option in options.into_iter().flatten().filter(|option| option["category"] == "mode") {
        put(option, "currentValue", mode);
    }
}

/// Adds the fields of `from`, which win, to those of `into`.
fn join(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                join(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// The words of a prompt.
fn prompt_text(prompt: &Value) -> String {
    let blocks = prompt.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str().or_else(|| block["resource"]["uri"].as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(provider: Provider, change: impl FnOnce(&mut OpenRequest)) -> Traffic {
        let mut request = OpenRequest::new(provider);
        request.agent.level = Level::Auto;
        request.agent.limits.idle = Some(Duration::from_secs(5));
        change(&mut request);
        let allowance = request.allowance().unwrap();
        let mode = mode_of(provider, request.agent.level, request.agent.sandbox.is_some());
        let modes: Vec<String> =
            mode.map(|mode| mode.id.to_owned()).filter(|id| !id.is_empty()).into_iter().collect();
        Traffic::new(&request, &modes, mode.map_or("", |mode| mode.meta), Path::new("/work"), allowance)
    }

    fn line(message: &Value) -> Bytes {
        Bytes::from(message.to_string())
    }

    /// The things that are done, as `>` and a message for the agent or `<` and one for the client.
    fn told(outs: Vec<Out>) -> Vec<(char, Value)> {
        let read = |bytes: &Bytes| json::read(bytes).unwrap();
        let said = outs.iter().filter_map(|out| match out {
            Out::Agent(bytes) => Some(('>', read(bytes))),
            Out::Client(bytes) => Some(('<', read(bytes))),
            Out::Record(_) => None,
            Out::Log(text) => Some(('l', json!(text))),
            Out::Kill(error) => Some(('x', json!(error.code().as_str()))),
        });
        said.collect()
    }

    /// A traffic whose session "s" is open in /work.
    fn opened(provider: Provider, change: impl FnOnce(&mut OpenRequest)) -> Traffic {
        let now = Instant::now();
        let mut traffic = traffic(provider, change);
        traffic.on_client(line(&json!({"id":1,"method":"session/new","params":{"cwd":"/work"}})), now);
        let offered = ["default", "plan", "yolo", "autoEdit"].map(|id| json!({ "id": id, "name": id }));
        let modes = json!({ "currentModeId": "default", "availableModes": offered });
        let told =
            told(traffic.on_agent(line(&json!({"id":1,"result":{"sessionId":"s","modes":modes}})), now));
        if let Some((_, asked)) = told.first().filter(|(to, _)| *to == '>') {
            traffic.on_agent(line(&json!({ "id": asked["id"], "result": {} })), now);
        }
        traffic
    }

    #[test]
    fn a_mode_in_any_shape_is_judged() {
        let now = Instant::now();
        for (method, params) in [
            ("session/set_mode", json!({"sessionId":"s","modeId":["yolo"]})),
            ("session/set_mode", json!({"sessionId":"s","modeId":{"id":"yolo"}})),
            ("session/set_mode", json!({"sessionId":"s"})),
            ("session/set_config_option", json!({"sessionId":"other","configId":"mode","value":"yolo"})),
            ("session/set_config_option", json!({"sessionId":"s","configId":["mode"],"value":"yolo"})),
            ("session/set_config_option", json!({"configId":"mode","value":"yolo"})),
        ] {
            let mut traffic = opened(Provider::Gemini, |request| request.agent.level = Level::Plan);
            let asked = json!({"jsonrpc":"2.0","id":7,"method":method,"params":params});
            let told = told(traffic.on_client(line(&asked), now));
            assert!(told.len() == 1 && told[0].0 == '<', "{params} {told:?}");
        }
        for method in ["session/set_mode", "session/set_config_option", "session/prompt", "session/new"] {
            let mut traffic = opened(Provider::Gemini, |request| request.agent.level = Level::Plan);
            let notified = json!({"method":method,"params":{"sessionId":"s","modeId":"yolo","prompt":[]}});
            let told = told(traffic.on_client(line(&notified), now));
            assert!(told.len() == 1 && told[0].0 == '<', "{method} {told:?}");
        }
        let mut traffic = opened(Provider::Gemini, |_| {});
        let cancel = json!({"method":"session/cancel","params":{"sessionId":"s"}});
        assert_eq!(told(traffic.on_client(line(&cancel), now))[0].0, '>');
    }

    #[test]
    fn servers_that_an_agent_does_not_start_are_told() {
        let servers = json!([{"name":"far","type":"http","url":"https://x"},{"name":"near","command":"own","args":[],"env":[]}]);
        let params = json!({"cwd":"/work","mcpServers":servers});
        for (provider, expected) in [(Provider::Copilot, "near"), (Provider::Gemini, "")] {
            let mut traffic = traffic(provider, |_| {});
            let opening = line(&json!({"id":1,"method":"session/new","params":params}));
            let logged: Vec<String> = told(traffic.on_client(opening, Instant::now()))
                .into_iter()
                .filter(|(to, _)| *to == 'l')
                .map(|(_, text)| text.to_string())
                .collect();
            assert_eq!(logged.len(), usize::from(!expected.is_empty()), "{provider:?}");
            assert!(logged.iter().all(|text| text.contains(expected) && !text.contains("far")), "{logged:?}");
        }
    }

    fn prompt(traffic: &mut Traffic, id: u64, now: Instant) -> Vec<(char, Value)> {
        let params = json!({"sessionId":"s","prompt":[{"type":"text","text":"go"}]});
        told(traffic.on_client(line(&json!({"id":id,"method":"session/prompt","params":params})), now))
    }

    #[test]
    fn what_is_not_known_passes_byte_for_byte() {
        let mut traffic = traffic(Provider::Gemini, |_| {});
        let now = Instant::now();
        for text in [
            r#"{"jsonrpc":"2.0", "method" : "_x","params":[1.0, 1e3]}"#,
            r#"{"id":"a","method":"_y","beside":true}"#,
            r#"{"id":7,"result":{"odd":null}}"#,
        ] {
            let bytes = Bytes::from_static(text.as_bytes());
            assert!(
                matches!(&traffic.on_client(bytes.clone(), now)[..],
                [Out::Agent(sent)] if sent == text),
                "{text}"
            );
            assert!(
                matches!(&traffic.on_agent(bytes, now)[..], [Out::Client(sent)] if sent == text),
                "{text}"
            );
        }
    }

    #[test]
    fn a_session_is_told_of_once_its_mode_is_set() {
        let now = Instant::now();
        let mut traffic = traffic(Provider::Gemini, |request| request.agent.level = Level::Plan);
        traffic.on_client(line(&json!({"id":1,"method":"session/new","params":{"cwd":"/work"}})), now);
        let modes = json!({"currentModeId":"default","availableModes":[{"id":"default"},{"id":"plan"}]});
        let answer = json!({"id":1,"result":{"sessionId":"s","modes":modes,"_meta":{"x":1}}});
        let asked = told(traffic.on_agent(line(&answer), now));
        assert_eq!((asked.len(), asked[0].0, &asked[0].1["method"]), (1, '>', &json!("session/set_mode")));
        let answered = told(traffic.on_agent(line(&json!({"id":asked[0].1["id"],"result":{}})), now));
        assert_eq!(answered[0].0, '<');
        assert_eq!(answered[0].1["result"]["modes"]["currentModeId"], "plan");
        assert_eq!(answered[0].1["result"]["_meta"]["x"], 1);
        let choose = |traffic: &mut Traffic, mode: &str| {
            let params = json!({"sessionId":"s","modeId":mode});
            told(traffic.on_client(line(&json!({"id":2,"method":"session/set_mode","params":params})), now))
        };
        assert_eq!(choose(&mut traffic, "yolo")[0].1["error"]["data"]["code"], "INVALID_OPTION");
        assert_eq!(choose(&mut traffic, "plan")[0].0, '>');
    }

    #[test]
    fn a_mode_that_is_not_offered_costs_the_session() {
        let now = Instant::now();
        let mut traffic = traffic(Provider::Gemini, |request| request.agent.level = Level::Plan);
        traffic.on_client(line(&json!({"id":1,"method":"session/new","params":{"cwd":"/work"}})), now);
        let refused = told(traffic.on_agent(line(&json!({"id":1,"result":{"sessionId":"s"}})), now));
        assert_eq!(refused[0].1["error"]["code"], -32_602);
    }

    #[test]
    fn a_question_is_answered_by_the_level_or_passes() {
        let now = Instant::now();
        let ask = |level: Level| {
            let mut traffic = opened(Provider::Gemini, |request| request.agent.level = level);
            let call = json!({"toolCallId":"t","kind":"execute","title":"ls","rawInput":{"command":"ls"}});
            let options = json!([{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]);
            let params = json!({"sessionId":"s","toolCall":call,"options":options});
            let asked = json!({"id":9,"method":"session/request_permission","params":params});
            let (to, message) = told(traffic.on_agent(line(&asked), now)).remove(0);
            (to, message["result"]["outcome"]["optionId"].as_str().unwrap_or_default().to_owned())
        };
        assert_eq!(ask(Level::Auto), ('>', "a".to_owned()));
        assert_eq!(ask(Level::Plan), ('>', "r".to_owned()));
        assert_eq!(ask(Level::Ask), ('<', String::new()));
    }

    #[test]
    fn what_cannot_be_judged_is_not_passed_on() {
        let mut traffic = opened(Provider::Gemini, |request| request.agent.level = Level::Plan);
        let now = Instant::now();
        for text in [
            "no message",
            "[]",
            r#"[{"id":1,"method":"session/set_mode"}]"#,
            r#"{"id":1,"method":"\q"}"#,
            "7",
        ] {
            let bytes = Bytes::from_static(text.as_bytes());
            let answered = told(traffic.on_client(bytes.clone(), now));
            assert_eq!((answered[0].0, &answered[0].1["error"]["code"]), ('<', &json!(-32_700)), "{text}");
            assert!(traffic.on_agent(bytes, now).is_empty(), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for part in [r#""\ud800""#, "1e999", &deep] {
            let set = format!(
                r#"{{"jsonrpc":"2.0","id":77,"method":"session/set_mode","params":{{"sessionId":"s","modeId":"yolo","_meta":{part}}}}}"#
            );
            let (to, answer) = told(traffic.on_client(Bytes::from(set), now)).remove(0);
            assert_eq!((to, &answer["error"]["code"]), ('<', &json!(-32_602)), "{part}");
        }
    }

    #[test]
    fn a_silent_turn_is_cancelled_and_then_told_as_an_error_or_killed() {
        let begun = Instant::now();
        for obeys in [true, false] {
            let mut traffic =
                opened(Provider::Gemini, |request| request.agent.kill_grace = Duration::from_secs(2));
            prompt(&mut traffic, 5, begun);
            let at = |seconds| begun + Duration::from_secs(seconds);
            assert!(traffic.on_clock(at(4)).is_err(), "the tree is looked at before the end of the limit");
            let sample = |at| Sample { at, cpu: Duration::ZERO, io_bytes: 0 };
            traffic.on_sample("s".to_owned(), sample(at(4)));
            assert!(traffic.on_clock(at(5)).is_err());
            traffic.on_sample("s".to_owned(), sample(at(5)));
            let cancel = told(traffic.on_clock(at(5)).unwrap());
            assert_eq!((cancel[0].0, &cancel[0].1["method"]), ('>', &json!("session/cancel")));
            assert!(traffic.on_clock(at(6)).unwrap().is_empty());
            if obeys {
                let ended =
                    traffic.on_agent(line(&json!({"id":5,"result":{"stopReason":"cancelled"}})), at(6));
                assert_eq!(told(ended)[0].1["error"]["data"]["code"], "AGENT_IDLE");
                assert_eq!(traffic.deadline(at(6)), None);
            } else {
                assert_eq!(told(traffic.on_clock(at(7)).unwrap()), [('x', json!("AGENT_IDLE"))]);
            }
        }
    }

    #[test]
    fn silence_is_not_counted_while_the_client_is_asked() {
        let begun = Instant::now();
        let mut traffic = opened(Provider::Gemini, |_| {});
        prompt(&mut traffic, 5, begun);
        let asked = json!({"id":3,"method":"fs/read_text_file","params":{"sessionId":"s","path":"a"}});
        traffic.on_agent(line(&asked), begun);
        assert!(traffic.on_clock(begun + Duration::from_secs(60)).unwrap().is_empty());
        traffic.on_client(line(&json!({"id":3,"result":{"content":""}})), begun + Duration::from_secs(60));
        assert!(traffic.on_clock(begun + Duration::from_secs(66)).is_err(), "and it is from here on");
    }

    #[test]
    fn an_agent_that_does_not_answer_is_told_for() {
        let begun = Instant::now();
        let mut traffic =
            traffic(Provider::Gemini, |request| request.agent.limits.start = Some(Duration::from_secs(1)));
        traffic.on_client(line(&json!({"id":"i","method":"initialize","params":{}})), begun);
        let refused = told(traffic.on_clock(begun + Duration::from_secs(1)).unwrap());
        assert_eq!(
            (&refused[0].1["id"], &refused[0].1["error"]["data"]["code"]),
            (&json!("i"), &json!("AGENT_IDLE"))
        );
        let late = traffic.on_agent(line(&json!({"id":"i","result":{}})), begun + Duration::from_secs(2));
        assert!(late.is_empty(), "one answer is enough");
    }

    #[test]
    fn a_budget_that_is_used_up_begins_no_turn() {
        let now = Instant::now();
        let mut traffic = opened(Provider::Gemini, |request| request.agent.caps.max_tokens = Some(50));
        assert_eq!(prompt(&mut traffic, 5, now)[0].0, '>');
        let usage = json!({"inputTokens":100,"outputTokens":10});
        traffic.on_agent(line(&json!({"id":5,"result":{"stopReason":"end_turn","usage":usage}})), now);
        let refused = prompt(&mut traffic, 6, now);
        assert_eq!(refused[0].1["error"]["data"]["code"], "AGENT_BUDGET");
    }

    #[test]
    fn the_levels_meta_wins_over_the_clients_and_keeps_the_rest() {
        let mut meta = json!({"a":{"kept":1,"changed":1}});
        join(&mut meta, &json!({"a":{"changed":2},"b":[3]}));
        assert_eq!(meta, json!({"a":{"kept":1,"changed":2},"b":[3]}));
    }
}
