//! A turn's own part of its record: the request, the events with their times, the judgement of each attempt, and the end. Each
//! attempt's process keeps its record in a folder of its own below (`attempts/1`). docs/record.md has the files.

use super::request::TurnRequest;
use crate::harness::agent_request::AgentRequest;
use crate::harness::event::{AgentEvent, Usage};
use crate::harness::provider::Provider;
use crate::harness::spending::Prices;
use crate::harness::verdict::Stop;
use crate::harness::verdict::result::TurnResult;
use ground::error::Error;
use ground::json::object::put;
use ground::os::{Host, blocking};
use ground::record::{Channel, Place, Record, RecordFacts, RecordSpec, epoch_ms, utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// Fields of an error that are recorded beside its code and message. Its events and output are in files of their own.
const FACTS: [&str; 4] = ["kind", "problems", "resetAt", "retryAfterMs"];

/// The evidence of the verdict on an attempt, besides the process's output and end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Judged {
    pub stop: Option<Stop>,
    /// The session that had to be reported.
    pub resume: Option<String>,
    pub before: Option<Usage>,
    /// Text that the agent wrote into the answer file.
    pub answer: Option<String>,
    /// The reason for another attempt.
    pub retry: Option<String>,
    /// The prices by which costs were told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// The attempt waited for the end of a usage limit, and does not count as an attempt of the turn.
    pub is_uncounted: bool,
}

/// A line of `events.jsonl`; `ms` counts from the start of the turn.
#[derive(Serialize)]
struct Line<'a> {
    ms: u64,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a AgentEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<&'a Judged>,
}

/// The record of a turn under way.
pub(crate) struct TurnRecord {
    record: Record,
    attempt: u32,
    attempts: RecordSpec,
    /// Prompts of a session that failed, other than by an abort.
    failed_prompts: u32,
    /// The error of the last one.
    last_failure: Option<Value>,
    /// The tokens that its events told.
    usage: Option<Usage>,
}

impl TurnRecord {
    /// Makes the folder of the record of a turn, or of a session with all its events and prompts. `None` when none is wanted. `more`:
    /// facts beside those of every agent, which replace them.
    ///
    /// # Errors
    /// `INVALID_OPTION` where nothing can be written.
    pub(crate) async fn open(
        kind: &str,
        agent: &AgentRequest,
        label: &str,
        more: Value,
    ) -> Result<Option<TurnRecord>, Error> {
        let Some(spec) = agent.record_spec() else { return Ok(None) };
        let facts = [start_of(kind, label, agent), more];
        let start = facts.iter().filter_map(Value::as_object).flat_map(Map::clone).collect();
        let wanted = spec.clone();
        let made = blocking(move || Record::create(&wanted, start)).await.map_err(|error| {
            Error::invalid_option("record", format!("the record cannot be written: {error}"))
        })?;
        let mut record = made?;
        record.begin(Instant::now());
        Ok(Some(TurnRecord {
            record,
            attempt: 0,
            attempts: spec,
            failed_prompts: 0,
            last_failure: None,
            usage: None,
        }))
    }

    /// A prompt of the session failed; the session may go on.
    pub(crate) fn count_failed_prompt(&mut self, error: &Error) {
        self.failed_prompts += 1;
        self.last_failure = Some(told(error));
    }

