//! The course of a session's turn, from its prompt to its result.

use crate::acp::owner::Owner;
use crate::acp::state::active::Active;
use crate::acp::state::order::Prompt;
use crate::acp::state::session_state::Afterwords;
use crate::acp::turn::turn_state::{Ending, Version};
use crate::harness::clip::clip_to;
use crate::harness::evidence::metered::{since, told, usage_of};
use crate::harness::limit::ledger;
use crate::harness::limit::usage_limit::UsageLimit;
use crate::harness::turn::end_warning::warn_of_usage;
use crate::harness::turn::next::Next;
use crate::harness::turn::structured::{REASKED, misfit};
use crate::harness::verdict::Stop;
use crate::harness::verdict::result::{TurnResult, TurnSandbox};
use crate::harness::verdict::stop::Silence;
use crate::harness::{AgentErrorKind, AgentEvent, TurnOutcome, Usage};
use ground::error::{Error, ErrorCode};
use ground::trace::{SESSION, debug};
use serde_json::{Value, json};
use std::time::Instant;

impl Owner {
    /// Takes the steps that the state makes due: ends turns, and begins the next prompt.
    pub(super) fn advance(&mut self) {
        let now = self.now();
        loop {
            let behind = self.work.is_behind();
            let Some(active) = self.turns.active.as_mut().filter(|active| active.resting.is_none()) else {
                break;
            };
            let Some(ending) = active.state.due(now, behind).cloned() else {
                self.tell_wait();
                break;
            };
            if active.doubts(&ending, now) {
                break;
            }
            self.on_end(&ending, now);
        }
        self.settle_own_turn(now);
        // Before the next prompt begins: a cancel does not wait for what comes after it.
        if self.turns.active.is_none() && self.turns.own.is_none() {
            self.tell_cancelled();
        }
        if self.turns.afterwords.end(now).is_none() {
            self.begin_next();
        }
        if self.is_idle(now) {
            self.work.seen_behind = false;
            for reply in self.work.waiters.drain(..) {
                let _ = reply.send(Ok(()));
            }
        }
    }

    /// Begins the next prompt, if none is under way. It waits for a turn of the agent's own that was cancelled, as for a prompt's.
    pub(super) fn begin_next(&mut self) {
        if self.turns.active.is_none()
            && !self.turns.is_own_stopping()
            && self.is_at_level()
            && let Some(prompt) = self.turns.queue.pop_front()
        {
            self.begin(*prompt);
        }
    }

    /// The turn has a good end, and tools of its own go on: it says at once what it waits for.
    fn tell_wait(&mut self) {
        let Some(active) = &mut self.turns.active else { return };
        let is_new = active.state.has_ended() && self.work.background.is_empty();
        if !is_new || self.work.book.in_progress().next().is_none() || active.end.is_wait_told {
            return;
        }
        active.end.is_wait_told = true;
        let items = self.work.book.in_progress().map(|name| json!({ "type": "tool_call", "name": name }));
        let items = items.collect();
        self.tell(AgentEvent::Background { items });
    }

    /// Whether the next prompt may begin: the agent is in the mode that the caller chose.
    fn is_at_level(&mut self) -> bool {
        if !self.turns.queue.is_empty() {
            self.hold_level();
        }
        self.settings.left().is_none()
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let is_quiet = self.turns.active.is_none()
            && self.turns.queue.is_empty()
            && self.turns.own.is_none()
            && self.questions.open.is_empty()
            && !self.work.is_behind();
        is_quiet
            && (!self.work.seen_behind
                || now.saturating_duration_since(self.work.acted) >= self.session.request.settle)
    }

