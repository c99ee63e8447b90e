//! Owner of a turn. It queues the turn, runs it, retries it if that is worth it, and asks again for an answer that fits its
//! schema.
//!
//! [`start`] spawns the owner task and returns a cloneable [`Turn`]. An abort is an order to the owner, which stops the process
//! and waits until its tree is gone; dropping the last handle is an abort. The outcome is published once, after the run's
//! folder is removed and the slot is free. The step that follows an attempt is decided in `next`.

use super::audience::Audience;
use super::command::Command;
use super::log::{log_begin, log_end, log_next};
use super::next::{Ended, Next, Past, Wait, next};
use super::preparation::Again;
use super::record::{Judged, TurnRecord, facts_of};
use super::request::TurnRequest;
use super::structured::{REASKED, misfit};
use super::way::{Attempted, Task, Way};
use super::{Order, Turn, TurnOutcome};
use crate::harness::budget::allowance::Allowance;
use crate::harness::clip::tail;
use crate::harness::event::AgentEvent;
use crate::harness::limit::hold::{from_now, wall_clock};
use crate::harness::limit::scheduler::{ConcurrencyLimit, Preparation, Slot, Waiting};
use crate::harness::limit::usage_limit::{HeldAccount, UsageLimit, waiting};
use crate::harness::verdict::Fault;
use crate::harness::verdict::recent::{last_behind, reread};
use crate::harness::verdict::result::TurnResult;
use crate::harness::verdict::tally::Tally;
use ground::error::{Error, ErrorCode};
use ground::mpsc::UnboundedReceiver;
use ground::random;
use ground::trace::{self, TURN, debug};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Starts a turn under these limits and returns at once. Call it within tokio.
pub fn start(
    request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    preparation: Option<Preparation<TurnRequest>>,
) -> Turn {
    start_by::<Command>(request, limits, preparation)
}

/// The same for a turn whose attempts are made in this way.
pub(crate) fn start_by<W: Way>(
    request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    preparation: Option<Preparation<TurnRequest>>,
) -> Turn {
    let (turn, received, publish) = Turn::run_elsewhere();
    // The place is taken here and not in the task, so that turns queue in the order of their starts.
    let place = Waiting::begin(limits.clone());
    ground::task::spawn(async move {
        let mut owner = Owner::new(request, limits, received);
        let outcome = owner.run::<W>(place, preparation).await;
        publish.send_replace(Some(Arc::new(outcome)));
        owner.audience.serve_late(&mut owner.orders).await;
    });
    turn
}

struct Owner {
    /// Number of the turn in the log.
    number: u64,
    request: TurnRequest,
    account: HeldAccount,
    orders: UnboundedReceiver<Order>,
    audience: Audience,
    started: Instant,
    queued: Duration,
    tally: Tally,
    /// Events of the harness between attempts.
    retries: Vec<AgentEvent>,
    last: Option<Attempted>,
    /// The error is known without a verdict on the last attempt.
    is_told: bool,
}

impl Owner {
    fn new(request: TurnRequest, limits: Vec<ConcurrencyLimit>, orders: UnboundedReceiver<Order>) -> Self {
        Owner {
            number: trace::number(),
            audience: Audience::new(request.has_listener, request.agent.redact.clone()),
            account: HeldAccount::new(&request.agent, limits, request.wait_for_reset),
            request,
            orders,
            started: Instant::now(),
            queued: Duration::ZERO,
            tally: Tally::default(),
            retries: Vec::new(),
            last: None,
            is_told: true,
        }
    }

