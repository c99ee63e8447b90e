//! A fuzz target. For any messages of a hostile client and a hostile agent at once: no prompt runs above the level, no denied
//! file is read, each request is answered once, each prompt ends in time, and nothing begins when the budget is used up.

use super::gate::{Found, Gate, Look};
use super::rules::Rules;
use crate::acp::opening::request::OpenRequest;
use crate::acp::question::place::Places;
use crate::acp::question::policy::Rule;
use crate::harness::clock::Sample;
use crate::harness::{Level, Provider};
use ground::json;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

const TOTAL: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(2);
const MAX_TOKENS: u64 = 1000;
const CWD: &str = "/work";
const DENIED: &str = "/secret/k";
const SESSIONS: [&str; 3] = ["s", "t", "u"];
const MODES: [&str; 4] = ["plan", "default", "yolo", "autoEdit"];

/// The first byte chooses the version. Each step is a byte for its kind and bytes for its parts; `{` begins a line as it is.
pub fn fuzz_face(bytes: &[u8]) {
    let mut play = Play::new();
    let mut dice = Dice(bytes);
    play.has_second = dice.next().is_multiple_of(2);
    play.greet();
    while !dice.0.is_empty() && play.killed.is_none() {
        play.step(&mut dice);
    }
    play.end();
}

struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.next()) % all.len()]
    }

    fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n').unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        line
    }
}

/// The settings that the agent of the play has confirmed, kept apart from the gate.
struct Play {
    gate: Gate,
    now: Instant,
    has_second: bool,
    killed: Option<Instant>,
    /// Requests without an answer, by the sender's id as JSON text.
    of_client: HashMap<String, i64>,
    of_agent: HashMap<String, i64>,
    /// The method of each open request of the agent.
    asked: HashMap<String, String>,
    /// Requests that the agent got: id, method, params, and when.
    at_agent: Vec<(Value, String, Value, Instant)>,
    /// Questions that the client got.
    at_client: Vec<Value>,
    /// Mode of each session, as the agent has confirmed or told it.
    modes: HashMap<String, String>,
    used: u64,
}

impl Play {
    fn new() -> Play {
        let mut request = OpenRequest::new(Provider::Gemini);
        request.agent.level = Level::Plan;
        request.agent.limits.total = Some(TOTAL);
        request.agent.kill_grace = GRACE;
        request.agent.caps.max_tokens = Some(MAX_TOKENS);
        request.policy.deny = vec![Rule { path: Some(DENIED.to_owned()), ..Rule::default() }];
        let rules = Rules::new(&request, &["plan".to_owned()], "", Path::new(CWD), Path::new(CWD));
        let Ok(allowance) = request.allowance() else { unreachable!("gemini tells its tokens") };
        Play {
            gate: Gate::new(rules, allowance),
            now: Instant::now(),
            has_second: false,
            killed: None,
            of_client: HashMap::new(),
            of_agent: HashMap::new(),
            asked: HashMap::new(),
            at_agent: Vec::new(),
            at_client: Vec::new(),
            modes: HashMap::new(),
            used: 0,
        }
    }

    fn greet(&mut self) {
        self.client(&json!({"id":"hello","method":"initialize","params":{}}));
        let spoken = match self.has_second {
            true => json!({"protocolVersion":2,"capabilities":{}}),
            false => json!({"protocolVersion":1}),
        };
        self.answer(0, json!({ "result": spoken }));
    }

    fn step(&mut self, dice: &mut Dice) {
        let session = dice.of(&SESSIONS);
        match dice.next() {
            b'{' => self.client_line(&[b"{", dice.line()].concat()),
            b'}' => self.agent_line(&[b"{", dice.line()].concat()),
            kind if kind < 96 => self.client_says(kind % 8, session, dice),
            kind if kind < 224 => self.agent_says(kind % 8, session, dice),
            _ => self.pass(Duration::from_secs(u64::from(dice.next() % 8))),
        }
    }

    fn client_says(&mut self, kind: u8, session: &str, dice: &mut Dice) {
        let (id, mode) = (dice.next() % 6, dice.of(&MODES));
        let methods = ["session/load", "session/resume", "session/new", "session/fork"];
        match kind {
            0 => {
                let params = json!({"sessionId":session,"cwd":CWD});
                self.client(&json!({"id":id,"method":dice.of(&methods),"params":params}));
            }
            1 | 2 => {
                let message =
                    json!({"id":id,"method":"session/prompt","params":{"sessionId":session,"prompt":[]}});
                self.client(&message);
            }
            3 => self.client(
                &json!({"id":id,"method":"session/set_mode","params":{"sessionId":session,"modeId":mode}}),
            ),
            4 => {
                let params = json!({"sessionId":session,"configId":"mode","value":mode});
                self.client(&json!({"id":id,"method":"session/set_config_option","params":params}));
            }
            5 => self.client(&json!({"id":id,"method":"session/close","params":{"sessionId":session}})),
            6 => {
                let message = match dice.next() % 4 {
                    3 => json!({"id":id,"method":"initialize","params":{"protocolVersion":dice.next() % 4}}),
                    0 => json!({"method":"session/cancel","params":{"sessionId":session}}),
                    1 => json!({"method":"$/cancel_request","params":{"requestId":id}}),
                    _ => json!({"method":"session/prompt","params":{"sessionId":session}}),
                };
                self.client(&message);
            }
            _ => {
                let known = self.at_client.get(usize::from(id)).cloned();
                let outcome = json!({"outcome":"selected","optionId":dice.of(&["a", "r", "yolo"])});
                self.client(&json!({"id":known.unwrap_or(json!(id)),"result":{"outcome":outcome}}));
            }
        }
    }

