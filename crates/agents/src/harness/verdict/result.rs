//! PURE: the result of a turn.

use crate::harness::event::Usage;
use crate::harness::evidence::digest::Digest;
use crate::harness::provider::Provider;
use ground::record::RecordFacts;
use process::{Metered, Refused, RunResult};
use serde::Serialize;
use serde_json::Value;

/// The result of a turn; partial when the turn failed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// May be long: it goes to JavaScript as a string of its own.
    pub text: String,
    #[serde(flatten)]
    pub facts: TurnFacts,
}

/// All of a result but its text.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tokens as they were seen on their way, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metered: Option<Metered>,
    pub turns: u64,
    pub tool_calls: u64,
    pub attempts: u32,
    pub queued_ms: f64,
    pub duration_ms: f64,
    pub provider: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub recovered: bool,
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<RunResult>,
    /// Report of the agent's sandbox, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<TurnSandbox>,
    /// The turn's record, if the turn was asked to keep one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordFacts>,
}

/// Report of an agent's sandbox.
#[derive(Clone, Debug, Serialize)]
pub struct TurnSandbox {
    /// Hosts and Unix sockets that were refused: in a turn by all its attempts, in a session since it was opened.
    pub refused: Vec<Refused>,
}

impl TurnResult {
    /// The result of a turn that never ran.
    pub fn empty(provider: Provider) -> Self {
        TurnResult::of(provider, &mut Digest::default(), false)
    }

    /// The result of one attempt.
    pub fn of(provider: Provider, digest: &mut Digest, recovered: bool) -> Self {
        let facts = TurnFacts::of(provider, digest, recovered);
        TurnResult { text: digest.answer.take_text(), facts }
    }
}

impl TurnResult {
    /// Adds the facts of its record, with a warning if the record is not whole.
    pub(crate) fn keep_record(&mut self, facts: RecordFacts) {
        let problem = facts.problem.as_ref().map(|problem| format!("the record is not whole: {problem}"));
        self.facts.warnings.extend(problem);
        self.facts.record = Some(facts);
    }
}

/// The facts read as the result's own fields.
impl std::ops::Deref for TurnResult {
    type Target = TurnFacts;

    fn deref(&self) -> &TurnFacts {
        &self.facts
    }
}

impl TurnFacts {
    pub(crate) fn of(provider: Provider, digest: &Digest, recovered: bool) -> Self {
        TurnFacts {
            structured: digest.answer.structured.clone(),
            session_id: digest.session.clone(),
            usage: digest.usage.total(),
            turns: digest.steps.turns,
            tool_calls: digest.steps.tool_calls,
            attempts: 1,
            provider: provider.as_str(),
            model: digest.model.clone(),
            recovered,
            warnings: digest.warnings.clone(),
            ..TurnFacts::default()
        }
    }
}
