//! A turn over the protocol: one session, and one prompt in it. Agents that are known by their command only run in this way.
//!
//! Each attempt has a session of its own, which is closed before the next attempt and before the outcome is published. The
//! session makes the verdict; [`repeats`] decides whether another attempt follows.

use crate::acp::opening::aborted as was_aborted;
use crate::acp::opening::request::{OpenRequest, PromptRequest};
use crate::acp::session::{Session, open_in};
use crate::harness::evidence::reset::retry_after_in;
use crate::harness::limit::scheduler::{Preparation, Slot, Waiting};
use crate::harness::turn::Order;
use crate::harness::turn::audience::Audience;
use crate::harness::turn::owner::{aborted_in_wait, again_in};
use crate::harness::turn::request::Background;
use crate::harness::verdict::result::TurnResult;
use crate::harness::{
    AgentErrorKind, AgentEvent, ConcurrencyLimit, EventReader, Turn, TurnOutcome, TurnRequest,
};
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::mpsc::{UnboundedReceiver, unbounded_channel};
use ground::random;
use ground::redaction::Redactor;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Starts a turn under these limits and returns at once. Call it within tokio.
pub fn start_turn(
    request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    preparation: Option<Preparation<TurnRequest>>,
) -> Turn {
    let (turn, orders, publish) = Turn::run_elsewhere();
    let place = Waiting::begin(limits.clone());
    ground::task::spawn(async move {
        let mut owner = Owner {
            // The events of the session are without secrets already.
            audience: Mutex::new(Audience::new(request.has_listener, Redactor::default())),
            orders,
            limits,
            started: Instant::now(),
            queued: Duration::ZERO,
            attempts: 0,
            held: Vec::new(),
            request,
        };
        let outcome = owner.run(place, preparation).await;
        let mut audience = owner.audience.into_inner().unwrap_or_else(PoisonError::into_inner);
        audience.end();
        publish.send_replace(Some(Arc::new(outcome)));
        audience.serve_late(&mut owner.orders).await;
    });
    turn
}

struct Owner {
    request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    orders: UnboundedReceiver<Order>,
    audience: Mutex<Audience>,
    started: Instant,
    queued: Duration,
    attempts: u32,
    /// The attempt's own events of its failure and its end. They are told when no other attempt follows.
    held: Vec<AgentEvent>,
}

/// An order from outside, as far as the turn itself has to act on it.
struct Abort;

impl Owner {
    async fn run(
        &mut self,
        place: Waiting,
        mut preparation: Option<Preparation<TurnRequest>>,
    ) -> TurnOutcome {
        let mut place = Some(place);
        loop {
            let ended = match self.open_request() {
                Ok(_) => self.attempt(&mut place, &mut preparation).await,
                Err(error) => Err(error),
            };
            let mut outcome = match ended {
                Ok(outcome) => outcome,
                Err(error) if error.code() == ErrorCode::InvalidOption => return TurnOutcome::refused(error),
                Err(error) => {
                    let partial = TurnResult::empty(self.request.agent.provider);
                    TurnOutcome::Failed { error, partial: Some(partial) }
                }
            };
            if let Some(delay) = self.delay_before_another(&outcome) {
                self.held.clear();
                let reason = outcome.error().map_or_else(String::new, |error| error.message().to_owned());
                let message = again_in(delay, self.attempts, &reason);
                lock(&self.audience).tell(vec![AgentEvent::Retry { message, until: None }]);
                match self.or_abort(tokio::time::sleep(delay)).await {
                    Ok(()) => continue,
                    Err(Abort) => return self.aborted(outcome),
                }
            }
            let held = std::mem::take(&mut self.held);
            lock(&self.audience).tell(held);
            self.complete(&mut outcome);
            return outcome;
        }
    }

