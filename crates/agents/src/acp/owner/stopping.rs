//! Ends turns and sessions: by a request first, then by force. Answers the callers that wait for the end.

use crate::acp::owner::{Over, Owner, Shown, closed};
use crate::acp::question::HostRequest;
use crate::acp::state::order::Reply;
use crate::acp::wire::connection::Exit;
use crate::harness::Provider;
use crate::harness::clock::{Due, Sample};
use crate::harness::verdict::Stop;
use crate::harness::verdict::stop::extended;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::trace::{SESSION, debug};
use serde_json::json;
use std::sync::MutexGuard;
use std::time::Instant;

impl Owner {
    /// The turn under way is to end: the agent is asked to, and killed if it does not.
    pub(super) fn stop(&mut self, stop: Stop) {
        if stop == Stop::OverBudget {
            self.link.traffic.run.cut();
        }
        let now = self.now();
        let Some(active) = &mut self.turns.active else { return };
        if active.end.stop.is_some() {
            return;
        }
        active.end.stop = Some(stop);
        active.resting = None;
        let _ = self.session.host.send(HostRequest::Stopped);
        debug!(target: SESSION, id = self.session.number, turn = active.turn, ?stop, "decided: the turn is stopped");
        active.state.on_cancel();
        active.end.kill_at = now.checked_add(self.session.request.agent.kill_grace);
        // It has ended, and what goes on behind it is not waited for any more.
        let is_over = active.state.has_ended() && !active.state.is_running();
        if !is_over {
            self.notify_cancel();
        }
    }

    /// As [`Owner::stop`], for a turn that the agent began by itself.
    pub(super) fn stop_own_turn(&mut self) {
        let now = self.now();
        let Some(own) = self.turns.own.as_mut().filter(|own| own.kill_at.is_none()) else { return };
        own.kill_at = now.checked_add(self.session.request.agent.kill_grace);
        let _ = self.session.host.send(HostRequest::Stopped);
        self.notify_cancel();
    }

    /// Nothing that goes on behind the turns was heard of for `toolIdleTimeoutMs`: nobody waits for it any longer.
    fn give_up_waiting(&mut self, now: Instant) {
        let Some(limit) = self.session.request.agent.limits.tool_idle else { return };
        if self.turns.active.is_some() || now.saturating_duration_since(self.work.acted) < limit {
            return;
        }
        for reply in self.work.waiters.drain(..) {
            let message = format!(
                "{} was silent for {} s (toolIdleTimeoutMs) while work went on behind its turns: `cancel` or `close` ends it",
                self.session.agent.as_str(),
                limit.as_secs_f64()
            );
            let error = Error::new(ErrorCode::AgentIdle, message);
            let _ = reply.send(Err(error.with("toolIdleTimeoutMs", limit.as_secs_f64() * 1e3)));
        }
    }

    pub(super) fn notify_cancel(&mut self) {
        self.link
            .connection
            .client
            .notify("session/cancel", &json!({ "sessionId": self.session.id }).to_string());
        // Gemini waits for the answers before it ends its turn.
        self.withdraw_all();
    }

