//! Orders from the handles of a session to its owner task.

use crate::acp::opening::request::PromptRequest;
use crate::acp::question::Answer;
use crate::acp::question::elicitation::Elicited;
use crate::harness::turn::audience::Audience;
use crate::harness::{EventSink, TurnOutcome};
use ground::error::Error;
use ground::lock::lock;
use process::Strays;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// An order to the owner task.
pub(crate) enum Order {
    Prompt(Box<Prompt>),
    /// Aborts the turn with this number; without `abort`, a listener of the turn came or left.
    Turn {
        number: u32,
        abort: bool,
    },
    Listen(Box<dyn EventSink>),
    /// A call of one of the host's own tools.
    OwnTool {
        begins: bool,
    },
    Answer {
        id: String,
        answer: Result<Answer, String>,
    },
    Elicited {
        id: String,
        elicited: Result<Elicited, String>,
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
    /// The number that its caller knows.
    pub number: u32,
    pub request: PromptRequest,
    pub asked: Instant,
    pub driver: Driver,
}

/// The owner's side of a [`Turn`].
pub(crate) struct Driver {
    pub(crate) ears: Arc<Mutex<Ears>>,
    pub(crate) publish: watch::Sender<Option<Arc<TurnOutcome>>>,
}

/// The listeners of a turn.
pub(crate) struct Ears {
    pub audience: Audience,
    pub(crate) is_over: bool,
}

impl Driver {
    pub(crate) fn ears(&self) -> MutexGuard<'_, Ears> {
        lock(&self.ears)
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

impl Prompt {
    /// It was never sent.
    pub(crate) fn refuse(self, error: Error) {
        self.driver.finish(TurnOutcome::refused(error));
    }
}

impl Order {
    /// The session is over: who waits for an answer gets this.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Order::Steer { reply, .. }
            | Order::SetMode { reply, .. }
            | Order::SetOption { reply, .. }
            | Order::Cancel { reply, .. }
            | Order::Idle { reply }
            | Order::Close { reply } => {
                let _ = reply.send(Err(error));
            }
            Order::Prompt(prompt) => prompt.refuse(error),
            Order::Turn { .. }
            | Order::Listen(_)
            | Order::Answer { .. }
            | Order::Elicited { .. }
            | Order::OwnTool { .. } => {}
        }
    }
}