    async fn run<W: Way>(
        &mut self,
        place: Waiting,
        preparation: Option<Preparation<TurnRequest>>,
    ) -> TurnOutcome {
        log_begin(self.number, &self.request);
        let ended = match W::check(&self.request).and_then(|()| self.allowance()) {
            Ok(allowance) => match self.open_record::<W>().await {
                Ok(()) => self.run_in_turn::<W>(place, preparation, &allowance).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        if let Some(last) = &mut self.last {
            self.audience.tell(std::mem::take(&mut last.last_events));
        }
        self.audience.end();
        log_end(self.number, self.tally.attempts, ended.as_ref().err());
        let outcome = self.outcome(ended);
        self.close_record(outcome).await
    }

    fn label(&self) -> String {
        self.audience.redact(&self.request.label())
    }

    async fn open_record<W: Way>(&mut self) -> Result<(), Error> {
        if !W::IS_RECORDED {
            return Ok(());
        }
        let (agent, label, facts) = (self.request.agent.clone(), self.label(), facts_of(&self.request));
        self.audience.record = self.or_abort(TurnRecord::open("turn", &agent, &label, facts)).await??;
        Ok(())
    }

    async fn close_record(&mut self, mut outcome: TurnOutcome) -> TurnOutcome {
        let Some(record) = self.audience.record.take() else { return outcome };
        let (result, error) = match &mut outcome {
            TurnOutcome::Succeeded(result) => (Some(result), None),
            TurnOutcome::Failed { error, partial } => (partial.as_mut(), Some(&*error)),
        };
        record.close(result, error, !self.is_told).await;
        outcome
    }

    /// The turn's budgets, or the error that keeps it from starting.
    fn allowance(&self) -> Result<Allowance, Error> {
        let allowance = self.request.allowance()?;
        match self.request.agent.limits.passed("the turn was not started") {
            Some(error) => Err(error),
            None => allowance.check().map(|()| allowance),
        }
    }

    async fn run_in_turn<W: Way>(
        &mut self,
        place: Waiting,
        preparation: Option<Preparation<TurnRequest>>,
        allowance: &Allowance,
    ) -> Result<Option<Value>, Error> {
        let slot = self.slot(Some(place), allowance).await;
        self.queued = self.started.elapsed();
        let slot = slot?;
        debug!(target: TURN, id = self.number, queued_ms = self.queued.as_millis(), "has a slot");
        let mut way = W::to(&self.request.agent)?;
        if let Some(preparation) = preparation {
            self.request = self.or_abort(preparation).await??;
            W::check(&self.request)?;
        }
        self.tally.pricing = allowance.pricing();
        let ended = self.run_attempts(slot, &mut way, allowance).await;
        way.end().await;
        ended
    }

    /// The right to run, once the account is not at its limit. Who is held back has no place in the queue.
    async fn slot(&mut self, mut place: Option<Waiting>, allowance: &Allowance) -> Result<Slot, Error> {
        loop {
            if let Some(until) = self.account.held_until() {
                place = None;
                debug!(target: TURN, id = self.number, for_ms = from_now(until).as_millis(), "is held back: its account is at its limit");
                self.tell_between(waiting(self.request.agent.provider, false, until));
                self.pause(wall_clock(until), allowance).await?;
                continue;
            }
            let waiting = place.take().unwrap_or_else(|| Waiting::begin(self.account.limits.clone()));
            let slot = self.pause(waiting.end(), allowance).await?;
            // The limit may have been met since.
            if self.account.held_until().is_none() {
                return Ok(slot);
            }
        }
    }

    async fn run_attempts(
        &mut self,
        mut slot: Slot,
        way: &mut impl Way,
        allowance: &Allowance,
    ) -> Result<Option<Value>, Error> {
        let mut again = Again::Prompt;
        // For the end of a limit, since anything was done.
        let mut waits = 0u32;
        loop {
            // Others may have used it up since, and so may the attempt before.
            allowance.check()?;
            let attempted = self.attempt(way, &again, allowance).await?;
            let fault = attempted.fault.as_ref();
            let reset = fault.and_then(|fault| self.account.meet(fault, &self.request.agent));
            waits = if attempted.has_worked { 0 } else { waits };
            let next = self.next(&attempted, &again, (reset, waits));
            let session = attempted.result.facts.session_id.clone();
            self.judged(attempted, &next);
            match next {
                Next::Done { structured } => return Ok(structured),
                Next::Failed(fault) if fault.error.code() == ErrorCode::AgentBudget => {
                    return Err(allowance.exceeded());
                }
                Next::Anew => {
                    self.tell_retry("the CLI did not keep its session: the turn starts again".to_owned());
                    again = Again::Prompt;
                }
                Next::Failed(fault) => return Err(self.error_of(&fault, reset)),
                Next::Misfit { problems } => return Err(self.misfit(&problems)),
                Next::Retry { delay, reason } => {
                    self.tell_retry(format!(
                        "attempt {} failed ({reason}): the turn is tried again in {} ms",
                        self.tally.attempts,
                        delay.as_millis()
                    ));
                    drop(slot);
                    self.pause(tokio::time::sleep(delay), allowance).await?;
                    slot = self.slot(None, allowance).await?;
                }
                Next::Wait(Wait { least, .. }) => {
                    let until = reset.map_or_else(|| SystemTime::now() + least, |limit| limit.after(least));
                    self.tell_between(waiting(self.request.agent.provider, true, until));
                    drop(slot);
                    self.pause(wall_clock(until), allowance).await?;
                    waits += 1;
                    again = again.after_limit(session, self.tally.has_worked);
                    slot = self.slot(None, allowance).await?;
                }
                Next::Reask { session, problems } => {
                    self.tell_retry(REASKED.to_owned());
                    again = Again::Answer { session, problems };
                }
            }
        }
    }

    /// Makes one attempt.
    async fn attempt(
        &mut self,
        way: &mut impl Way,
        again: &Again,
        allowance: &Allowance,
    ) -> Result<Attempted, Error> {
        let task = Task {
            number: self.number,
            request: &self.request,
            allowance,
            account: &self.account,
            again,
            name: self.label(),
        };
        let mut attempted = way.attempt(&task, &mut self.orders, &mut self.audience).await?;
        self.tally.count(&attempted.result, attempted.has_worked);
        if self.request.agent.sandbox.is_some() {
            self.tally.count_refused(&attempted.refused);
            self.tally.count_metered(&attempted.metered);
        }
        self.is_told = true;
        if let Some(error) = attempted.error.take() {
            self.last = Some(attempted);
            return Err(error);
        }
        Ok(attempted)
    }

    /// Keeps what follows from an attempt, and writes the evidence of its verdict to the record, so that a reader can make the
    /// verdict again.
    fn judged(&mut self, attempted: Attempted, next: &Next) {
        let retry = match next {
            Next::Retry { reason, .. } => Some(self.audience.redact(reason)),
            Next::Wait(_) => Some("its usage limit is waited out".to_owned()),
            Next::Reask { .. } => Some("the answer does not fit the schema".to_owned()),
            Next::Anew => Some("its session was not kept".to_owned()),
            Next::Done { .. } | Next::Failed(_) | Next::Misfit { .. } => None,
        };
        // Set until the next attempt is judged. Also set for a budget, because the sum over several attempts is not in one
        // attempt.
        let is_budget = matches!(next, Next::Failed(fault) if fault.error.code() == ErrorCode::AgentBudget);
        self.is_told = retry.is_some() || is_budget;
        let is_uncounted = !next.counts();
        if let Some(record) = &mut self.audience.record {
            let prices = self.tally.pricing.prices;
            record.judge(&Judged { retry, prices, is_uncounted, ..attempted.judged.clone() });
        }
        log_next(self.number, self.tally.attempts, next);
        if is_uncounted {
            self.tally.uncount();
        }
        self.last = Some(attempted);
    }

    fn next(&self, attempted: &Attempted, again: &Again, (reset, waits): (Option<UsageLimit>, u32)) -> Next {
        let ended = Ended {
            fault: attempted.fault.as_ref(),
            session: attempted.result.facts.session_id.as_deref(),
            is_aborted: attempted.is_aborted,
            reset_in: reset.map(UsageLimit::left),
            has_worked: attempted.has_worked,
            reading: attempted.reading.as_ref(),
        };
        let past = Past {
            attempts: self.tally.attempts,
            is_reasked: matches!(again, Again::Answer { .. }),
            policy: self.request.retry,
            may_repeat: self.request.retry_after_tools || self.tally.tool_calls == 0,
            wait_for_reset: self.request.wait_for_reset,
            may_begin_anew: again.is_of_nothing() && self.request.agent.resume.is_none(),
            waits,
            random: random::fraction(),
        };
        next(&ended, &past)
    }

    fn error_of(&self, fault: &Fault, limit: Option<UsageLimit>) -> Error {
        let error = self.audience.redact_error(&fault.error);
        match limit {
            Some(limit) => limit.tell(error),
            None => error,
        }
    }

    fn misfit(&self, problems: &[String]) -> Error {
        // They quote the answer, which may hold anything.
        let problems = problems.iter().map(|problem| self.audience.redact(problem)).collect();
        misfit(self.request.agent.provider, problems)
    }

    fn tell_retry(&mut self, message: String) {
        self.tell_between(AgentEvent::Retry { message, until: None });
    }

    fn tell_between(&mut self, event: AgentEvent) {
        if self.audience.wants_events() {
            self.audience.tell(vec![event.clone()]);
        }
        self.retries.push(event);
    }

    /// Waits for something before an attempt, unless a budget that others share is crossed meanwhile.
    async fn pause<T>(&mut self, wait: impl Future<Output = T>, allowance: &Allowance) -> Result<T, Error> {
        let waited = async {
            tokio::select! {
                biased;
                () = allowance.crossed() => Err(allowance.exceeded()),
                value = wait => Ok(value),
            }
        };
        self.or_abort(waited).await?
    }

    /// Waits for something, and for an abort meanwhile.
    async fn or_abort<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => if !self.audience.heed(order) {
                    let message =
                        format!("the {} turn was aborted while it waited", self.request.agent.provider.as_str());
                    return Err(Error::new(ErrorCode::AgentAborted, message));
                },
                value = &mut wait => return Ok(value),
            }
        }
    }

    fn outcome(&mut self, ended: Result<Option<Value>, Error>) -> TurnOutcome {
        match ended {
            Err(error) if error.code() == ErrorCode::InvalidOption => TurnOutcome::refused(error),
            Err(error) => {
                let error = error.with("events", self.recent_events());
                let partial = self.result();
                let error = match &partial.facts.process {
                    // The result's own is without secrets already.
                    Some(process) => error.with("stderr", tail(&process.stderr, 4096)),
                    None => error,
                };
                TurnOutcome::Failed { error, partial: Some(partial) }
            }
            Ok(structured) => {
                let mut result = self.result();
                if let Some(mut structured) = structured {
                    self.audience.redact_value(&mut structured);
                    result.facts.structured = Some(structured);
                }
                TurnOutcome::Succeeded(result)
            }
        }
    }

    /// The last events, whether or not somebody listened to them.
    fn recent_events(&self) -> Vec<Value> {
        let mut events = self.retries.clone();
        if let Some(Attempted { result, judged, .. }) = &self.last
            && let Some(process) = &result.facts.process
        {
            let provider = self.request.agent.provider;
            let warnings = &result.facts.warnings;
            events.extend(reread(provider, judged.before, &process.stdout, process.truncated, warnings));
        }
        // An attempt over the protocol has told its own in its error.
        let fault = self.last.as_ref().and_then(|last| last.fault.as_ref());
        let told = fault.and_then(|fault| fault.error.facts().get("events")?.as_array());
        last_behind(&self.audience.redact_all(events), told.map_or(&[], Vec::as_slice))
    }

    /// The result so far, without secrets.
    fn result(&mut self) -> TurnResult {
        let last = self.last.take().map(|last| last.result);
        let mut result = last.unwrap_or_else(|| TurnResult::empty(self.request.agent.provider));
        self.tally.fill(&mut result.facts);
        result.facts.queued_ms = self.queued.as_secs_f64() * 1e3;
        result.facts.duration_ms = self.started.elapsed().saturating_sub(self.queued).as_secs_f64() * 1e3;
        self.audience.redact_result(&mut result);
        result
    }
}
