//! One turn with a waiting caller, shared by its session, its task and its caller.

use super::tracked_turn::{TurnEnd, TurnId};
use ground::error::Error;
use ground::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use wires::jsonrpc::CallId;

/// Called with the end, and the id of the event that ended the turn where the runtime named it.
type Tell = Box<dyn FnOnce(TurnEnd, Option<String>) + Send>;

/// The kind of a turn's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    Message,
    /// A message into a running turn.
    Steering,
    /// No message: the model goes on with the history as it is (`session.sendMessages` with none).
    Retry,
}

pub struct TurnHandle {
    pub kind: TurnKind,
    /// The wait goes on after the turn, for its detached tasks.
    pub outlasts_turn: bool,
    wake: Notify,
    state: Mutex<HandleState>,
}

#[derive(Default)]
pub(super) struct HandleState {
    /// The turn's id, once its message is on its way.
    pub id: Option<TurnId>,
    pub call: Option<CallId>,
    pub failed: Option<Error>,
    completion_event: Option<String>,
    aborted: bool,
    tell: Option<Tell>,
}

impl TurnHandle {
    /// `tell` is called once with the end. The reader calls it right after the event that ends the turn, so that no later event
    /// comes in between; or the waiting task calls it.
    pub fn new(
        kind: TurnKind,
        outlasts_turn: bool,
        tell: impl FnOnce(TurnEnd, Option<String>) + Send + 'static,
    ) -> Arc<Self> {
        let tell: Option<Tell> = Some(Box::new(tell));
        Arc::new(TurnHandle {
            kind,
            outlasts_turn,
            wake: Notify::new(),
            state: Mutex::new(HandleState { tell, ..HandleState::default() }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HandleState> {
        lock(&self.state)
    }

    /// The caller gives the turn up and wants its work stopped.
    pub fn abort(&self) {
        self.lock().aborted = true;
        self.wake();
    }

    pub fn is_aborted(&self) -> bool {
        self.lock().aborted
    }

    /// Ends a turn that never began.
    pub fn fail(&self, error: &Error) {
        self.lock().failed.get_or_insert_with(|| error.clone());
        self.wake();
    }

    /// Passes the end to the caller. Only the first one counts.
    pub fn tell(&self, end: TurnEnd) {
        let mut state = self.lock();
        let (tell, event) = (state.tell.take(), state.completion_event.take());
        drop(state);
        if let Some(tell) = tell {
            tell(end, event);
        }
        self.wake();
    }

    /// The runtime named the event that ended the turn.
    pub(super) fn set_completion_event(&self, event: Option<String>) {
        self.lock().completion_event = event;
    }

    pub fn is_told(&self) -> bool {
        self.lock().tell.is_none()
    }

    /// Wakes the waiting task, because the turn's state may have changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub async fn woken(&self) {
        self.wake.notified().await;
    }
}