    /// The record of the next attempt's process.
    pub(crate) fn next_attempt(&mut self, provider: Provider) -> RecordSpec {
        self.attempt += 1;
        let place = Place::Within(self.record.folder(), PathBuf::from(format!("attempts/{}", self.attempt)));
        let facts = [
            ("kind", json!("attempt")),
            ("provider", json!(provider.as_str())),
            ("attempt", json!(self.attempt)),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        RecordSpec { place, facts, ..self.attempts.clone() }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.record.path().to_owned()
    }

    pub(crate) fn tell(&mut self, events: &[AgentEvent]) {
        let (ms, attempt) = (self.record.ms(), self.attempt);
        let mut lines = Vec::new();
        for event in events {
            if let AgentEvent::Usage(usage) = event {
                self.usage = Some(self.usage.unwrap_or_default().plus(*usage));
            }
            write_line(&mut lines, &Line { ms, attempt, event: Some(event), judged: None });
        }
        self.record.push(Channel::Events, &lines);
    }

    pub(crate) fn judge(&mut self, judged: &Judged) {
        let (ms, attempt) = (self.record.ms(), self.attempt);
        let mut line = Vec::new();
        write_line(&mut line, &Line { ms, attempt, event: None, judged: Some(judged) });
        self.record.push(Channel::Events, &line);
    }

    /// `is_judged`: the end is the verdict on the last attempt, rather than something that the harness knows without it.
    /// The result gets the facts of the record, which are returned as well.
    pub(crate) async fn close(
        self,
        mut result: Option<&mut TurnResult>,
        error: Option<&Error>,
        is_judged: bool,
    ) -> RecordFacts {
        // The process's output is in files of its own.
        let process = result.as_mut().and_then(|result| result.facts.process.take());
        let now = epoch_ms(SystemTime::now());
        let error = error.map(told);
        let mut end = json!({
            "endedAt": utc(now),
            "endedAtMs": now,
            "ok": error.is_none(),
            "error": error,
            "isJudged": is_judged,
            "result": result,
        });
        if self.failed_prompts > 0 {
            put(&mut end, "failedPrompts", self.failed_prompts);
            put(&mut end, "lastFailure", self.last_failure);
        }
        if let Some(usage) = self.usage.filter(|_| result.is_none()) {
            put(&mut end, "usage", json!(usage));
        }
        let facts = self.record.finish(end).await;
        if let Some(result) = result {
            result.facts.process = process;
            result.keep_record(facts.clone());
        }
        facts
    }
}

/// An error as the end of a record has it.
fn told(error: &Error) -> Value {
    let mut told = json!({ "code": error.code().as_str(), "message": error.message() });
    for fact in FACTS {
        if let Some(value) = error.facts().get(fact) {
            told[fact] = value.clone();
        }
    }
    told
}

fn write_line(lines: &mut Vec<u8>, line: &Line) {
    // A vector takes all that is written, and an event is made of what JSON can say.
    let _ = serde_json::to_writer(&mut *lines, line);
    lines.push(b'\n');
}

/// The facts of a turn.
pub(crate) fn facts_of(request: &TurnRequest) -> Value {
    // An option that is added has to be recorded, or left out here on purpose.
    let TurnRequest {
        agent: _,
        prompt,
        schema,
        cli_tools: _,
        max_turns: _,
        allow: _,
        background: _,
        retry: _,
        retry_after_tools: _,
        wait_for_reset: _,
        images: _,
        mcp_servers: _,
        extra_args: _,
        has_listener: _,
        in_passing: _,
    } = request;
    json!({ "prompt": prompt, "schema": schema.as_deref().map(crate::model::Schema::source) })
}

/// The fields at the start of every record of an agent, with the options that it holds.
fn start_of(kind: &str, name: &str, agent: &AgentRequest) -> Value {
    let AgentRequest {
        provider,
        model,
        cwd,
        folder: _,
        holds_cwd: _,
        resume,
        // The attempt's own record names the program and its environment.
        binary: _,
        environment: _,
        kill_grace: _,
        containment: _,
        // May hold what is nobody's business.
        system_prompt: _,
        redact: _,
        level: _,
        sandbox: _,
        limits: _,
        record: _,
        max_record_bytes: _,
        // The label, which is recorded, comes from it.
        name: _,
        caps: _,
        prices: _,
        budget: _,
    } = agent;
    let now = epoch_ms(SystemTime::now());
    json!({
        "version": 1,
        "kind": kind,
        "name": name,
        "startedAt": utc(now),
        "startedAtMs": now,
        "host": { "pid": std::process::id(), "id": Host::own().to_string() },
        "provider": provider.as_str(),
        "model": model,
        "cwd": cwd,
        "resume": resume,
    })
}
