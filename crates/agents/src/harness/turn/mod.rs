//! The handle of a turn, and the turn's outcome.

mod attempt;
pub(crate) mod audience;
mod command;
pub(crate) mod end_warning;
mod log;
pub(crate) mod mirror;
pub(crate) mod next;
pub mod observer;
mod output;
pub(crate) mod owner;
pub(crate) mod preparation;
pub(crate) mod record;
pub mod request;
pub mod structured;
pub(crate) mod traffic;
pub(crate) mod way;

use crate::harness::event::sink::{EventReader, EventSink, event_channel};
use crate::harness::verdict::result::TurnResult;
use ground::error::{Error, ErrorCode};
use ground::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use std::sync::Arc;
use tokio::sync::watch;

/// A word to the owner task.
pub enum Order {
    Abort,
    Listen(Box<dyn EventSink>),
    Leave,
}

/// How a turn ended, any way it ended. Secrets are taken out of it.
#[derive(Clone, Debug)]
pub enum TurnOutcome {
    Succeeded(TurnResult),
    /// `partial`: what there is of a result; `None` when nothing was tried.
    Failed {
        error: Error,
        partial: Option<TurnResult>,
    },
}

impl TurnOutcome {
    /// A turn of which nothing was tried.
    pub fn refused(error: Error) -> Self {
        TurnOutcome::Failed { error, partial: None }
    }

    /// Whole when it succeeded, else what there is of it.
    pub fn result(&self) -> Option<&TurnResult> {
        match self {
            TurnOutcome::Succeeded(result) => Some(result),
            TurnOutcome::Failed { partial, .. } => partial.as_ref(),
        }
    }

    pub fn error(&self) -> Option<&Error> {
        match self {
            TurnOutcome::Succeeded(_) => None,
            TurnOutcome::Failed { error, .. } => Some(error),
        }
    }
}

/// A turn under way. Cloneable; when the last handle is dropped before the end, it is aborted.
#[derive(Clone)]
pub struct Turn {
    orders: UnboundedSender<Order>,
    outcome: watch::Receiver<Option<Arc<TurnOutcome>>>,
}

impl Turn {
    /// A turn that somebody else runs: its handle, the words that come for it, and where its outcome goes.
    pub(crate) fn run_elsewhere() -> (Turn, UnboundedReceiver<Order>, watch::Sender<Option<Arc<TurnOutcome>>>)
    {
        let (orders, received) = unbounded_channel();
        let (publish, outcome) = watch::channel(None);
        (Turn { orders, outcome }, received, publish)
    }

    /// How the turn ended; resolves when its tree is gone. May be awaited many times.
    pub async fn outcome(&self) -> Arc<TurnOutcome> {
        let mut outcome = self.outcome.clone();
        let value = outcome.wait_for(Option::is_some).await.map(|value| value.clone());
        value.ok().flatten().unwrap_or_else(|| {
            let error = Error::new(ErrorCode::AgentAborted, "the addon was shut down before the turn ended");
            Arc::new(TurnOutcome::refused(error))
        })
    }

    /// Ends the turn; it is over when [`Turn::outcome`] resolves. After the end nothing happens.
    pub fn abort(&self) {
        let _ = self.orders.send(Order::Abort);
    }

    /// Gives the events to this sink, first those that were kept. A later sink takes over.
    pub fn listen(&self, sink: Box<dyn EventSink>) {
        // After the end the word comes back, and dropping it ends the sink.
        let _ = self.orders.send(Order::Listen(sink));
    }

    /// The events for a reader in Rust; see [`Turn::listen`]. The request has to say that somebody listens (`has_listener`).
    pub fn events(&self) -> EventReader {
        let (sink, reader) = event_channel();
        self.listen(Box::new(sink));
        reader
    }

    /// Nobody listens any more.
    pub fn leave(&self) {
        let _ = self.orders.send(Order::Leave);
    }

    /// A handle that does not keep the turn alive.
    pub fn downgrade(&self) -> WeakTurn {
        WeakTurn { orders: self.orders.downgrade() }
    }
}

/// See [`Turn::downgrade`].
#[derive(Clone)]
pub struct WeakTurn {
    orders: WeakUnboundedSender<Order>,
}

impl WeakTurn {
    pub fn abort(&self) {
        if let Some(orders) = self.orders.upgrade() {
            let _ = orders.send(Order::Abort);
        }
    }

    pub fn is_over(&self) -> bool {
        self.orders.upgrade().is_none_or(|orders| orders.is_closed())
    }
}
