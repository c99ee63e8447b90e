//! The handle of a session. All state is the owner task's; a handle only sends words and awaits what they come to.

use super::opening::open as open_session;
use super::owner::Owner;
use super::question::{Answer, Question};
use super::request::{OpenRequest, PromptRequest};
use super::settings::{Mode, SessionOption};
use super::turn_state::Version;
use crate::error::{Error, ErrorCode};
use crate::harness::audience::Audience;
use crate::harness::scheduler::Waiting;
use crate::harness::turn::Command as TurnCommand;
use crate::harness::turn_record::TurnRecord;
use crate::harness::{AgentEvent, ConcurrencyLimit, EventReader, EventSink, Turn, TurnOutcome};
use crate::process::Strays;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

/// What the host is asked while a session lives.
#[expect(clippy::large_enum_variant, reason = "few, and gone as soon as they are told")]
#[derive(Clone, Debug, PartialEq)]
pub enum HostRequest {
    /// Answer with [`Session::answer`].
    Question(Question),
    /// The question needs no answer any more.
    Withdrawn { id: String },
}

/// A word to the owner task.
pub(crate) enum Command {
    Prompt(Box<Prompt>),
    /// Of the turn with this number; a listener of it came or went when `abort` is false.
    Turn {
        number: u32,
        abort: bool,
    },
    Listen(Box<dyn EventSink>),
    Answer {
        id: String,
        answer: Result<Answer, String>,
    },
    Steer {
        text: String,
        reply: Reply<()>,
    },
    SetMode {
        mode: String,
        reply: Reply<()>,
    },
    SetOption {
        id: String,
        value: Value,
        reply: Reply<()>,
    },
    Cancel {
        strays: Strays,
        reply: Reply<()>,
    },
    Idle {
        reply: Reply<()>,
    },
    Close {
        reply: Reply<()>,
    },
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A prompt on its way to the owner.
pub(crate) struct Prompt {
    pub number: u32,
    pub request: PromptRequest,
    pub asked: std::time::Instant,
    pub driver: Driver,
}

/// The owner's side of a [`Turn`].
pub(crate) struct Driver {
    ears: Arc<Mutex<Ears>>,
    publish: watch::Sender<Option<Arc<TurnOutcome>>>,
}

/// Who listens to a turn.
pub(crate) struct Ears {
    pub audience: Audience,
    is_over: bool,
}

impl Driver {
    pub(crate) fn ears(&self) -> MutexGuard<'_, Ears> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn is over: nothing more is told.
    pub(crate) fn finish(self, outcome: TurnOutcome) {
        let mut ears = self.ears();
        ears.is_over = true;
        ears.audience.end();
        drop(ears);
        self.publish.send_replace(Some(Arc::new(outcome)));
    }
}

/// What everybody may read without asking the owner.
#[derive(Default)]
pub(crate) struct Shown {
    pub modes: Vec<Mode>,
    pub options: Vec<SessionOption>,
    /// Why every call is refused, once the session is over.
    pub gone: Option<Error>,
}

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
    commands: UnboundedSender<Command>,
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
        () = &mut aborted => return Err(given_up()),
        slot = Waiting::begin(limits).end() => slot,
    };
    let mut opened = open_session(&request, aborted).await?;
    let (commands, received) = unbounded_channel();
    let shown = Arc::new(Mutex::new(Shown::default()));
    let facts = Facts {
        id: opened.session.clone(),
        provider: request.agent.provider.as_str(),
        version: opened.version,
        history: std::mem::take(&mut opened.history),
        shown: Arc::clone(&shown),
        numbers: Mutex::default(),
        redact: request.agent.redact.clone(),
        record: opened.record.as_ref().map(TurnRecord::folder),
    };
    tokio::spawn(Owner::new(request, opened, host, shown, allowance, slot).run(received));
    Ok(Session { commands, facts: Arc::new(facts) })
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
        tokio::spawn(forward(number, received, Arc::clone(&ears), self.commands.downgrade()));
        let driver = Driver { ears, publish };
        let prompt = Prompt { number, request, asked: std::time::Instant::now(), driver };
        if let Err(refused) = self.commands.send(Command::Prompt(Box::new(prompt)))
            && let Command::Prompt(prompt) = refused.0
        {
            prompt.driver.finish(TurnOutcome::refused(self.gone()));
        }
        turn
    }

    /// Gives all events from here on to this sink, those between prompts too. Several may listen.
    pub fn listen(&self, sink: Box<dyn EventSink>) {
        // After the end the word comes back, and dropping it ends the sink.
        let _ = self.commands.send(Command::Listen(sink));
    }

    /// The events for a reader in Rust; see [`Session::listen`].
    pub fn events(&self) -> EventReader {
        let (sink, reader) = crate::harness::event_sink::event_channel();
        self.listen(Box::new(sink));
        reader
    }

    /// Answers a question; `Err`: the handler failed, which rejects. Questions that are closed already are left alone.
    pub fn answer(&self, id: &str, answer: Result<Answer, String>) {
        let _ = self.commands.send(Command::Answer { id: id.to_owned(), answer });
    }

    /// Says something to the agent while it works.
    pub async fn steer(&self, text: String) -> Result<(), Error> {
        self.ask(|reply| Command::Steer { text, reply }).await
    }

    pub async fn set_mode(&self, mode: String) -> Result<(), Error> {
        self.ask(|reply| Command::SetMode { mode, reply }).await
    }

    pub async fn set_option(&self, id: String, value: Value) -> Result<(), Error> {
        self.ask(|reply| Command::SetOption { id, value, reply }).await
    }

    /// Ends the turn under way; resolves when it is over, and what it left running is told, or killed.
    pub async fn cancel(&self, strays: Strays) -> Result<(), Error> {
        self.ask(|reply| Command::Cancel { strays, reply }).await
    }

    /// Resolves when nothing runs, in front or behind.
    pub async fn idle(&self) -> Result<(), Error> {
        self.ask(|reply| Command::Idle { reply }).await
    }

    /// Ends the session; resolves when nothing of its tree is left. May be called many times.
    pub async fn close(&self) {
        // A session that is gone is closed.
        let _ = self.ask(|reply| Command::Close { reply }).await;
        self.commands.closed().await;
    }

    /// Whether every call is refused from here on. Known before the turn that it cost is told.
    pub fn is_over(&self) -> bool {
        self.shown().gone.is_some() || self.commands.is_closed()
    }

    /// A handle that does not keep the session alive.
    pub fn downgrade(&self) -> WeakSession {
        WeakSession(self.commands.downgrade())
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(command(reply)).is_err() {
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
pub struct WeakSession(WeakUnboundedSender<Command>);

impl WeakSession {
    pub fn close(&self) {
        if let Some(commands) = self.0.upgrade() {
            let (reply, _) = oneshot::channel();
            let _ = commands.send(Command::Close { reply });
        }
    }

    pub fn is_over(&self) -> bool {
        self.0.upgrade().is_none_or(|commands| commands.is_closed())
    }
}

pub(crate) fn given_up() -> Error {
    Error::new(ErrorCode::AgentAborted, "the session was aborted before it was open")
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorCode::SessionClosed, "the session is closed: open another one, with `resume` to go on")
}

/// A turn's words: who listens is its audience's business, an abort is the owner's. Runs until the handles are gone, so that
/// who asks for the events only after the end is given what was kept.
async fn forward(
    number: u32,
    mut words: UnboundedReceiver<TurnCommand>,
    ears: Arc<Mutex<Ears>>,
    commands: WeakUnboundedSender<Command>,
) {
    let tell = |abort: bool| {
        if let Some(commands) = commands.upgrade() {
            let _ = commands.send(Command::Turn { number, abort });
        }
    };
    loop {
        match words.recv().await {
            Some(TurnCommand::Listen(sink)) => {
                let mut ears = ears.lock().unwrap_or_else(PoisonError::into_inner);
                ears.audience.listen(sink);
                if ears.is_over {
                    ears.audience.end();
                }
                drop(ears);
                tell(false);
            }
            Some(TurnCommand::Leave) => {
                ears.lock().unwrap_or_else(PoisonError::into_inner).audience.leave();
                tell(false);
            }
            Some(TurnCommand::Abort) => tell(true),
            None => return tell(true),
        }
    }
}
