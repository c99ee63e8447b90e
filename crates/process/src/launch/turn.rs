//! A turn to start a program, which is held for a moment only.

use ground::lock::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::SemaphorePermit;

/// Work that has a turn has it for a moment only: what hangs (a dead network folder) must not keep the others from starting.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// A turn that two hold: the thread that starts the program, and the run that waits for it. Who is first gives it back.
#[derive(Clone)]
pub(super) struct Turn(Arc<Mutex<Option<SemaphorePermit<'static>>>>);

impl Turn {
    pub(super) fn new(permit: Option<SemaphorePermit<'static>>) -> Turn {
        Turn(Arc::new(Mutex::new(permit)))
    }

    pub(super) fn give_back(&self) {
        drop(lock(&self.0).take());
    }
}

/// The work's result. The turn is given back when the work is done, or has taken long.
pub(super) async fn with_turn<T>(work: impl Future<Output = T>, turn: &Turn) -> T {
    let mut work = std::pin::pin!(work);
    let done = tokio::time::timeout(TURN, &mut work).await;
    turn.give_back();
    match done {
        Ok(done) => done,
        Err(_) => work.await,
    }
}