    /// The session of one attempt, or the option that no session can serve.
    fn open_request(&self) -> Result<OpenRequest, Error> {
        self.request.check()?;
        let mut open = OpenRequest::of(self.request.agent.clone());
        open.agent.name = Some(self.request.label());
        if let Some(words) = &mut open.agent.binary {
            words.extend(self.request.extra_args.iter().cloned());
        }
        open.allow_commands(self.request.allow.clone())?;
        open.servers = self.request.mcp_servers.clone();
        open.wait_for_reset = self.request.wait_for_reset;
        Ok(open)
    }

    async fn attempt(
        &mut self,
        place: &mut Option<Waiting>,
        preparation: &mut Option<Preparation<TurnRequest>>,
    ) -> Result<TurnOutcome, Error> {
        let slot = self.slot(place).await?;
        if let Some(preparation) = preparation.take() {
            self.request = self.or_abort(preparation).await.map_err(|Abort| was_aborted())??;
        }
        let opened = self.open(self.open_request()?, slot).await;
        // When nothing is left of a budget, nothing is started.
        let is_spent = opened.as_ref().is_err_and(|error| error.code() == ErrorCode::AgentBudget);
        self.attempts += u32::from(!is_spent);
        let session = opened?;
        let mut prompt = PromptRequest::new(self.request.prompt.clone());
        prompt.schema = self.request.schema.clone();
        prompt.waits = self.request.background == Background::Wait;
        prompt.has_listener = self.request.has_listener;
        let turn = session.start(prompt);
        let outcome = self.follow(&turn).await;
        session.close().await;
        let mut outcome = TurnOutcome::clone(&outcome);
        if let (Some(facts), Some(result)) = (session.record_facts(), result_of(&mut outcome)) {
            result.keep_record(facts);
        }
        Ok(outcome)
    }

    /// The right to run; the first one was asked for at the start of the turn.
    async fn slot(&mut self, place: &mut Option<Waiting>) -> Result<Slot, Error> {
        let waiting = place.take().unwrap_or_else(|| Waiting::begin(self.limits.clone()));
        let begun = Instant::now();
        let slot = self.or_abort(waiting.end()).await;
        self.queued += begun.elapsed();
        slot.map_err(|Abort| was_aborted())
    }

    async fn open(&mut self, request: OpenRequest, slot: Slot) -> Result<Session, Error> {
        // Nobody answers: what the rules leave open is refused.
        let (host, _) = unbounded_channel();
        let (give_up, given_up) = tokio::sync::oneshot::channel::<()>();
        let aborted = async move {
            if given_up.await.is_err() {
                pending::<()>().await;
            }
        };
        let mut opening = Box::pin(open_in(request, (self.limits.clone(), slot), host, aborted));
        tokio::select! {
            opened = &mut opening => opened,
            Abort = next_order(&mut self.orders, &self.audience) => {
                let _ = give_up.send(());
                opening.await
            }
        }
    }

    /// Passes the events on until the turn is over.
    async fn follow(&mut self, turn: &Turn) -> Arc<TurnOutcome> {
        let mut reader = self.request.has_listener.then(|| turn.events());
        let (mut ended, mut is_aborted) = (None, false);
        loop {
            let audience = &self.audience;
            tokio::select! {
                // A listener hears what came before it only as far as it is kept.
                biased;
                Abort = next_order(&mut self.orders, audience), if !is_aborted => {
                    is_aborted = true;
                    turn.abort();
                }
                events = events(&mut reader, audience) => match events {
                    Some(events) => self.tell(events),
                    None => reader = None,
                },
                outcome = turn.outcome(), if ended.is_none() => ended = Some(outcome),
            }
            if reader.is_none()
                && let Some(outcome) = ended.take()
            {
                return outcome;
            }
        }
    }

    fn tell(&mut self, events: Vec<AgentEvent>) {
        let mut told = Vec::with_capacity(events.len());
        for event in events {
            match event {
                AgentEvent::Error { .. } | AgentEvent::End { .. } => self.held.push(event),
                AgentEvent::TurnStart { .. } | AgentEvent::TurnEnd { .. } => {}
                event => told.push(event),
            }
        }
        lock(&self.audience).tell(told);
    }

