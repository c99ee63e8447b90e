//! The owner task of a session: all its state, one `select!`, and the listeners. Orders of its users are handled in `user_orders`, the
//! agent's messages in `agent_messages`, its questions in `questions`; turns begin and end in `turns`, and are stopped in `stopping`.

use super::account::SessionUsage;
use super::active::{Active, OwnTurn};
use super::agent::Agent;
use super::agent_log;
use super::connection::{Connection, Exit, Letter, Said};
use super::opening::Opened;
use super::order::{Order, Prompt, Reply};
use super::question::{HostRequest, OpenQuestion};
use super::request::OpenRequest;
use super::search::{CancelledTurn, Left, Search};
use super::settings::{Mode, SessionOption, Settings};
use super::tool_book::ToolBook;
use super::turn_state::Version;
use super::verdict::Stop;
use crate::harness::AgentEvent;
use crate::harness::folder::RunFolder;
use crate::harness::limit::allowance::{Accounts, Allowance};
use crate::harness::limit::scheduler::Slot;
use crate::harness::limit::usage_limit::HeldAccount;
use crate::harness::turn::audience::Audience;
use futures_util::FutureExt;
use ground::error::{Error, ErrorCode};
use ground::os::{Claim, sleep_until};
use ground::trace::{self, SESSION, debug};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wires::jsonrpc::is_closed_by_peer;

/// A listener to a session that takes no event for so long is taken to be gone.
pub(super) const DEAF: Duration = Duration::from_secs(60);
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

/// A caller that waits for the end of a cancelled turn.
pub(super) struct CancelWaiter {
    pub(super) kills_strays: bool,
    pub(super) reply: Reply<()>,
}

/// A request of ours that is not a prompt.
pub(super) enum PendingRequest {
    Mode { mode: String, reply: Reply<()> },
    Option { id: String, value: Value, reply: Reply<()> },
    Steer { reply: Reply<()> },
}

/// State that handles read without asking the owner.
#[derive(Default)]
pub(crate) struct Shown {
    pub modes: Vec<Mode>,
    pub options: Vec<SessionOption>,
    /// The error of every call once the session is over.
    pub gone: Option<Error>,
}

pub(crate) struct Owner {
    /// Number of the session in the log.
    pub(super) number: u64,
    pub(super) request: OpenRequest,
    pub(super) agent: &'static Agent,
    pub(super) connection: Connection,
    pub(super) session: String,
    pub(super) version: Version,
    pub(super) cwd: std::path::PathBuf,
    pub(super) host: UnboundedSender<HostRequest>,
    pub(super) settings: Settings,
    pub(super) book: ToolBook,
    pub(super) usage: SessionUsage,
    /// The session's budgets; `accounts` holds its usage in them.
    pub(super) allowance: Allowance,
    pub(super) accounts: Accounts,
    /// The agent's account. A usage limit of it holds its turns back.
    pub(super) account: HeldAccount,
    /// Background work behind the turns, as the agent reports it.
    pub(super) background: Vec<Value>,
    pub(super) active: Option<Active>,
    /// A turn that the agent began by itself.
    pub(super) own_turn: Option<OwnTurn>,
    pub(super) questions: Vec<OpenQuestion>,
    /// Questions so far; the number of a question is its id for the host.
    pub(super) questions_asked: u64,
    /// Calls of the host's own tools that run.
    pub(super) own_tools: usize,
    /// When the agent last did something.
    pub(super) acted: Instant,
    /// Background work was seen behind a turn, so the session waits for the settle time before it is idle.
    pub(super) seen_behind: bool,
    pub(super) shown: Arc<Mutex<Shown>>,
    pub(super) inbox: Option<super::connection::Inbox>,
    pub(super) folder: Option<RunFolder>,
    pub(super) claim: Option<Claim>,
    pub(super) can_steer: bool,
    pub(super) preamble: Option<String>,
    pub(super) warnings: Vec<String>,
    pub(super) queue: VecDeque<Box<Prompt>>,
    pub(super) turns: u32,
    pub(super) tags: u64,
    pub(super) pending: HashMap<u64, PendingRequest>,
    pub(super) listeners: Vec<Audience>,
    /// Start of the time in which one of the listeners has no room.
    pub(super) held_since: Option<Instant>,
    /// Events that are sent when the batch is done: to the prompt under way, and (`for_all`) to the session's listeners.
    pub(super) for_turn: Vec<AgentEvent>,
    pub(super) for_all: Vec<AgentEvent>,
    pub(super) idle_waiters: Vec<Reply<()>>,
    pub(super) cancel_waiters: Vec<CancelWaiter>,
    /// The last turn that ended by our cancel.
    pub(super) cancelled: Option<CancelledTurn>,
    pub(super) left: Left,
    pub(super) stray_sender: UnboundedSender<Search>,
    stray_receiver: Option<UnboundedReceiver<Search>>,
    pub(super) _slot: Slot,
}

