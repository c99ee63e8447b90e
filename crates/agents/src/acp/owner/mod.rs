//! The owner task of a session: all its state, one `select!`, and the listeners. Orders of its users are handled in `user_orders`, the
//! agent's messages in `agent_messages`, its questions in `questions`; turns begin and end in `turns`, and are stopped in `stopping`.

pub(crate) mod agent_log;
pub(crate) mod agent_messages;
pub(crate) mod leftovers;
pub(crate) mod limit_wait;
pub(crate) mod questions;
pub(crate) mod stopping;
pub(crate) mod turns;
pub(crate) mod user_orders;

use crate::acp::opening::Opened;
use crate::acp::opening::request::OpenRequest;
use crate::acp::opening::settings::{Mode, SessionOption, Settings};
use crate::acp::question::HostRequest;
use crate::acp::state::link::Link;
use crate::acp::state::listeners::Listeners;
use crate::acp::state::order::{Order, Reply};
use crate::acp::state::search::{Left, Leftovers, Search};
use crate::acp::state::session_state::{Afterwords, Questions, SessionFacts, Spending, Turns, Work};
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::wire::connection::{Exit, Inbox, Said};
use crate::harness::AgentEvent;
use crate::harness::budget::allowance::Allowance;
use crate::harness::evidence::refused::refused_words;
use crate::harness::folder::RunFolder;
use crate::harness::limit::scheduler::Slot;
use crate::harness::limit::usage_limit::HeldAccount;
use crate::harness::turn::audience::Audience;
use crate::harness::turn::traffic::TrafficNews;
use crate::harness::verdict::Stop;
use futures_util::FutureExt;
use ground::error::{Error, ErrorCode};
use ground::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use ground::os::{Awake, Claim};
use ground::record::RecordFacts;
use ground::trace::{self, SESSION, debug};
use process::Refused;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wires::jsonrpc::is_closed_by_peer;

/// Name of the server of the host's own tools.
const OWN_TOOLS: &str = "sheepdog";

/// Messages that are looked at before their events are told.
const TOGETHER: usize = 256;

/// The reason why the session is over.
pub(super) enum Over {
    /// A handle closed the session, or the last handle was dropped.
    Closed,
    /// The process is gone, or was killed for not obeying. The error is set if its stream ended for another reason than its exit.
    Gone(Exit, Option<Error>),
    /// A fault inside of the session's own task.
    Faulted(Error),
}

/// State that handles read without asking the owner.
#[derive(Default)]
pub(crate) struct Shown {
    pub modes: Vec<Mode>,
    pub options: Vec<SessionOption>,
    /// The error of every call once the session is over.
    pub gone: Option<Error>,
    /// The session's title, once the agent has told one.
    pub title: Option<String>,
    /// Facts of the record, once it is closed.
    pub record: Option<RecordFacts>,
}

/// Resources that are released at the end of the session.
pub(super) struct Held {
    pub(super) folder: Option<RunFolder>,
    pub(super) claim: Option<Claim>,
    /// The callers who closed the session, and wait for this end.
    pub(super) closers: Vec<Reply<()>>,
    _slot: Option<Slot>,
}

pub(crate) struct Owner {
    pub(super) session: SessionFacts,
    pub(super) link: Link,
    pub(super) settings: Settings,
    pub(super) spending: Spending,
    pub(super) work: Work,
    pub(super) turns: Turns,
    pub(super) questions: Questions,
    pub(super) listeners: Listeners,
    pub(super) leftovers: Leftovers,
    pub(super) shown: Arc<Mutex<Shown>>,
    pub(super) held: Held,
    /// The time of all limits rests while this process is stopped.
    pub(super) awake: Awake,
}

/// Events for the owner that are not orders.
pub(crate) struct Incoming {
    inbox: Inbox,
    searches: UnboundedReceiver<Search>,
}