    fn agent_says(&mut self, kind: u8, session: &str, dice: &mut Dice) {
        let (which, mode) = (usize::from(dice.next() % 4), dice.of(&MODES));
        let offered = MODES.map(|id| json!({ "id": id }));
        let modes = json!({"currentModeId":mode,"availableModes":offered});
        match kind {
            0 | 1 => self.answer(which, json!({"result":{"sessionId":session,"modes":modes}})),
            2 => {
                let usage = json!({"inputTokens":dice.next(),"outputTokens":dice.next()});
                self.answer(which, json!({"result":{"stopReason":"end_turn","usage":usage}}));
            }
            3 => self.answer(which, json!({"result":null})),
            4 => self.answer(which, json!({"error":{"code":1,"message":"no"}})),
            5 => {
                let update = match dice.next() % 4 {
                    0 => json!({"sessionUpdate":"current_mode_update","currentModeId":mode}),
                    1 => json!({"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}),
                    2 => json!({"sessionUpdate":"tool_call","toolCallId":"t","status":"in_progress"}),
                    _ => json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}),
                };
                let params = json!({"sessionId":session,"update":update});
                self.agent(&match dice.next() % 8 {
                    0 => json!({"id":which,"method":"session/update","params":params}),
                    _ => json!({"method":"session/update","params":params}),
                });
            }
            6 => {
                let options =
                    json!([{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]);
                let call =
                    json!({"toolCallId":"t","kind":"execute","title":"x","locations":[{"path":"/work/a"}]});
                let path = dice.of(&["/work/a", DENIED]);
                let params = json!({"sessionId":session,"toolCall":call,"options":options,"path":path});
                let methods = [
                    "session/request_permission",
                    "fs/read_text_file",
                    "fs/write_text_file",
                    "terminal/create",
                    "_x",
                ];
                self.agent(&json!({"id":which,"method":dice.of(&methods),"params":params}));
            }
            _ => self.agent(&json!({"method":"$/cancel_request","params":{"requestId":which}})),
        }
    }

    /// The agent answers one of the requests that it got.
    fn answer(&mut self, which: usize, mut answer: Value) {
        let Some((id, method, params, _)) = self.at_agent.get(which).cloned() else { return };
        json::object::put(&mut answer, "id", id);
        let is_good = answer.get("error").is_none();
        let result = answer["result"].clone();
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        match method.as_str() {
            "session/set_mode" if is_good => {
                self.modes.insert(session, params["modeId"].as_str().unwrap_or_default().to_owned());
            }
            "session/load" | "session/resume" if is_good => {
                self.modes.remove(&session);
            }
            "session/new" | "session/fork" if is_good => {
                self.modes.remove(result["sessionId"].as_str().unwrap_or_default());
            }
            "session/prompt" if is_good && result["stopReason"].is_string() => {
                self.used += result["usage"]["inputTokens"].as_u64().unwrap_or_default();
                self.used += result["usage"]["outputTokens"].as_u64().unwrap_or_default();
            }
            _ => {}
        }
        self.agent(&answer);
        self.at_agent.remove(which);
    }

    fn client(&mut self, message: &Value) {
        self.client_line(message.to_string().as_bytes());
    }

    fn agent(&mut self, message: &Value) {
        self.agent_line(message.to_string().as_bytes());
    }

    fn client_line(&mut self, line: &[u8]) {
        if let Some(id) = asks(line) {
            *self.of_client.entry(id).or_default() += 1;
        }
        self.gate.on_client(line, false, self.now);
        self.look();
    }

    fn agent_line(&mut self, line: &[u8]) {
        if let Ok(message) = json::read::<Value>(line) {
            self.note(line, &message);
        }
        self.gate.on_agent(line, self.now);
        self.look();
    }

    /// Notes what the agent asks and tells.
    fn note(&mut self, line: &[u8], message: &Value) {
        if let Some(id) = asks(line) {
            let open = self.of_agent.entry(id.clone()).or_default();
            if *open == 0 {
                self.asked.insert(id, message["method"].as_str().unwrap_or_default().to_owned());
            }
            *open += 1;
        }
        let update = &message["params"]["update"];
        let session = message["params"]["sessionId"].as_str().unwrap_or_default();
        let is_notice = message["method"] == "session/update" && message.get("id").is_none();
        if is_notice && update["sessionUpdate"] == "current_mode_update" {
            let mode = update["currentModeId"].as_str().unwrap_or_default();
            self.modes.insert(session.to_owned(), mode.to_owned());
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        while let Some(prompt) = self.gate.on_clock(self.now) {
            self.gate.prompts.on_sample(prompt, Sample { at: self.now, cpu: Duration::ZERO, io_bytes: 0 });
        }
        self.look();
    }

    /// Reads what was written, and holds it to the invariants.
    fn look(&mut self) {
        for (ticket, look) in std::mem::take(&mut self.gate.out.looks) {
            let found = match look {
                Look::Files(question, policy, cwd) => Found::Files(Places::look(&question, &policy, &cwd)),
                Look::Folders(folders) => Found::Folders(folders.into_iter().map(Some).collect()),
            };
            self.gate.on_looked(ticket, found, self.now);
        }
        for message in lines(std::mem::take(&mut self.gate.out.agent)) {
            self.agent_gets(&message);
        }
        for message in lines(std::mem::take(&mut self.gate.out.client)) {
            self.client_gets(&message);
        }
        if self.gate.out.kill.take().is_some() {
            self.killed = Some(self.now);
        }
    }

    fn agent_gets(&mut self, message: &Value) {
        let Some(method) = message["method"].as_str() else {
            let outcome = &message["result"]["outcome"];
            let asked = self.asked.get(&message["id"].to_string());
            let is_permission = asked.is_some_and(|method| method == "session/request_permission");
            assert!(!is_permission || outcome["optionId"] != "a", "the level allows no command");
            return once(&mut self.of_agent, message);
        };
        let params = &message["params"];
        match method {
            "session/set_mode" => assert_eq!(params["modeId"], "plan", "a mode above the level"),
            "session/set_config_option" => assert_eq!(params["value"], "plan", "a mode above the level"),
            "session/prompt" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                assert_eq!(
                    self.modes.get(session).map(String::as_str),
                    Some("plan"),
                    "a prompt above the level"
                );
                assert!(self.used <= MAX_TOKENS, "a prompt beyond the budget");
                assert!(message.get("id").is_some(), "a prompt without a clock");
            }
            _ => {}
        }
        if let Some(id) = message.get("id") {
            assert!(self.at_agent.iter().all(|(known, ..)| known != id), "an id that is open");
            self.at_agent.push((id.clone(), method.to_owned(), params.clone(), self.now));
        }
    }

    fn client_gets(&mut self, message: &Value) {
        match message["method"].as_str() {
            None if message["id"].is_null() => {}
            None => once(&mut self.of_client, message),
            Some(method) => {
                let is_forbidden = method == "fs/write_text_file" || method.starts_with("terminal/");
                assert!(!is_forbidden, "{method} at the level plan");
                let is_denied = method.starts_with("fs/") && message["params"]["path"] == DENIED;
                assert!(!is_denied, "{method} of a denied file");
                self.at_client.extend(message.get("id").cloned());
            }
        }
    }

    /// Time goes on, and the agent does nothing more: everything ends.
    fn end(&mut self) {
        let since = self.now;
        while self.killed.is_none() && self.gate.is_prompting() {
            let deadline = self.gate.deadline(self.now);
            assert!(deadline.is_some(), "a prompt without a clock");
            self.pass(Duration::from_secs(1));
            assert!(self.now - since <= TOTAL + GRACE + GRACE, "a prompt without an end");
        }
        self.gate.refuse_all(&ground::error::Error::new(ground::error::ErrorCode::AgentCrashed, "gone"));
        self.look();
        let left: Vec<_> = self.of_client.iter().filter(|(_, open)| **open != 0).collect();
        assert!(left.is_empty(), "requests without an answer: {left:?}");
    }
}

/// The id of a request.
fn asks(line: &[u8]) -> Option<String> {
    let message: Value = json::read(line).ok()?;
    let id = &message["id"];
    (message.get("method").is_some() && (id.is_string() || id.is_number())).then(|| id.to_string())
}

fn once(open: &mut HashMap<String, i64>, answer: &Value) {
    let left = open.entry(answer["id"].to_string()).or_default();
    *left -= 1;
    assert!(*left >= 0, "an answer to nothing: {answer}");
}

fn lines(written: Vec<u8>) -> Vec<Value> {
    let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| json::read_own(line).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: ProptestConfig::default().cases.max(2000),
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn a_hostile_client_and_a_hostile_agent_get_by_nothing(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            super::fuzz_face(&bytes);
        }
    }
}