    /// The pause before another attempt; `None`: this was the last one.
    fn delay_before_another(&self, outcome: &TurnOutcome) -> Option<Duration> {
        let TurnOutcome::Failed { error, partial } = outcome else { return None };
        let calls = partial.as_ref().map_or(0, |result| result.facts.tool_calls);
        let policy = &self.request.retry;
        let may_repeat = self.request.retry_after_tools || calls == 0;
        (may_repeat && self.attempts < policy.attempts && repeats(error))
            .then(|| policy.wait(self.attempts, retry_after_in(error.message()), random::fraction()))?
    }

    fn aborted(&mut self, outcome: TurnOutcome) -> TurnOutcome {
        let error = aborted_in_wait(self.request.agent.provider);
        let partial = match outcome {
            TurnOutcome::Succeeded(result) => Some(result),
            TurnOutcome::Failed { partial, .. } => partial,
        };
        let mut outcome = TurnOutcome::Failed { error, partial };
        self.complete(&mut outcome);
        outcome
    }

    /// Adds the figures of the whole turn.
    fn complete(&self, outcome: &mut TurnOutcome) {
        let Some(result) = result_of(outcome) else { return };
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let facts = &mut result.facts;
        // An attempt that failed to open has no figures of its own.
        facts.attempts = self.attempts.checked_sub(1).map_or(0, |others| facts.attempts.max(1) + others);
        facts.queued_ms = millis(self.queued);
        facts.duration_ms = millis(self.started.elapsed().saturating_sub(self.queued));
        let ignored =
            [("cliTools", self.request.cli_tools.is_some()), ("maxTurns", self.request.max_turns.is_some())];
        let warnings = ignored
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(option, _)| format!("{option}: this agent does not support this option; it was ignored"));
        facts.warnings.splice(0..0, warnings);
    }

    /// Waits for something, and for an abort meanwhile.
    async fn or_abort<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Abort> {
        tokio::select! {
            Abort = next_order(&mut self.orders, &self.audience) => Err(Abort),
            value = wait => Ok(value),
        }
    }
}

fn result_of(outcome: &mut TurnOutcome) -> Option<&mut TurnResult> {
    match outcome {
        TurnOutcome::Succeeded(result) => Some(result),
        TurnOutcome::Failed { partial, .. } => partial.as_mut(),
    }
}

/// Carries out the orders about listeners. Resolves with the first order that ends the turn.
async fn next_order(orders: &mut UnboundedReceiver<Order>, audience: &Mutex<Audience>) -> Abort {
    loop {
        let order = orders.recv().await;
        if !lock(audience).heed(order) {
            return Abort;
        }
    }
}

/// The next events, once the audience has room for them.
async fn events(reader: &mut Option<EventReader>, audience: &Mutex<Audience>) -> Option<Vec<AgentEvent>> {
    let Some(reader) = reader else { return pending().await };
    poll_fn(|context| lock(audience).poll_room(context)).await;
    reader.next().await
}

/// Whether the same turn may well succeed when it is tried again.
fn repeats(error: &Error) -> bool {
    let is_the_agents =
        matches!(error.code(), ErrorCode::AgentFailed | ErrorCode::AgentCrashed | ErrorCode::AgentTruncated);
    is_the_agents && AgentErrorKind::of(error).is_some_and(AgentErrorKind::is_transient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_repeated_for_a_passing_failure_of_its_agent() {
        let error = |code, kind: &str| Error::new(code, "it said so").with("kind", kind);
        for (code, kind, expected) in [
            (ErrorCode::AgentFailed, "server", true),
            (ErrorCode::AgentFailed, "rate_limit", true),
            (ErrorCode::AgentFailed, "auth", false),
            (ErrorCode::AgentFailed, "unknown", false),
            (ErrorCode::AgentTimedOut, "server", false),
            (ErrorCode::AgentAborted, "network", false),
        ] {
            assert_eq!(repeats(&error(code, kind)), expected, "{code:?} {kind}");
        }
    }
}