impl Owner {
    pub(crate) fn new(
        request: OpenRequest,
        opened: Opened,
        host: UnboundedSender<HostRequest>,
        shown: Arc<Mutex<Shown>>,
        allowance: Allowance,
        (account, slot): (HeldAccount, Option<Slot>),
    ) -> (Self, Incoming) {
        let mut recorder = Audience::new(false, request.agent.redact.clone());
        recorder.record = opened.record;
        let shaken = opened.shaken;
        let awake = Awake::new();
        let (sender, searches) = unbounded_channel();
        let spending = Spending::of(&request.agent, allowance, account);
        let knows_tools = !request.servers.iter().any(|server| server.name() == OWN_TOOLS);
        let owner = Owner {
            session: SessionFacts {
                number: trace::number(),
                agent: request.agent.provider,
                request,
                id: shaken.session,
                version: shaken.version,
                cwd: opened.cwd,
                can_steer: shaken.can_steer,
                takes: shaken.takes,
                host,
            },
            link: Link::new(opened.connection, &opened.traffic),
            settings: shaken.settings,
            spending,
            work: Work {
                book: ToolBook::default(),
                background: Vec::new(),
                own_tools: 0,
                knows_tools,
                acted: awake.now(),
                seen_behind: false,
                waiters: Vec::new(),
            },
            turns: Turns::after_opening(
                shaken.preamble,
                shaken.warnings,
                Afterwords::after(awake.now(), shaken.version),
            ),
            questions: Questions::default(),
            listeners: Listeners::new(recorder),
            leftovers: Leftovers { cancelled: None, waiters: Vec::new(), left: Left::default(), sender },
            shown,
            held: Held { folder: Some(opened.folder), claim: opened.claim, closers: Vec::new(), _slot: slot },
            awake,
        };
        debug!(target: SESSION, id = owner.session.number, run = owner.link.connection.process.number(), agent = owner.session.agent.as_str(), version = ?owner.session.version, "is open");
        owner.show();
        (owner, Incoming { inbox: opened.inbox, searches })
    }

    pub(crate) async fn run(mut self, incoming: Incoming, mut orders: UnboundedReceiver<Order>) {
        // A panic ends the session with an error, so that no caller waits for ever.
        let served = AssertUnwindSafe(self.serve(incoming, &mut orders)).catch_unwind().await;
        let over = served.unwrap_or_else(|panic| Over::Faulted(Error::of_panic(&*panic)));
        if let Over::Faulted(error) = &over {
            self.lock().gone = Some(error.clone());
            self.link.connection.kill();
        }
        let ended = AssertUnwindSafe(self.end(over)).catch_unwind().await;
        if let Err(panic) = ended {
            self.lock().gone = Some(Error::of_panic(&*panic));
            self.link.connection.kill();
        }
        debug!(target: SESSION, id = self.session.number, turns = self.turns.count, "ended");
        // Orders that arrived before the end was published get the same end.
        orders.close();
        while let Some(order) = orders.recv().await {
            match order {
                Order::Close { reply } => self.held.closers.push(reply),
                other => other.refuse(self.gone()),
            }
        }
        for reply in self.held.closers {
            let _ = reply.send(Ok(()));
        }
    }

