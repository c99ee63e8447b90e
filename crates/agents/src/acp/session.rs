//! The handle of a session. All state is the owner task's; a handle only gives orders and awaits what they come to.

use super::opening::{aborted as was_aborted, open as open_session};
use super::order::{Driver, Ears, Order, Prompt, Reply};
use super::owner::{Owner, Shown, closed};
use super::question::{Answer, HostRequest};
use super::request::{OpenRequest, PromptRequest};
use super::settings::{Mode, SessionOption};
use super::turn_state::Version;
use crate::harness::audience::Audience;
use crate::harness::scheduler::Waiting;
use crate::harness::turn::Order as TurnOrder;
use crate::harness::turn_record::TurnRecord;
use crate::harness::usage_limit::HeldAccount;
use crate::harness::{AgentEvent, ConcurrencyLimit, EventReader, EventSink, Turn, TurnOutcome};
use ground::error::Error;
use process::Strays;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

struct Facts {
    id: String,
    provider: &'static str,
    version: Version,
    history: Vec<AgentEvent>,
    shown: Arc<Mutex<Shown>>,
    numbers: Mutex<u32>,
    redact: Vec<String>,
    record: Option<PathBuf>,
}

/// A session. Cloneable; when the last handle is dropped, it is closed.
#[derive(Clone)]
pub struct Session {
    orders: UnboundedSender<Order>,
    facts: Arc<Facts>,
}

/// Opens a session under these limits; it holds its slots until it is closed. Questions that the rules leave open go to `host`.
/// When `aborted` resolves first, nothing of it is left and the error is `AGENT_ABORTED`. Call it within tokio.
pub async fn open(
    request: OpenRequest,
    limits: Vec<ConcurrencyLimit>,
    host: UnboundedSender<HostRequest>,
    aborted: impl Future<Output = ()>,
) -> Result<Session, Error> {
    let allowance = request.allowance()?;
    allowance.check()?;
    let mut aborted = std::pin::pin!(aborted);
    let slot = tokio::select! {
        biased;
        () = &mut aborted => return Err(was_aborted()),
        slot = Waiting::begin(limits.clone()).end() => slot,
    };
    let clean = Audience::new(false, &request.agent.redact);
    let opened = open_session(&request, aborted).await;
    let mut opened = opened.map_err(|error| clean.redact_error(&error))?;
    let (orders, received) = unbounded_channel();
    let shown = Arc::new(Mutex::new(Shown::default()));
    let facts = Facts {
        id: opened.session.clone(),
        provider: request.agent.provider.as_str(),
        version: opened.version,
        history: clean.redact_all(std::mem::take(&mut opened.history)),
        shown: Arc::clone(&shown),
        numbers: Mutex::default(),
        redact: request.agent.redact.clone(),
        record: opened.record.as_ref().map(TurnRecord::folder),
    };
    let account = HeldAccount::new(&request.agent, limits, request.wait_for_reset);
    tokio::spawn(Owner::new(request, opened, host, shown, allowance, (account, slot)).run(received));
    Ok(Session { orders, facts: Arc::new(facts) })
}

