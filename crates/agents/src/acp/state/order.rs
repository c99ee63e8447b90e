//! Orders from the handles of a session to its owner task.

use crate::acp::opening::request::PromptRequest;
use crate::acp::question::Answer;
use crate::acp::question::elicitation::Elicited;
use crate::harness::turn::Order as TurnOrder;
use crate::harness::turn::audience::Audience;
use crate::harness::verdict::recent::{LastEvents, MAX_EVENTS, last_values};
use crate::harness::{AgentEvent, EventSink, TurnOutcome};
use ground::error::Error;
use ground::lock::lock;
use ground::mpsc::UnboundedReceiver;
use process::Strays;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
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

/// The listeners of a turn, and the words of its handles.
pub(crate) struct Ears {
    pub audience: Audience,
    words: UnboundedReceiver<TurnOrder>,
    /// A word to abort the turn was taken, and the owner is not told yet.
    aborts: bool,
    is_over: bool,
    /// For the error of a turn that fails, whether or not somebody listens.
    last: LastEvents,
}

impl Ears {
    pub(crate) fn new(audience: Audience, words: UnboundedReceiver<TurnOrder>) -> Ears {
        Ears { audience, words, aborts: false, is_over: false, last: LastEvents::default() }
    }

    /// The error of the turn, without secrets and with the last events that were told.
    pub(crate) fn failed(&mut self, error: &Error) -> Error {
        let last = self.audience.redact_all(self.last.take());
        self.audience.redact_error(error).with("events", last_values(&last))
    }

    /// The next word, once it is carried out as far as it is about listeners: whether it aborts the turn. `None`: the handles are gone.
    pub(crate) fn poll_word(&mut self, context: &mut Context<'_>) -> Poll<Option<bool>> {
        if std::mem::take(&mut self.aborts) {
            return Poll::Ready(Some(true));
        }
        let word = ready!(self.words.poll_recv(context));
        Poll::Ready(word.map(|word| !self.heed(word)))
    }

    fn heed(&mut self, word: TurnOrder) -> bool {
        let is_heeded = self.audience.heed(Some(word));
        if is_heeded && self.is_over {
            self.audience.end();
        }
        is_heeded
    }

    /// Tells these events to whoever asked for them by now. The task that passes words on may be late on a busy machine, and only the
    /// first events are kept for a listener that is not there yet.
    pub(crate) fn tell(&mut self, events: Vec<AgentEvent>) {
        while let Ok(word) = self.words.try_recv() {
            self.aborts |= !self.heed(word);
        }
        let before = events.len().saturating_sub(MAX_EVENTS);
        if self.audience.wants_events() {
            events[before..].iter().for_each(|event| self.last.add(event.clone()));
            self.audience.tell(events);
        } else {
            events.into_iter().skip(before).for_each(|event| self.last.add(event));
        }
    }
}

impl Driver {
    pub(crate) fn ears(&self) -> MutexGuard<'_, Ears> {
        lock(&self.ears)
    }

    /// The turn is over: nothing more is told.
    pub(crate) fn finish(self, outcome: TurnOutcome) {
        let mut ears = self.ears();
        ears.is_over = true;
        // The handles of a turn live as long as their caller likes.
        ears.last = LastEvents::default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Turn;
    use futures_util::FutureExt;
    use ground::redaction::Redactor;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_listener_whose_word_was_not_passed_on_yet_hears_everything() {
        let (turn, words, _publish) = Turn::run_elsewhere();
        let mut ears = Ears::new(Audience::new(true, Redactor::default()), words);
        let mut events = turn.events();
        turn.abort();
        let said = |text: usize| AgentEvent::Text { text: text.to_string(), delta: true };
        ears.tell((0..5_000).map(said).collect());
        assert_eq!(events.next().await.map(|events| events.len()), Some(5_000));
        // The abort was taken with it, and is told to the owner all the same.
        assert_eq!(poll_fn(|context| ears.poll_word(context)).await, Some(true));
        assert_eq!(poll_fn(|context| ears.poll_word(context)).now_or_never(), None);
        drop(turn);
        assert_eq!(poll_fn(|context| ears.poll_word(context)).await, None);
    }
}