    pub(super) fn begin(&mut self, mut prompt: Prompt) {
        let limits = prompt.request.limits(&self.session.request.agent.limits);
        let refused = format!("{} was not prompted", self.session.agent.as_str());
        let takes = self.session.takes.check(self.session.agent.as_str(), &prompt.request.parts);
        let may_begin =
            prompt.request.check().and(takes).and_then(|()| limits.passed(&refused).map_or(Ok(()), Err));
        if let Err(error) = may_begin.and_then(|()| self.spending.allowance.check()) {
            return prompt.refuse(error);
        }
        if self.session.version == Version::One {
            self.end_own_turn();
        }
        self.listeners.tell_record(AgentEvent::Prompt { text: prompt.request.text.clone() });
        let (turn, tag) = (self.turns.next(), self.link.next_tag());
        let now = self.now();
        // On the same clock.
        prompt.asked = now.checked_sub(prompt.asked.elapsed()).unwrap_or(now);
        let mut active = Active::new(prompt, turn, tag, now, self.session.version, &self.session.request);
        active.digest.usage.pricing = self.spending.allowance.pricing();
        for warning in std::mem::take(&mut self.turns.warnings) {
            active.digest.note(&warning);
        }
        active.first(self.turns.preamble.as_deref());
        active.digest.session(&self.session.id);
        self.listeners.tell_all(&AgentEvent::TurnStart { turn, by: "prompt" });
        self.listeners.for_turn.extend(active.digest.take_events());
        self.turns.active = Some(active);
        self.send_prompt();
    }

    /// Sends the text of the prompt under way, unless its account is at a usage limit.
    pub(super) fn send_prompt(&mut self) {
        if self.is_held_back() {
            return;
        }
        let Some(active) = &self.turns.active else { return };
        debug!(target: SESSION, id = self.session.number, turn = active.turn, "sends a prompt");
        let prompt = active.prompt.request.content(active.text());
        let params = json!({ "sessionId": self.session.id, "prompt": prompt });
        // The turn's own clocks bound it.
        self.link.connection.send("session/prompt", &params, None, active.tries.tag);
        self.turns.preamble = None;
    }

    /// The turn under way has ended by the agent's word.
    pub(super) fn on_end(&mut self, ending: &Ending, now: Instant) {
        for event in self.work.book.close_refused() {
            self.tell(event);
        }
        let silence = self.silence();
        debug!(target: SESSION, id = self.session.number, in_tool = silence.runs.is_some(), behind = self.work.background.len(), "heard the end of the turn");
        let Some(active) = &mut self.turns.active else { return };
        let agent = &self.session.request.agent;
        let fault = active.fault(agent.provider, ending, &silence);
        let limit = fault.as_ref().and_then(|fault| self.spending.account.meet(fault, agent));
        let reset_in = limit.map(UsageLimit::left);
        let longest = self.session.request.wait_for_reset;
        match (active.next(fault.as_ref(), &self.session.id, reset_in, longest), limit) {
            (Next::Reask { problems, .. }, _) => {
                active.reask(&problems);
                self.tell(AgentEvent::Retry { message: REASKED.to_owned(), until: None });
                self.ask_again(now);
            }
            (Next::Misfit { problems }, _) => {
                self.finish(None, Some(misfit(self.session.agent, problems)), now);
            }
            (Next::Wait(wait), Some(limit)) => self.wait_out(wait, limit),
            (Next::Done { structured }, _) => {
                let left: Vec<String> = self.work.book.in_progress().map(str::to_owned).collect();
                if let Some(active) = self
                    .turns
                    .active
                    .as_mut()
                    .filter(|_| !left.is_empty() || !self.work.background.is_empty())
                {
                    active.digest.note(&left_behind(&left, self.work.background.len()));
                }
                self.finish(structured, None, now);
            }
            // A prompt is not repeated in another session.
            (Next::Failed(_) | Next::Retry { .. } | Next::Anew | Next::Wait(_), _) => {
                let Some(error) = fault.map(|fault| fault.error) else { return };
                let error = if let Some(limit) = limit { limit.tell(error) } else { error };
                if self.turns.active.as_ref().is_some_and(|active| active.end.stop.is_some()) {
                    self.close_tools();
                }
                self.finish(None, Some(error), now);
            }
        }
    }

