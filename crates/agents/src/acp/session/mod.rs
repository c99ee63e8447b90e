//! The handle of a session. The owner task holds all state; a handle sends orders and awaits their results.

pub(crate) mod single_turn;

use crate::acp::opening::request::{OpenRequest, PromptRequest};
use crate::acp::opening::settings::{Mode, SessionOption};
use crate::acp::opening::{aborted as was_aborted, open as open_session};
use crate::acp::owner::{Owner, Shown, closed};
use crate::acp::question::elicitation::Elicited;
use crate::acp::question::{Answer, HostRequest};
use crate::acp::state::order::{Order, Prompt, Reply};
use crate::acp::turn::turn_state::Version;
use crate::harness::budget::allowance::Allowance;
use crate::harness::limit::scheduler::{Preparation, Slot, Waiting};
use crate::harness::limit::usage_limit::HeldAccount;
use crate::harness::turn::audience::Audience;
use crate::harness::turn::record::TurnRecord;
use crate::harness::{AgentEvent, ConcurrencyLimit, EventReader, EventSink, Turn};
use ground::error::Error;
use ground::lock::lock;
use ground::mpsc::{UnboundedSender, WeakUnboundedSender, unbounded_channel};
use ground::record::RecordFacts;
use ground::redaction::Redactor;
use process::Strays;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

struct Facts {
    id: String,
    provider: &'static str,
    version: Version,
    history: Vec<AgentEvent>,
    shown: Arc<Mutex<Shown>>,
    /// Removes secrets from errors and names that contain text of the agent.
    clean: Redactor,
    record: Option<PathBuf>,
}

/// The answer to an order.
pub trait Answered: Future<Output = Result<(), Error>> + Send + 'static {}

impl<F: Future<Output = Result<(), Error>> + Send + 'static> Answered for F {}

/// A session. Cloneable; when the last handle is dropped, it is closed.
#[derive(Clone)]
pub struct Session {
    orders: UnboundedSender<Order>,
    facts: Arc<Facts>,
}

/// Opens a session under these limits; it holds its slots until it is closed. Questions that the rules leave open go to `host`.
/// When `aborted` resolves first, nothing of it is left and the error is `AGENT_ABORTED`. Call it within tokio.
pub async fn open(
    mut request: OpenRequest,
    limits: Vec<ConcurrencyLimit>,
    preparation: Option<Preparation<OpenRequest>>,
    host: UnboundedSender<HostRequest>,
    aborted: impl Future<Output = ()>,
) -> Result<Session, Error> {
    request.allowance()?.check()?;
    let account = HeldAccount::new(&request.agent, limits.clone(), request.wait_for_reset);
    let mut aborted = std::pin::pin!(aborted);
    let slot = tokio::select! {
        biased;
        () = &mut aborted => return Err(was_aborted()),
        slot = Waiting::begin(limits).end() => slot,
    };
    if let Some(preparation) = preparation {
        let packages = request.agent.cwd.take();
        request = tokio::select! {
            biased;
            () = &mut aborted => return Err(was_aborted()),
            prepared = preparation => prepared?,
        };
        request.packages = packages;
    }
    let allowance = request.allowance()?;
    allowance.check()?;
    open_in(request, allowance, account, Some(slot), host, aborted).await
}

/// Opens a session that has its slot, or whose turn has it.
pub(super) async fn open_in(
    request: OpenRequest,
    allowance: Allowance,
    account: HeldAccount,
    slot: Option<Slot>,
    host: UnboundedSender<HostRequest>,
    aborted: impl Future<Output = ()>,
) -> Result<Session, Error> {
    let clean = request.agent.redact.clone();
    let opened = open_session(&request, aborted).await;
    let mut opened = opened.map_err(|error| clean.redact_error(&error))?;
    let (orders, received) = unbounded_channel();
    let shown = Arc::new(Mutex::new(Shown::default()));
    let facts = Facts {
        id: opened.shaken.session.clone(),
        provider: request.agent.provider.as_str(),
        version: opened.shaken.version,
        history: Audience::new(false, clean.clone()).redact_all(std::mem::take(&mut opened.shaken.history)),
        shown: Arc::clone(&shown),
        clean,
        record: opened.record.as_ref().map(TurnRecord::folder),
    };
    let (owner, incoming) = Owner::new(request, opened, host, shown, allowance, (account, slot));
    ground::task::spawn(owner.run(incoming, received));
    Ok(Session { orders, facts: Arc::new(facts) })
}

impl Session {
    /// The folder of its record.
    pub fn record(&self) -> Option<&Path> {
        self.facts.record.as_deref()
    }

    /// Facts of its record, after the end of the session.
    pub(super) fn record_facts(&self) -> Option<RecordFacts> {
        self.shown().record.clone()
    }

    pub fn id(&self) -> &str {
        &self.facts.id
    }

