//! A turn over the protocol: each attempt is a session with one prompt. Agents that are known by their command only run in this way.
//!
//! The session makes the verdict, asks again for an answer that fits the schema, and waits for usage limits.

use crate::acp::opening::request::{OpenRequest, PromptRequest};
use crate::acp::session::{Session, open_in};
use crate::harness::turn::Order;
use crate::harness::turn::audience::Audience;
use crate::harness::turn::owner::start_by;
use crate::harness::turn::record::Judged;
use crate::harness::turn::request::Background;
use crate::harness::turn::way::{Attempted, Task, Way};
use crate::harness::verdict::Fault;
use crate::harness::verdict::result::TurnResult;
use crate::harness::{
    AgentEvent, AgentRequest, ConcurrencyLimit, EventReader, Preparation, Turn, TurnOutcome, TurnRequest,
};
use crate::model::AbortSwitch;
use ground::error::{Error, ErrorCode};
use ground::mpsc::{UnboundedReceiver, unbounded_channel};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts a turn under these limits and returns at once. Call it within tokio.
pub fn start_turn(
    request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    preparation: Option<Preparation<TurnRequest>>,
) -> Turn {
    start_by::<SingleTurn>(request, limits, preparation)
}

struct SingleTurn {
    /// The folder whose installed packages may hold the program: that of the caller, whatever checkout the agent works in.
    packages: Option<PathBuf>,
}

impl Way for SingleTurn {
    const IS_RECORDED: bool = false;

    fn check(request: &TurnRequest) -> Result<(), Error> {
        open_request(request).map(drop)
    }

    fn to(agent: &AgentRequest) -> Result<SingleTurn, Error> {
        Ok(SingleTurn { packages: agent.cwd.clone() })
    }

    async fn attempt(
        &mut self,
        task: &Task<'_>,
        orders: &mut UnboundedReceiver<Order>,
        audience: &mut Audience,
    ) -> Result<Attempted, Error> {
        let mut open = open_request(task.request)?;
        open.packages.clone_from(&self.packages);
        let mut under_way = UnderWay { orders, audience, is_aborted: false, last_events: Vec::new() };
        let (mut result, error) = match under_way.open(task, open).await {
            Err(error) if error.code() == ErrorCode::InvalidOption => return Err(error),
            Err(error) => (TurnResult::empty(task.request.agent.provider), Some(error)),
            Ok(session) => under_way.prompt(task.request, session).await,
        };
        let ignored =
            [("cliTools", task.request.cli_tools.is_some()), ("maxTurns", task.request.max_turns.is_some())];
        let warnings = ignored
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(option, _)| format!("{option}: this agent does not support this option; it was ignored"));
        let facts = &mut result.facts;
        facts.warnings.splice(0..0, warnings);
        Ok(Attempted {
            fault: error.map(Fault::from),
            error: None,
            reading: None,
            has_worked: facts.turns > 0 || facts.tool_calls > 0,
            is_aborted: under_way.is_aborted,
            last_events: under_way.last_events,
            refused: facts.sandbox.take().map(|sandbox| sandbox.refused).unwrap_or_default(),
            metered: facts.metered.take().unwrap_or_default(),
            judged: Judged::default(),
            result,
        })
    }

    async fn end(self) {}
}

/// The session of an attempt, or the option that no session can serve.
fn open_request(request: &TurnRequest) -> Result<OpenRequest, Error> {
    request.check()?;
    let mut open = OpenRequest::of(request.agent.clone());
    open.agent.name = Some(request.label());
    if let Some(words) = &mut open.agent.binary {
        words.extend(request.extra_args.iter().cloned());
    }
    open.allow_commands(request.allow.clone())?;
    open.servers = request.mcp_servers.clone();
    open.wait_for_reset = request.wait_for_reset;
    Ok(open)
}

/// An attempt, and those who hear of it.
struct UnderWay<'a> {
    orders: &'a mut UnboundedReceiver<Order>,
    audience: &'a mut Audience,
    is_aborted: bool,
    /// The session's own events of the failure and the end.
    last_events: Vec<AgentEvent>,
}

impl UnderWay<'_> {
    async fn open(&mut self, task: &Task<'_>, request: OpenRequest) -> Result<Session, Error> {
        // Nobody answers: what the rules leave open is refused.
        let (host, _) = unbounded_channel();
        let switch = AbortSwitch::default();
        let (allowance, account) = (task.allowance.clone(), task.account.clone());
        let opening = open_in(request, allowance, account, None, host, switch.clone().cancelled_owned());
        let mut opening = Box::pin(opening);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv(), if !self.is_aborted => if !self.audience.heed(order) {
                    self.is_aborted = true;
                    switch.cancel();
                },
                opened = &mut opening => return opened,
            }
        }
    }

    /// Sends the turn's prompt, and closes the session.
    async fn prompt(&mut self, request: &TurnRequest, session: Session) -> (TurnResult, Option<Error>) {
        let mut prompt = PromptRequest::new(request.prompt.clone());
        prompt.schema = request.schema.clone();
        prompt.leaves = request.background == Background::Leave;
        prompt.has_listener = request.has_listener;
        let turn = session.start(prompt);
        if self.is_aborted {
            // The abort came in the moment in which the session was open.
            turn.abort();
        }
        let outcome = self.follow(&turn, request.has_listener).await;
        session.close().await;
        let (result, error) = match TurnOutcome::clone(&outcome) {
            TurnOutcome::Succeeded(result) => (Some(result), None),
            TurnOutcome::Failed { error, partial } => (partial, Some(error)),
        };
        let mut result = result.unwrap_or_else(|| TurnResult::empty(request.agent.provider));
        if let Some(facts) = session.record_facts() {
            result.keep_record(facts);
        }
        (result, error)
    }

    /// Passes the events on until the turn is over. A slow listener is waited for as long as the turn goes on.
    async fn follow(&mut self, turn: &Turn, has_listener: bool) -> Arc<TurnOutcome> {
        let mut reader = has_listener.then(|| turn.events());
        let mut ended = None;
        loop {
            let is_held = !self.is_aborted && ended.is_none() && self.audience.is_full();
            tokio::select! {
                // A listener hears what came before it only as far as it is kept.
                biased;
                order = self.orders.recv(), if !self.is_aborted => if !self.audience.heed(order) {
                    self.is_aborted = true;
                    turn.abort();
                },
                () = self.audience.room(), if is_held => {}
                events = next_events(&mut reader), if !is_held => match events {
                    Some(events) => self.tell(events),
                    None => reader = None,
                },
                outcome = turn.outcome(), if ended.is_none() => ended = Some(outcome),
            }
            if let (None, Some(outcome)) = (&reader, &ended) {
                return Arc::clone(outcome);
            }
        }
    }

    fn tell(&mut self, events: Vec<AgentEvent>) {
        let is_last = |event: &AgentEvent| matches!(event, AgentEvent::Error { .. } | AgentEvent::End { .. });
        let (last, told) = events.into_iter().partition(is_last);
        self.last_events.extend::<Vec<_>>(last);
        self.audience.tell(told);
    }
}

async fn next_events(reader: &mut Option<EventReader>) -> Option<Vec<AgentEvent>> {
    match reader {
        Some(reader) => reader.next().await,
        None => pending().await,
    }
}