    /// The turn under way is over.
    pub(super) fn finish(&mut self, structured: Option<Value>, error: Option<Error>, now: Instant) {
        if !std::mem::replace(&mut self.work.knows_tools, true) {
            self.warn(format!(
                "{} has not asked for the tools of this session, so its model had none of them: can it reach 127.0.0.1 without a proxy?",
                self.session.agent.as_str()
            ));
        }
        let is_over_budget =
            self.turns.active.as_ref().is_some_and(|active| active.end.stop == Some(Stop::OverBudget));
        let error = if is_over_budget { Some(self.spending.allowance.exceeded()) } else { error };
        if let Some(error) = error.as_ref().filter(|error| error.code() == ErrorCode::AgentFailed) {
            self.tell(AgentEvent::Error {
                kind: AgentErrorKind::of(error).unwrap_or(AgentErrorKind::Unknown),
                message: error.message().to_owned(),
            });
        }
        let code = error.as_ref().map_or("none", |error| error.code().as_str());
        debug!(target: SESSION, id = self.session.number, turn = self.turns.active.as_ref().map(|active| active.turn), error = code, "judged the turn");
        let failure = error.as_ref().filter(|error| error.code() != ErrorCode::AgentAborted);
        if let Some(failure) = failure
            && let Some(record) = self.listeners.recorder().and_then(|all| all.record.as_mut())
        {
            record.count_failed_prompt(failure);
        }
        self.tell(AgentEvent::End { ok: error.is_none() });
        if let Some(active) = &self.turns.active {
            self.listeners.tell_all(&AgentEvent::TurnEnd { turn: active.turn });
        }
        self.listeners.flush(&mut self.turns);
        let Some(mut active) = self.turns.active.take() else { return };
        if active.end.stop.is_some() {
            self.turns.afterwords = Afterwords::after(now, self.session.version);
            self.on_cancelled(active.turn, active.times.begun_at);
        }
        self.spending.usage.on_turn(active.digest.usage.total());
        if let Some(cost) = self.spending.usage.cost() {
            let usage = Usage { cost_usd: Some(cost), ..Usage::default() };
            ledger::note(self.session.agent, &self.session.id, usage);
        }
        let result = self.result_of(&mut active, structured, now);
        let outcome = match error {
            None => TurnOutcome::Succeeded(result),
            Some(error) => {
                let error = active.prompt.failed(&error);
                TurnOutcome::Failed { error, partial: Some(result) }
            }
        };
        active.prompt.finish(outcome);
    }

    /// Facts that may explain the agent's silence in the turn under way.
    pub(super) fn silence(&self) -> Silence {
        Silence {
            runs: self.work.book.open().next().map(|tool| format!("its tool {tool}")),
            printed: self.turns.active.as_ref().and_then(|active| active.digest.events.other_lines.told()),
            unanswered: self.link.traffic.run.requests.unanswered(),
        }
    }

    /// The turn's result, with its part of what the session's sandbox counted.
    fn result_of(&mut self, active: &mut Active, structured: Option<Value>, now: Instant) -> TurnResult {
        let now_metered = self.link.traffic.metered();
        let metered = since(now_metered.clone(), &self.spending.metered);
        self.spending.metered = now_metered;
        if !self.spending.allowance.is_unlimited() {
            warn_of_usage(&mut active.digest, &self.spending.allowance, &metered);
        }
        let mut result = active.result(self.session.agent, structured, now);
        if self.session.request.agent.sandbox.is_some() {
            result.facts.sandbox = Some(TurnSandbox { refused: self.link.traffic.refusals.all() });
        }
        result.facts.metered = told(metered);
        if let (None, Some(metered)) = (result.facts.usage, &result.facts.metered) {
            result.facts.usage = Some(self.spending.allowance.pricing().metered().of(usage_of(metered)));
        }
        active.prompt.audience.redact_result(&mut result);
        result
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