impl Owner {
    pub(crate) fn new(
        request: OpenRequest,
        opened: Opened,
        host: UnboundedSender<HostRequest>,
        shown: Arc<Mutex<Shown>>,
        allowance: Allowance,
        (account, slot): (HeldAccount, Slot),
    ) -> Self {
        let mut recorder = Audience::new(false, &request.agent.redact);
        recorder.keep(opened.record);
        let (stray_sender, stray_receiver) = unbounded_channel();
        let owner = Owner {
            number: trace::number(),
            request,
            agent: opened.agent,
            connection: opened.connection,
            session: opened.session,
            version: opened.version,
            cwd: opened.cwd,
            host,
            settings: opened.settings,
            book: ToolBook::default(),
            usage: SessionUsage::default(),
            accounts: allowance.open(),
            account,
            allowance,
            background: Vec::new(),
            active: None,
            own_turn: None,
            questions: Vec::new(),
            questions_asked: 0,
            own_tools: 0,
            acted: Instant::now(),
            seen_behind: false,
            shown,
            inbox: Some(opened.inbox),
            folder: Some(opened.folder),
            claim: opened.claim,
            can_steer: opened.can_steer,
            preamble: opened.preamble,
            warnings: opened.warnings,
            queue: VecDeque::new(),
            turns: 0,
            tags: 0,
            pending: HashMap::new(),
            listeners: vec![recorder],
            held_since: None,
            for_turn: Vec::new(),
            for_all: Vec::new(),
            idle_waiters: Vec::new(),
            cancel_waiters: Vec::new(),
            cancelled: None,
            left: Left::default(),
            stray_sender,
            stray_receiver: Some(stray_receiver),
            _slot: slot,
        };
        debug!(target: SESSION, id = owner.number, run = owner.connection.process.number(), agent = owner.agent.name(), version = ?owner.version, "is open");
        owner.show();
        owner
    }

    pub(crate) async fn run(mut self, mut orders: UnboundedReceiver<Order>) {
        let mut closers = Vec::new();
        // A panic ends the session with an error, so that no caller waits for ever.
        let served = AssertUnwindSafe(self.serve(&mut orders, &mut closers)).catch_unwind().await;
        let over = served.unwrap_or_else(|panic| Over::Faulted(Error::of_panic(&*panic)));
        if let Over::Faulted(error) = &over {
            self.lock().gone = Some(error.clone());
            self.connection.kill();
        }
        let ended = AssertUnwindSafe(self.end(over)).catch_unwind().await;
        if let Err(panic) = ended {
            self.lock().gone = Some(Error::of_panic(&*panic));
            self.connection.kill();
        }
        debug!(target: SESSION, id = self.number, turns = self.turns, "ended");
        // Orders that arrived before the end was published get the same end.
        orders.close();
        while let Some(order) = orders.recv().await {
            match order {
                Order::Close { reply } => closers.push(reply),
                other => other.refuse(self.gone()),
            }
        }
        for reply in closers {
            let _ = reply.send(Ok(()));
        }
    }

