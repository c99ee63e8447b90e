//! A turn to start a program, which is held for a moment only.

use std::time::Duration;
use tokio::sync::SemaphorePermit;

/// Work that has a turn has it for a moment only: what hangs (a dead network folder) must not keep the others from starting.
const TURN: Duration = Duration::from_millis(50);

/// The work's result, and its turn when it was done in time.
pub(crate) async fn with_turn<T>(
    work: impl Future<Output = T>,
    turn: Option<SemaphorePermit<'static>>,
) -> (T, Option<SemaphorePermit<'static>>) {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(TURN, &mut work).await {
        return (done, turn);
    }
    drop(turn);
    (work.await, None)
}
