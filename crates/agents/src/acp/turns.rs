//! The course of a session's turn, from its prompt to its result.

use super::active::{Active, Next, Session};
use super::order::{Driver, Prompt};
use super::owner::{Over, Owner};
use super::turn_state::{Ending, Version};
use super::verdict::Stop;
use crate::harness::clip::clip_to;
use crate::harness::replay::TurnResult;
use crate::harness::turn::clock::ClockLimits;
use crate::harness::{AgentErrorKind, AgentEvent, TurnOutcome};
use ground::error::{Error, ErrorCode};
use ground::trace::{SESSION, debug};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

impl Owner {
    /// Takes the steps that the state makes due: ends turns, and begins the next prompt.
    pub(super) fn advance(&mut self) -> ControlFlow<Over> {
        let now = Instant::now();
        loop {
            let behind = self.is_behind();
            let Some(active) = self.active.as_mut().filter(|active| active.resting.is_none()) else { break };
            let Some(ending) = active.state.due(now, behind).cloned() else { break };
            if active.doubts(&ending, now) {
                break;
            }
            self.on_end(&ending, now);
        }
        self.settle_own_turn(now);
        // Before the next prompt begins: a cancel does not wait for what comes after it.
        if self.active.is_none() && self.own_turn.is_none() {
            self.tell_cancelled();
        }
        // The next prompt waits for a turn of the agent's own that was cancelled, as it waits for a prompt's.
        let is_ending = self.own_turn.as_ref().is_some_and(|own| own.kill_at.is_some());
        if self.active.is_none()
            && !is_ending
            && let Some(prompt) = self.queue.pop_front()
        {
            self.begin(*prompt);
        }
        if self.is_idle(now) {
            self.seen_behind = false;
            for reply in self.idle_waiters.drain(..) {
                let _ = reply.send(Ok(()));
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether something goes on that no turn of ours waits for.
    pub(super) fn is_behind(&self) -> bool {
        !self.background.is_empty() || self.book.has_open()
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let is_quiet = self.active.is_none()
            && self.queue.is_empty()
            && self.own_turn.is_none()
            && self.questions.is_empty()
            && !self.is_behind();
        is_quiet && (!self.seen_behind || now.saturating_duration_since(self.acted) >= self.request.settle)
    }

    pub(super) fn begin(&mut self, prompt: Prompt) {
        let limits = prompt.request.limits(&self.request.agent.limits);
        let may_begin = prompt.request.check().and_then(|()| not_too_late(self.agent.name(), &limits));
        if let Err(error) = may_begin.and_then(|()| self.allowance.check()) {
            return prompt.refuse(error);
        }
        if self.version == Version::One {
            self.end_own_turn();
        }
        self.tell_record(AgentEvent::Prompt { text: prompt.request.text.clone() });
        self.turns += 1;
        let (turn, tag) = (self.turns, self.next_tag());
        let mut active = Active::new(prompt, turn, tag, Instant::now(), self.terms());
        for warning in std::mem::take(&mut self.warnings) {
            active.account.warn(warning);
        }
        active.first(self.preamble.as_deref());
        self.active = Some(active);
        self.for_all.push(AgentEvent::TurnStart { turn, by: "prompt" });
        self.for_turn.push(AgentEvent::Session { session_id: self.session.clone() });
        self.send_prompt();
    }

    /// The session's settings that apply to a turn.
    pub(super) fn terms(&self) -> Session<'_> {
        Session { limits: &self.request.agent.limits, version: self.version, settle: self.request.settle }
    }

    /// Sends the text of the prompt under way, unless its account is at a usage limit.
    pub(super) fn send_prompt(&mut self) {
        if self.is_held_back() {
            return;
        }
        let Some(active) = &self.active else { return };
        debug!(target: SESSION, id = self.number, turn = active.turn, "sends a prompt");
        let prompt = json!([{ "type": "text", "text": active.text() }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        // The turn's own clocks bound it.
        self.connection.send("session/prompt", &params, None, active.tag);
        self.preamble = None;
    }

    /// The turn under way has ended by the agent's word.
    pub(super) fn on_end(&mut self, ending: &Ending, now: Instant) {
        for event in self.book.close_refused() {
            self.tell(event);
        }
        let open_tool = self.book.open().next().map(str::to_owned);
        debug!(target: SESSION, id = self.number, in_tool = open_tool.is_some(), behind = self.background.len(), "heard the end of the turn");
        let Some(active) = &mut self.active else { return };
        match active.next(self.agent, ending, open_tool.as_deref()) {
            Next::Reask => {
                let message = "the answer does not match the schema: asking the agent once more".to_owned();
                self.tell(AgentEvent::Retry { message, until: None });
                self.ask_again(now);
            }
            Next::Done { structured } => {
                let left: Vec<String> = self.book.open().map(str::to_owned).collect();
                if let Some(active) =
                    self.active.as_mut().filter(|_| !left.is_empty() || !self.background.is_empty())
                {
                    active.account.warn(left_behind(&left, self.background.len()));
                }
                self.finish(structured, None, now);
            }
            Next::Failed(fault) => {
                let Some(error) = self.after_limit(fault) else { return };
                if self.active.as_ref().is_some_and(|active| active.stop.is_some()) {
                    for event in self.book.close_all() {
                        self.tell(event);
                    }
                }
                self.finish(None, Some(error), now);
            }
        }
    }

    /// The turn under way is over.
    pub(super) fn finish(&mut self, structured: Option<Value>, error: Option<Error>, now: Instant) {
        let is_over_budget = self.active.as_ref().is_some_and(|active| active.stop == Some(Stop::OverBudget));
        let error = if is_over_budget { Some(self.allowance.exceeded()) } else { error };
        if let Some(error) = error.as_ref().filter(|error| error.code() == ErrorCode::AgentFailed) {
            let kind = error.facts().get("kind").and_then(Value::as_str).unwrap_or_default();
            let kind = AgentErrorKind::ALL.into_iter().find(|known| known.as_str() == kind);
            self.tell(AgentEvent::Error {
                kind: kind.unwrap_or(AgentErrorKind::Unknown),
                message: error.message().to_owned(),
            });
        }
        let code = error.as_ref().map_or("none", |error| error.code().as_str());
        debug!(target: SESSION, id = self.number, turn = self.active.as_ref().map(|active| active.turn), error = code, "judged the turn");
        let has_failed = error.as_ref().is_some_and(|error| error.code() != ErrorCode::AgentAborted);
        if let Some(record) =
            self.listeners.first_mut().filter(|_| has_failed).and_then(|all| all.record().as_mut())
        {
            record.count_failed_prompt();
        }
        self.tell(AgentEvent::End { ok: error.is_none() });
        if let Some(active) = &self.active {
            self.for_all.push(AgentEvent::TurnEnd { turn: active.turn });
        }
        self.flush();
        let Some(mut active) = self.active.take() else { return };
        if active.stop.is_some() {
            self.on_cancelled(active.number, active.begun_at);
        }
        self.usage.on_turn(active.account.usage());
        let result: TurnResult = active.result(self.agent, &self.session, structured, now);
        let outcome = match error {
            None => TurnOutcome::Succeeded(result),
            Some(error) => {
                let error = self.without_secrets(&active.driver, error);
                TurnOutcome::Failed { error, partial: Some(result) }
            }
        };
        active.driver.finish(outcome);
    }

    pub(super) fn without_secrets(&self, driver: &Driver, error: Error) -> Error {
        if self.request.agent.redact.is_empty() {
            return error;
        }
        driver.ears().audience.redact_error(&error)
    }
}

/// A deadline that has passed: the prompt is not sent.
fn not_too_late(name: &str, limits: &ClockLimits) -> Result<(), Error> {
    let has_passed = |limit: Option<Duration>| limit == Some(Duration::ZERO);
    let late = |code, option: &str| {
        Err(Error::new(
            code,
            format!("{name} was not prompted: the deadline of `{option}` has already passed"),
        ))
    };
    match limits {
        _ if has_passed(limits.total) => late(ErrorCode::AgentTimedOut, "timeoutMs"),
        _ if has_passed(limits.idle) => late(ErrorCode::AgentIdle, "idleTimeoutMs"),
        _ if has_passed(limits.tool_idle) => late(ErrorCode::AgentIdle, "toolIdleTimeoutMs"),
        _ => Ok(()),
    }
}

/// Most tools that a warning names.
const MAX_NAMED: usize = 8;
/// Longest name in a warning.
const MAX_NAME_BYTES: usize = 200;

fn left_behind(tools: &[String], items: usize) -> String {
    let mut named: Vec<String> =
        tools.iter().take(MAX_NAMED).map(|name| clip_to(name, MAX_NAME_BYTES).to_string()).collect();
    if tools.len() > MAX_NAMED {
        named.push(format!("{} others", tools.len() - MAX_NAMED));
    }
    let names = if named.is_empty() { format!("{items} in the background") } else { named.join(", ") };
    format!("the agent left something running behind its end of turn: {names}")
}