    /// Serves the session until it is over.
    async fn serve(
        &mut self,
        Incoming { mut inbox, mut searches }: Incoming,
        orders: &mut UnboundedReceiver<Order>,
    ) -> Over {
        let allowance = self.spending.allowance.clone();
        let over = loop {
            self.listeners.flush(&mut self.turns);
            let now = self.now();
            self.listeners.leave_silent(now);
            let is_held = self.listeners.is_full(&mut self.turns) && !self.turns.is_stopping();
            self.hold_clock(is_held);
            let deadline = self.deadline();
            let rung = self.awake.clone();
            let is_at_work = self.turns.active.as_ref().is_some_and(|active| active.end.stop.is_none());
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.on_order(order),
                    None => break Over::Closed,
                },
                word = self.listeners.word(&mut self.turns, is_held) => self.on_word(word),
                said = inbox.next(), if !is_held => if let Some(over) = self.on_messages(said, &mut inbox).await {
                    break over;
                },
                () = allowance.crossed(), if is_at_work => self.stop(Stop::OverBudget),
                news = self.link.traffic.news() => self.on_traffic(news),
                Some(search) = searches.recv() => self.on_strays(&search),
                () = rung.sleep_until(deadline) => if let Some(over) = self.on_clock().await {
                    break over;
                },
            }
            if !self.held.closers.is_empty() {
                break Over::Closed;
            }
            self.advance();
        };
        match &over {
            Over::Closed => debug!(target: SESSION, id = self.session.number, "is to be closed"),
            Over::Gone(..) => debug!(target: SESSION, id = self.session.number, "lost its agent"),
            Over::Faulted(_) => debug!(target: SESSION, id = self.session.number, "failed inside"),
        }
        over
    }

    /// The agent's silence is not counted while the agent waits for this process: for a reader, for an answer to a question,
    /// or for one of the host's own tools. The clock of the whole turn goes on.
    pub(super) fn hold_clock(&mut self, is_held: bool) {
        let waits_for_us = is_held || !self.questions.open.is_empty() || self.work.own_tools > 0;
        let now = self.now();
        if let Some(active) = &mut self.turns.active {
            active.clock.on_held(waits_for_us, now);
        }
    }

    /// Now, on the clock that rests while this process is stopped: every limit of a session takes its time from it.
    pub(super) fn now(&mut self) -> Instant {
        let (now, gap) = self.awake.tick();
        if let Some(active) = &mut self.turns.active {
            active.clock.on_stopped(gap, now);
        }
        now
    }

    // Events.

    pub(super) async fn on_messages(&mut self, first: Option<Said>, inbox: &mut Inbox) -> Option<Over> {
        // The listener is gone without a word, and with it the connection.
        if first.is_none() {
            return Some(Over::Gone(self.link.connection.ended().await, None));
        }
        let mut next = first;
        let mut looked_at = 0;
        while let Some(said) = next {
            match said {
                Said::Ended(cause) => {
                    let cause = Some(cause).filter(|cause| !is_closed_by_peer(cause));
                    return Some(Over::Gone(self.link.connection.ended().await, cause));
                }
                Said::Answered { tag, answer } => {
                    self.look_into_log(tag).await;
                    self.on_answered(tag, answer);
                }
                said => self.on_said(said).await,
            }
            // An end of turn is handled before the messages after it.
            self.advance();
            looked_at += 1;
            // Process at most `TOGETHER` messages per wake-up and leave the rest queued, so that back-pressure works.
            next = if looked_at < TOGETHER { inbox.next_now() } else { None };
        }
        None
    }

    fn on_traffic(&mut self, news: TrafficNews) {
        match news {
            TrafficNews::Refused(refused) => self.on_refused(&refused),
            TrafficNews::Metered(usage) => {
                if self.spending.accounts.meter(usage) {
                    self.stop(Stop::OverBudget);
                }
            }
        }
    }

    /// The sandbox refused something. A turn of the agent's own has no warnings, so the next prompt's has them.
    pub(super) fn on_refused(&mut self, refused: &[Refused]) {
        for Refused { kind, what, .. } in refused.iter().cloned() {
            self.tell(AgentEvent::Refused { kind, what });
        }
        let Some(message) = refused_words(refused) else { return };
        match &mut self.turns.active {
            Some(active) => active.digest.note(&message),
            None => self.turns.warnings.push(message),
        }
    }

    /// Reads the log of an agent that reports a model failure only there. The prompt with this tag was answered.
    async fn look_into_log(&mut self, tag: u64) {
        let Some(log) = self.session.agent.protocol().log else { return };
        if let Some(active) = self.turns.active.as_mut().filter(|active| active.tries.tag == tag) {
            let variable = |name: &str| self.session.request.agent.variable(name);
            active.tries.logged = agent_log::told(log, variable, &self.session.id).await;
        }
    }

    // Listeners.

    /// Sends the event to the session's listeners, and to those of the prompt under way unless the agent is in a turn of its own.
    pub(super) fn tell(&mut self, event: AgentEvent) {
        self.listeners.tell_all(&event);
        if self.turns.active.is_some() && self.turns.own.is_none() {
            self.listeners.for_turn.push(event);
        }
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorCode::SessionClosed, "the session is closed: open another one, with `resume` to go on")
}