impl Session {
    /// The folder of its record.
    pub fn record(&self) -> Option<&Path> {
        self.facts.record.as_deref()
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

    /// What a resumed agent repeated.
    pub fn history(&self) -> &[AgentEvent] {
        &self.facts.history
    }

    pub fn modes(&self) -> Vec<Mode> {
        self.shown().modes.clone()
    }

    pub fn options(&self) -> Vec<SessionOption> {
        self.shown().options.clone()
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.facts.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a prompt, after those that were sent before; returns at once. Call it within tokio.
    pub fn start(&self, request: PromptRequest) -> Turn {
        let number = {
            let mut numbers = self.facts.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            *numbers += 1;
            *numbers
        };
        let audience = Audience::new(request.has_listener, &self.facts.redact);
        let ears = Arc::new(Mutex::new(Ears { audience, is_over: false }));
        let (turn, received, publish) = Turn::run_elsewhere();
        tokio::spawn(forward(number, received, Arc::clone(&ears), self.orders.downgrade()));
        let driver = Driver { ears, publish };
        let prompt = Prompt { number, request, asked: std::time::Instant::now(), driver };
        if let Err(refused) = self.orders.send(Order::Prompt(Box::new(prompt)))
            && let Order::Prompt(prompt) = refused.0
        {
            prompt.driver.finish(TurnOutcome::refused(self.gone()));
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
        let (sink, reader) = crate::harness::event_sink::event_channel();
        self.listen(Box::new(sink));
        reader
    }

    /// Answers a question; `Err`: the handler failed, which rejects. Questions that are closed already are left alone.
    pub fn answer(&self, id: &str, answer: Result<Answer, String>) {
        let _ = self.orders.send(Order::Answer { id: id.to_owned(), answer });
    }

    /// Says something to the agent while it works.
    pub async fn steer(&self, text: String) -> Result<(), Error> {
        self.ask(|reply| Order::Steer { text, reply }).await
    }

    pub async fn set_mode(&self, mode: String) -> Result<(), Error> {
        self.ask(|reply| Order::SetMode { mode, reply }).await
    }

    pub async fn set_option(&self, id: String, value: Value) -> Result<(), Error> {
        self.ask(|reply| Order::SetOption { id, value, reply }).await
    }

    /// Ends the turn under way; resolves when it is over, and what it left running is told, or killed. The order is given by the
    /// call itself: whatever the agent says after it belongs to a turn that was cancelled.
    pub fn cancel(&self, strays: Strays) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let session = self.clone();
        let is_given = self.orders.send(Order::Cancel { strays, reply }).is_ok();
        async move {
            if !is_given {
                return Err(session.gone());
            }
            answer.await.unwrap_or_else(|_| Err(session.gone()))
        }
    }

    /// Resolves when nothing runs, in front or behind.
    pub async fn idle(&self) -> Result<(), Error> {
        self.ask(|reply| Order::Idle { reply }).await
    }

    /// Ends the session; resolves when nothing of its tree is left. May be called many times.
    pub async fn close(&self) {
        // A session that is gone is closed.
        let _ = self.ask(|reply| Order::Close { reply }).await;
        self.orders.closed().await;
    }

    /// Whether every call is refused from here on. Known before the turn that it cost is told.
    pub fn is_over(&self) -> bool {
        self.shown().gone.is_some() || self.orders.is_closed()
    }

    /// A handle that does not keep the session alive.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(self.orders.downgrade())
    }

    async fn ask<T>(&self, order: impl FnOnce(Reply<T>) -> Order) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        if self.orders.send(order(reply)).is_err() {
            return Err(self.gone());
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    fn gone(&self) -> Error {
        self.shown().gone.clone().unwrap_or_else(closed)
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

/// A turn's words: who listens is its audience's business, an abort is the owner's. Runs until the handles are gone, so that
/// who asks for the events only after the end is given what was kept.
async fn forward(
    number: u32,
    mut words: UnboundedReceiver<TurnOrder>,
    ears: Arc<Mutex<Ears>>,
    orders: WeakUnboundedSender<Order>,
) {
    let tell = |abort: bool| {
        if let Some(orders) = orders.upgrade() {
            let _ = orders.send(Order::Turn { number, abort });
        }
    };
    loop {
        match words.recv().await {
            Some(TurnOrder::Listen(sink)) => {
                let mut ears = ears.lock().unwrap_or_else(PoisonError::into_inner);
                ears.audience.listen(sink);
                if ears.is_over {
                    ears.audience.end();
                }
                drop(ears);
                tell(false);
            }
            Some(TurnOrder::Leave) => {
                ears.lock().unwrap_or_else(PoisonError::into_inner).audience.leave();
                tell(false);
            }
            Some(TurnOrder::Abort) => tell(true),
            None => return tell(true),
        }
    }
}