    pub fn provider(&self) -> &'static str {
        self.facts.provider
    }

    pub fn version(&self) -> Version {
        self.facts.version
    }

    /// The events that a resumed agent repeated.
    pub fn history(&self) -> &[AgentEvent] {
        &self.facts.history
    }

    /// The session's title, once the agent has told one.
    pub fn title(&self) -> Option<String> {
        let title = self.shown().title.clone();
        title.map(|title| self.facts.clean.redact(&title))
    }

    pub fn modes(&self) -> Vec<Mode> {
        let mut modes = self.shown().modes.clone();
        let clean = |text: &mut String| *text = self.facts.clean.redact(text);
        modes.iter_mut().flat_map(Mode::texts).for_each(clean);
        modes
    }

    pub fn options(&self) -> Vec<SessionOption> {
        let mut options = self.shown().options.clone();
        for option in &mut options {
            self.facts.clean.redact_json(&mut option.value);
            option.texts().for_each(|text| *text = self.facts.clean.redact(text));
        }
        options
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        lock(&self.facts.shown)
    }

    /// Sends a prompt, after those that were sent before; returns at once. Call it within tokio.
    pub fn start(&self, request: PromptRequest) -> Turn {
        let (prompt, turn) = Prompt::new(request, self.facts.clean.clone());
        if let Err(refused) = self.orders.send(Order::Prompt(Box::new(prompt))) {
            refused.0.refuse(self.gone());
        }
        turn
    }

    /// Gives all events from here on to this sink, those between prompts too. Several may listen.
    pub fn listen(&self, sink: Box<dyn EventSink>) {
        // After the end the word comes back, and dropping it ends the sink.
        let _ = self.orders.send(Order::Listen(sink));
    }

    /// The events for a reader in Rust; see [`Session::listen`].
    pub fn events(&self) -> EventReader {
        let (sink, reader) = crate::harness::event::sink::event_channel();
        self.listen(Box::new(sink));
        reader
    }

    /// Answers a question; `Err`: the handler failed, which rejects. Questions that are closed already are left alone.
    pub fn answer(&self, id: &str, answer: Result<Answer, String>) {
        let _ = self.orders.send(Order::Answer { id: id.to_owned(), answer });
    }

    /// Gives the input that the agent asked of the user. An error is that of a handler that failed.
    pub fn elicited(&self, id: &str, elicited: Result<Elicited, String>) {
        let _ = self.orders.send(Order::Elicited { id: id.to_owned(), elicited });
    }

    /// A call of one of the host's own tools begins or has ended. The agent's silence is not counted while such a call runs.
    pub fn own_tool(&self, begins: bool) {
        let _ = self.orders.send(Order::OwnTool { begins });
    }

    /// Sends a message to the agent while it works.
    pub fn steer(&self, text: String) -> impl Answered + use<> {
        self.ask(|reply| Order::Steer { text, reply })
    }

    pub fn set_mode(&self, mode: String) -> impl Answered + use<> {
        self.ask(|reply| Order::SetMode { mode, reply })
    }

    pub fn set_option(&self, id: String, value: Value) -> impl Answered + use<> {
        self.ask(|reply| Order::SetOption { id, value, reply })
    }

    /// Ends the turn under way; resolves when it is over, and what it left running is told, or killed.
    pub fn cancel(&self, strays: Strays) -> impl Answered + use<> {
        self.ask(move |reply| Order::Cancel { strays, reply })
    }

    /// Resolves when nothing runs, in front or behind.
    pub fn idle(&self) -> impl Answered + use<> {
        self.ask(|reply| Order::Idle { reply })
    }

    /// Ends the session; resolves when nothing of its tree is left. May be called many times.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let asked = self.ask(|reply| Order::Close { reply });
        let orders = self.orders.clone();
        async move {
            // A session that is gone is closed.
            let _ = asked.await;
            orders.closed().await;
        }
    }

    /// Whether every call is refused from here on. Known before the turn that it cost is told.
    pub fn is_over(&self) -> bool {
        self.shown().gone.is_some() || self.orders.is_closed()
    }

    /// A handle that does not keep the session alive.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(self.orders.downgrade())
    }

    /// Gives the order at once, so that orders are carried out in the sequence of the calls; the future waits for the answer.
    fn ask<O: FnOnce(Reply<()>) -> Order>(&self, order: O) -> impl Answered + use<O> {
        let (reply, answer) = oneshot::channel();
        let session = self.clone();
        let is_given = self.orders.send(order(reply)).is_ok();
        async move {
            if !is_given {
                return Err(session.gone());
            }
            let answer = answer.await.unwrap_or_else(|_| Err(session.gone()));
            answer.map_err(|error| session.facts.clean.redact_error(&error))
        }
    }

    fn gone(&self) -> Error {
        let gone = self.shown().gone.clone().unwrap_or_else(closed);
        self.facts.clean.redact_error(&gone)
    }
}

/// See [`Session::downgrade`].
#[derive(Clone)]
pub struct WeakSession(WeakUnboundedSender<Order>);

impl WeakSession {
    pub fn close(&self) {
        if let Some(orders) = self.0.upgrade() {
            let (reply, _) = oneshot::channel();
            let _ = orders.send(Order::Close { reply });
        }
    }

    pub fn is_over(&self) -> bool {
        self.0.upgrade().is_none_or(|orders| orders.is_closed())
    }
}
