//! Orders from the handles of a session to its owner task.

use crate::acp::opening::request::PromptRequest;
use crate::acp::question::Answer;
use crate::acp::question::elicitation::Elicited;
use crate::harness::turn::Order as TurnOrder;
use crate::harness::turn::audience::Audience;
use crate::harness::verdict::recent::{LastEvents, MAX_EVENTS, last_behind};
use crate::harness::{AgentEvent, EventSink, Turn, TurnOutcome};
use ground::error::Error;
use ground::mpsc::UnboundedReceiver;
use ground::redaction::Redactor;
use process::Strays;
use serde_json::Value;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// An order to the owner task.
pub(crate) enum Order {
    Prompt(Box<Prompt>),
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

/// A prompt on its way to the owner, and the owner's side of its [`Turn`](crate::harness::Turn).
pub(crate) struct Prompt {
    pub request: PromptRequest,
    pub asked: Instant,
    pub audience: Audience,
    words: UnboundedReceiver<TurnOrder>,
    /// A word to abort the turn was taken, and the owner does not know it yet.
    aborts: bool,
    /// The handles are gone.
    is_left: bool,
    publish: watch::Sender<Option<Arc<TurnOutcome>>>,
    /// For the error of a turn that fails, whether or not somebody listens.
    last: LastEvents,
}

impl Prompt {
    /// And the handle of its turn. Removes these secrets from what the turn tells.
    pub(crate) fn new(request: PromptRequest, secrets: Redactor) -> (Prompt, Turn) {
        let (turn, words, publish) = Turn::run_elsewhere();
        let audience = Audience::new(request.has_listener, secrets);
        let (asked, last) = (Instant::now(), LastEvents::default());
        (Prompt { request, asked, audience, words, aborts: false, is_left: false, publish, last }, turn)
    }

    /// The error of the turn, without secrets and with the last events that were told.
    pub(crate) fn failed(&mut self, error: &Error) -> Error {
        let last = self.audience.redact_all(self.last.take());
        self.audience.redact_error(error).with("events", last_behind(&last, &[]))
    }

    /// The next word of the handles, once it is carried out as far as it is about listeners: whether it aborts the turn, as handles
    /// do that are dropped.
    pub(crate) fn poll_word(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if std::mem::take(&mut self.aborts) {
            return Poll::Ready(true);
        }
        if self.is_left {
            return Poll::Pending;
        }
        let word = ready!(self.words.poll_recv(context));
        self.is_left = word.is_none();
        Poll::Ready(!self.audience.heed(word))
    }

    /// Tells these events to whoever asked for them by now: only the first ones are kept for a listener that is not there yet.
    pub(crate) fn tell(&mut self, events: Vec<AgentEvent>) {
        while let Ok(word) = self.words.try_recv() {
            self.aborts |= !self.audience.heed(Some(word));
        }
        let before = events.len().saturating_sub(MAX_EVENTS);
        if self.audience.wants_events() {
            events[before..].iter().for_each(|event| self.last.add(event.clone()));
            self.audience.tell(events);
        } else {
            events.into_iter().skip(before).for_each(|event| self.last.add(event));
        }
    }

    /// The turn is over: nothing more is told. A listener that comes only now is given what was kept.
    pub(crate) fn finish(mut self, outcome: TurnOutcome) {
        self.audience.end();
        self.publish.send_replace(Some(Arc::new(outcome)));
        ground::task::spawn(async move { self.audience.serve_late(&mut self.words).await });
    }

    /// It was never sent.
    pub(crate) fn refuse(self, error: Error) {
        self.finish(TurnOutcome::refused(error));
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
            Order::Listen(_) | Order::Answer { .. } | Order::Elicited { .. } | Order::OwnTool { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_listener_whose_word_was_not_passed_on_yet_hears_everything() {
        let request = PromptRequest { has_listener: true, ..PromptRequest::new("hello") };
        let (mut prompt, turn) = Prompt::new(request, Redactor::default());
        let mut events = turn.events();
        turn.abort();
        let said = |text: usize| AgentEvent::Text { text: text.to_string(), delta: true };
        prompt.tell((0..5_000).map(said).collect());
        assert_eq!(events.next().await.map(|events| events.len()), Some(5_000));
        // The abort was taken with it, and is told to the owner all the same.
        assert!(poll_fn(|context| prompt.poll_word(context)).await);
        assert_eq!(poll_fn(|context| prompt.poll_word(context)).now_or_never(), None);
        drop(turn);
        assert!(poll_fn(|context| prompt.poll_word(context)).await);
        assert_eq!(poll_fn(|context| prompt.poll_word(context)).now_or_never(), None);
    }
}