    pub(super) async fn on_clock(&mut self) -> Option<Over> {
        let now = self.now();
        self.reject_overdue(now);
        self.give_up_waiting(now);
        let own = self.turns.own.as_ref().and_then(|own| own.kill_at);
        let asked = self.turns.active.as_ref().and_then(|active| active.end.kill_at);
        if [own, asked].into_iter().flatten().any(|at| at <= now) {
            debug!(target: SESSION, id = self.session.number, "decided: the agent is killed, it did not end its turn when asked");
            self.link.connection.kill();
            return Some(Over::Gone(self.link.connection.exit().await, None));
        }
        let active = self.turns.active.as_mut().filter(|active| active.end.stop.is_none());
        let active = active?;
        if active.resting.is_some() {
            self.on_rested(now);
            return None;
        }
        let is_waiting = active.state.has_ended() && !active.state.is_running();
        match active.clock.due(now, 0, 0) {
            Due::Sample => {
                let usage = self.link.connection.process.tree_usage().await;
                let sample = Sample { at: self.awake.now(), cpu: usage.cpu, io_bytes: usage.io_bytes };
                active.clock.on_sample(sample);
            }
            Due::Idle { limit } if is_waiting => {
                let message = format!(
                    "what the agent left behind its turn was silent for {} s (toolIdleTimeoutMs): it was not waited for any longer",
                    limit.as_secs_f64()
                );
                active.digest.note(&message);
                active.state.stop_waiting();
            }
            Due::Extend { limit } => self.warn(extended(limit)),
            due => {
                if let Some(stop) = Stop::due(due, &active.clock) {
                    self.stop(stop);
                }
            }
        }
        None
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let now = self.awake.now();
        let turn = self.turns.active.as_ref().and_then(|active| match active.end.stop {
            Some(_) => active.end.kill_at,
            None if active.resting.is_some() => active.looks_again(now),
            None => {
                let ends = [active.clock.deadline(now), active.state.deadline(), active.end.believed_at];
                ends.into_iter().flatten().min()
            }
        });
        let question = self.questions.open.iter().filter_map(|question| question.reject_at).min();
        let waits = self.turns.own.is_some() || (self.work.seen_behind && !self.work.waiters.is_empty());
        let settled = waits.then(|| self.work.acted.checked_add(self.own_settle())).flatten();
        let own = self.turns.own.as_ref().and_then(|own| own.kill_at);
        let deaf = self.listeners.deadline();
        let idle = self
            .session
            .request
            .agent
            .limits
            .tool_idle
            .filter(|_| !self.work.waiters.is_empty() && self.turns.active.is_none());
        let given_up = idle.and_then(|limit| self.work.acted.checked_add(limit));
        let prompt = self.turns.afterwords.end(now).filter(|_| !self.turns.queue.is_empty());
        [turn, question, settled.map(|at| at.max(now)), own, deaf.map(|at| at.max(now)), given_up, prompt]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) async fn end(&mut self, over: Over) {
        let refused = self.link.traffic.refusals.take();
        self.on_refused(&refused);
        self.withdraw_all();
        let (exit, is_closed, cause) = match over {
            Over::Closed => (self.link.connection.close().await, true, None),
            Over::Gone(exit, cause) => (exit, false, cause),
            Over::Faulted(error) => (self.link.connection.close().await, false, Some(error)),
        };
        let gone = match &cause {
            _ if is_closed => closed(),
            Some(cause) if cause.code() == ErrorCode::AddonFault => cause.clone(),
            _ => exit.tell(lost(self.session.agent, &exit, cause.as_ref())),
        };
        // Whatever the agent said into it, no secret leaves by it.
        let gone = self.redacted(&gone);
        self.lock().gone = Some(gone.clone());
        self.close_tools();
        let now = self.now();
        let despite = self.turns.active.as_mut().and_then(|active| match active.state.without_last_words() {
            Some(ending) => Some(ending.clone()),
            None if is_closed || cause.is_some() => None,
            None => active.end_despite(exit.signal.as_deref(), now),
        });
        if let Some(ending) = despite {
            self.on_end(&ending, now);
        }
        if let Some(active) = &self.turns.active {
            let name = self.session.agent.as_str();
            let error = match active.end.stop {
                _ if is_closed => Stop::Closed.error(name, &self.silence()),
                _ if gone.code() == ErrorCode::AddonFault => gone.clone(),
                Some(stop) => exit.tell(disobeyed(stop.error(name, &self.silence()))),
                None => exit.crash(self.session.agent, " in its turn", cause.as_ref()),
            };
            self.finish(None, Some(error), now);
        }
        self.end_own_turn();
        self.listeners.flush(&mut self.turns);
        for prompt in self.turns.queue.drain(..) {
            prompt.refuse(gone.clone());
        }
        self.refuse_waiters(&gone);
        self.tell_cancelled();
        for mut audience in std::mem::take(&mut self.listeners.all) {
            audience.end();
            if let Some(record) = audience.record.take() {
                let facts = record.close(None, (!is_closed).then_some(&gone), false).await;
                self.lock().record = Some(facts);
            }
        }
        if let Some(folder) = self.held.folder.take() {
            folder.remove().await;
        }
        // Before those who closed it are told: they may resume it at once.
        self.held.claim = None;
    }

    /// Nothing is open any more.
    pub(super) fn close_tools(&mut self) {
        for event in self.work.book.close_all() {
            self.tell(event);
        }
    }

    /// Ends every wait for the session with this error.
    fn refuse_waiters(&mut self, gone: &Error) {
        let mut replies: Vec<Reply<()>> = self.work.waiters.drain(..).collect();
        replies.extend(self.link.pending.drain().filter_map(|(_, pending)| pending.reply));
        for reply in replies {
            let _ = reply.send(Err(gone.clone()));
        }
    }

    /// An error as its user may see it.
    pub(super) fn redacted(&self, error: &Error) -> Error {
        self.session.request.agent.redact.redact_error(error)
    }

    pub(super) fn gone(&self) -> Error {
        self.lock().gone.clone().unwrap_or_else(closed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shown> {
        lock(&self.shown)
    }

    pub(super) fn show(&self) {
        let mut shown = self.lock();
        shown.modes = self.settings.modes();
        shown.options = self.settings.options.clone();
    }
}

/// The agent was killed for not obeying.
fn disobeyed(error: Error) -> Error {
    error.adding("It did not end its turn when asked, so its tree was killed: `open` with `resume` to go on")
}

fn lost(agent: Provider, exit: &Exit, cause: Option<&Error>) -> Error {
    let how = exit.loss(agent, "", cause);
    let message = format!("the session is closed: {how}; `open` with `resume` to go on");
    let error = Error::new(ErrorCode::SessionClosed, message);
    match cause {
        Some(cause) => error.caused_by(cause.clone()),
        None => error,
    }
}