    /// Serves the session until it is over.
    async fn serve(&mut self, orders: &mut UnboundedReceiver<Order>, closers: &mut Vec<Reply<()>>) -> Over {
        let (Some(mut inbox), Some(mut strays)) = (self.inbox.take(), self.stray_receiver.take()) else {
            return Over::Closed;
        };
        let allowance = self.allowance.clone();
        let over = loop {
            self.flush();
            self.leave_the_deaf();
            let is_held = self.is_full() && !self.is_stopping();
            self.hold_clock(is_held);
            let deadline = self.deadline();
            let is_at_work = self.active.as_ref().is_some_and(|active| active.stop.is_none());
            let flow = tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Close { reply }) => {
                        closers.push(reply);
                        ControlFlow::Break(Over::Closed)
                    }
                    Some(order) => self.on_order(order),
                    None => ControlFlow::Break(Over::Closed),
                },
                letter = inbox.recv(), if !is_held => self.on_letters(letter, &mut inbox).await,
                () = self.room(), if is_held => ControlFlow::Continue(()),
                () = allowance.crossed(), if is_at_work => {
                    self.stop(Stop::OverBudget);
                    ControlFlow::Continue(())
                }
                Some(search) = strays.recv() => {
                    self.on_strays(&search);
                    ControlFlow::Continue(())
                }
                () = sleep_until(deadline) => self.on_clock().await,
            };
            let flow = if flow.is_continue() { self.advance() } else { flow };
            if let ControlFlow::Break(over) = flow {
                break over;
            }
        };
        match &over {
            Over::Closed => debug!(target: SESSION, id = self.number, "is to be closed"),
            Over::Gone(..) => debug!(target: SESSION, id = self.number, "lost its agent"),
            Over::Faulted(_) => debug!(target: SESSION, id = self.number, "failed inside"),
        }
        over
    }

    /// The agent's silence is not counted while the agent waits for this process: for a reader, for an answer to a question,
    /// or for one of the host's own tools. The clock of the whole turn goes on.
    pub(super) fn hold_clock(&mut self, is_held: bool) {
        let waits_for_us = is_held || !self.questions.is_empty() || self.own_tools > 0;
        if let Some(active) = &mut self.active {
            active.clock.on_held(waits_for_us, Instant::now());
        }
    }

    // Events.

    pub(super) async fn on_letters(
        &mut self,
        first: Option<Letter>,
        inbox: &mut super::connection::Inbox,
    ) -> ControlFlow<Over> {
        // The listener is gone without a word, and with it the connection.
        if first.is_none() {
            return ControlFlow::Break(Over::Gone(self.connection.ended().await, None));
        }
        let mut next = first;
        let mut looked_at = 0;
        while let Some(letter) = next {
            match letter.said {
                Said::Ended(cause) => {
                    let cause = Some(cause).filter(|cause| !is_closed_by_peer(cause));
                    return ControlFlow::Break(Over::Gone(self.connection.ended().await, cause));
                }
                Said::Answered { tag, answer } => {
                    self.look_into_log(tag).await;
                    self.on_answered(tag, answer);
                }
                said => self.on_said(said),
            }
            // An end of turn is handled before the messages after it.
            if let ControlFlow::Break(over) = self.advance() {
                return ControlFlow::Break(over);
            }
            looked_at += 1;
            // Process at most `TOGETHER` messages per wake-up and leave the rest queued, so that back-pressure works.
            next = if looked_at < TOGETHER { inbox.try_recv().ok() } else { None };
        }
        ControlFlow::Continue(())
    }

    /// Reads the log of an agent that reports a model failure only there. The prompt with this tag was answered.
    async fn look_into_log(&mut self, tag: u64) {
        let Some(log) = self.agent.log else { return };
        if let Some(active) = self.active.as_mut().filter(|active| active.tag == tag) {
            let variable = |name: &str| self.request.agent.variable(name);
            active.logged = agent_log::told(log, variable, &self.session).await;
        }
    }

    // Listeners.

    /// Sends the event to the session's listeners, and to those of the prompt under way unless the agent is in a turn of its own.
    pub(super) fn tell(&mut self, event: AgentEvent) {
        if self.active.is_some() && self.own_turn.is_none() {
            self.for_turn.push(event.clone());
        }
        self.for_all.push(event);
    }

    /// Sends the event to the session's listeners only.
    pub(super) fn tell_all(&mut self, event: AgentEvent) {
        self.for_all.push(event);
    }

    /// Sends the event to the record only.
    pub(super) fn tell_record(&mut self, event: AgentEvent) {
        // The recorder is always the first listener; later ones were added by callers.
        if let Some(recorder) = self.listeners.first_mut() {
            recorder.tell(vec![event]);
        }
    }

    pub(super) fn next_turn(&mut self) -> u32 {
        self.turns += 1;
        self.turns
    }

    pub(super) fn flush(&mut self) {
        let for_turn = std::mem::take(&mut self.for_turn);
        if let Some(active) = &self.active {
            let audience = &mut active.driver.ears().audience;
            let is_cut = active.stop.is_some() && audience.is_full();
            audience.tell(match is_cut {
                true => for_turn.into_iter().filter(AgentEvent::is_boundary).collect(),
                false => for_turn,
            });
        }
        let for_all = std::mem::take(&mut self.for_all);
        if for_all.is_empty() {
            return;
        }
        self.listeners.retain(|audience| !audience.is_gone());
        let is_stopping = self.is_stopping();
        for audience in &mut self.listeners {
            if is_stopping && audience.is_full() {
                audience.tell(for_all.iter().filter(|event| event.is_boundary()).cloned().collect());
            } else {
                audience.tell(for_all.clone());
            }
        }
    }

    /// A turn was asked to end: what the agent says from here on is read whether there is room for it or not, else its answer
    /// could not come. Listeners without room miss what is said meanwhile, but no end.
    fn is_stopping(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.stop.is_some())
            || self.own_turn.as_ref().is_some_and(|own| own.kill_at.is_some())
    }

    /// A listener that takes nothing for [`DEAF`] is left: nobody reads there, and the agent does not wait for it any longer.
    fn leave_the_deaf(&mut self) {
        let now = Instant::now();
        let mut is_full = false;
        for audience in &mut self.listeners {
            is_full |= audience.is_full();
        }
        if !is_full {
            self.held_since = None;
        } else if now.saturating_duration_since(*self.held_since.get_or_insert(now)) >= DEAF {
            self.held_since = None;
            for audience in &mut self.listeners {
                if audience.is_full() {
                    let message = format!(
                        "events() was not read for {} s, so it ends here: the agent would have to wait for it",
                        DEAF.as_secs()
                    );
                    audience.tell(vec![AgentEvent::Warning { message }]);
                    audience.end();
                    audience.leave();
                }
            }
        }
    }

    pub(super) fn is_full(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_room(&mut context).is_pending()
    }

    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut room = Poll::Ready(());
        if let Some(active) = &self.active
            && active.driver.ears().audience.poll_room(context).is_pending()
        {
            room = Poll::Pending;
        }
        for audience in &mut self.listeners {
            if audience.poll_room(context).is_pending() {
                room = Poll::Pending;
            }
        }
        room
    }

    pub(super) async fn room(&mut self) {
        poll_fn(|context| self.poll_room(context)).await;
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorCode::SessionClosed, "the session is closed: open another one, with `resume` to go on")
}
