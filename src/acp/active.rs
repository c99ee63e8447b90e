//! PURE: one prompt under way: its state, its account, its clock, and what it comes to.

use super::account::Account;
use super::agent::Agent;
use super::order::{Driver, Prompt};
use super::request::PromptRequest;
use super::turn_state::{Ending, TurnState, Version};
use super::verdict::{Evidence, Stop, verdict};
use crate::error::{Error, ErrorCode};
use crate::harness::Level;
use crate::harness::clock::{Clock, ClockLimits, Heard};
use crate::harness::replay::TurnResult;
use crate::harness::structured::{Candidates, prompt_with_problems, prompt_with_schema, read_answer};
use crate::model::Reading;
use crate::process::Moment;
use serde_json::Value;
use std::time::{Duration, Instant};

pub(crate) struct Active {
    /// Of the prompt, as its handle knows it.
    pub number: u32,
    /// Of the turn, as the events count them.
    pub turn: u32,
    /// Of the request that is to be answered.
    pub tag: u64,
    pub request: PromptRequest,
    pub driver: Driver,
    pub state: TurnState,
    pub account: Account,
    pub clock: Clock,
    pub stop: Option<Stop>,
    /// The last tool that was refused.
    pub refused: Option<String>,
    /// The failure that its log tells, of an agent that does not say.
    pub logged: Option<String>,
    /// When an agent that does not obey is killed.
    pub kill_at: Option<Instant>,
    /// As births of processes are compared with.
    pub begun_at: Moment,
    is_reasked: bool,
    asked: Instant,
    begun: Instant,
}

/// A turn that the agent began by itself.
pub(super) struct OwnTurn {
    pub(super) turn: u32,
    pub(super) account: Account,
}

/// What follows an end.
pub(crate) enum Next {
    Done {
        structured: Option<Value>,
    },
    Failed(Error),
    /// The same turn goes on with this prompt.
    Reask(String),
}

impl Active {
    pub(crate) fn new(prompt: Prompt, turn: u32, tag: u64, now: Instant, session: Session) -> Active {
        let limits = prompt.request.limits(session.limits);
        let mut clock = Clock::new(limits, now);
        clock.on_heard(Heard { progressed: true, ..Heard::default() }, now);
        Active {
            number: prompt.number,
            turn,
            tag,
            state: TurnState::new(session.version, prompt.request.waits, session.settle),
            account: Account::default(),
            clock,
            stop: None,
            refused: None,
            logged: None,
            kill_at: None,
            begun_at: Moment::now(),
            is_reasked: false,
            asked: prompt.asked,
            begun: now,
            request: prompt.request,
            driver: prompt.driver,
        }
    }

    /// What the agent is sent.
    pub(crate) fn text(&self) -> String {
        match &self.request.schema {
            // No file is offered: the answer crosses whole.
            Some(schema) => prompt_with_schema(&self.request.text, schema.source(), "", Level::Plan),
            None => self.request.text.clone(),
        }
    }

    /// The agent said something.
    pub(crate) fn heard(&mut self, in_tool: bool, now: Instant) {
        // What goes on behind an end is a tool's work.
        let in_tool = in_tool || self.state.has_ended();
        self.clock.on_heard(Heard { in_tool, progressed: true, ended: false }, now);
    }

    /// What follows this end. `open_tool`: the name of a tool that is open.
    pub(crate) fn next(&mut self, agent: &Agent, ending: &Ending, open_tool: Option<&str>) -> Next {
        let error = verdict(&Evidence {
            agent,
            ending,
            stop: self.stop,
            text: self.account.text(),
            last_piece: self.account.last_piece(),
            tool_calls: self.account.tool_calls(),
            has_usage: self.account.usage().is_some(),
            open_tool,
            refused: self.refused.as_deref(),
            logged: self.logged.as_deref(),
        });
        match (error, &self.request.schema) {
            (Some(error), _) => Next::Failed(error),
            (None, None) => Next::Done { structured: None },
            (None, Some(schema)) => {
                let candidates = Candidates { given: None, file: None, text: self.account.text() };
                match read_answer(schema, &candidates) {
                    Reading::Fits(value) => Next::Done { structured: Some(value) },
                    reading if self.is_reasked => Next::Failed(misfit(agent, reading.problems())),
                    reading => {
                        self.is_reasked = true;
                        Next::Reask(prompt_with_problems(&reading.problems(), schema.source(), false))
                    }
                }
            }
        }
    }

    /// The turn goes on with another prompt, whose request has this tag.
    pub(crate) fn ask_again(&mut self, tag: u64, session: Session) {
        self.tag = tag;
        self.state = TurnState::new(session.version, self.request.waits, session.settle);
        self.account.ask_again();
    }

    /// What the turn came to. Secrets are taken out.
    pub(crate) fn result(
        &mut self,
        agent: &Agent,
        session: &str,
        structured: Option<Value>,
        now: Instant,
    ) -> TurnResult {
        let mut result = TurnResult::empty(agent.provider);
        let ears = self.driver.ears();
        let redact = |text: &str| ears.audience.redact(text);
        result.text = redact(&self.account.take_text());
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let facts = &mut result.facts;
        facts.structured = structured.map(|mut value| {
            ears.audience.redact_value(&mut value);
            value
        });
        facts.session_id = Some(session.to_owned());
        facts.usage = self.account.usage();
        facts.turns = self.account.turns();
        facts.tool_calls = self.account.tool_calls();
        facts.attempts = if self.is_reasked { 2 } else { 1 };
        facts.queued_ms = millis(self.begun.saturating_duration_since(self.asked));
        facts.duration_ms = millis(now.saturating_duration_since(self.begun));
        facts.warnings = self.account.take_warnings().iter().map(|warning| redact(warning)).collect();
        result
    }
}

/// What a turn takes from its session.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub limits: &'a ClockLimits,
    pub version: Version,
    pub settle: Duration,
}

fn misfit(agent: &Agent, problems: Vec<String>) -> Error {
    let message = format!("the answer of {} does not fit the schema: {}", agent.name(), problems.join("; "));
    Error::new(ErrorCode::AgentSchemaMismatch, message).with("problems", problems)
}
