//! One turn that somebody waits for, as its session, its task and its caller share it.

use super::tracked_turn::{TurnEnd, TurnId};
use crate::error::Error;
use crate::jsonrpc::CallId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

type Tell = Box<dyn FnOnce(TurnEnd) + Send>;

pub struct TurnHandle {
    /// Sent into a running turn.
    pub steering: bool,
    /// The wait goes on after the turn, for its detached tasks.
    pub outlasts_turn: bool,
    wake: Notify,
    state: Mutex<HandleState>,
}

pub(super) struct HandleState {
    /// Once its message is on its way.
    pub id: Option<TurnId>,
    pub call: Option<CallId>,
    pub failed: Option<Error>,
    aborted: bool,
    tell: Option<Tell>,
}

impl TurnHandle {
    /// `tell` is called once, with the end: by the reader right after the event that ends the turn, so that no later event
    /// comes between the two, or by the task that waits.
    pub fn new(
        steering: bool,
        outlasts_turn: bool,
        tell: impl FnOnce(TurnEnd) + Send + 'static,
    ) -> Arc<Self> {
        let tell: Option<Tell> = Some(Box::new(tell));
        Arc::new(TurnHandle {
            steering,
            outlasts_turn,
            wake: Notify::new(),
            state: Mutex::new(HandleState { id: None, call: None, failed: None, aborted: false, tell }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller gives the turn up and wants its work stopped.
    pub fn abort(&self) {
        self.lock().aborted = true;
        self.wake();
    }

    pub fn is_aborted(&self) -> bool {
        self.lock().aborted
    }

    /// The turn never began.
    pub fn fail(&self, error: &Error) {
        self.lock().failed.get_or_insert_with(|| error.clone());
        self.wake();
    }

    /// Tells the caller the end; only the first one counts.
    pub fn tell(&self, end: TurnEnd) {
        let tell = self.lock().tell.take();
        if let Some(tell) = tell {
            tell(end);
        }
        self.wake();
    }

    pub fn is_told(&self) -> bool {
        self.lock().tell.is_none()
    }

    /// There may be something new for the task that waits.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub async fn woken(&self) {
        self.wake.notified().await;
    }
}
