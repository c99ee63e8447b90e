//! Starts tasks, and waits for what others change. clippy.toml forbids tokio's own function for tasks.

use std::pin::{Pin, pin};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Starts a task. Its future is boxed first: tokio compiles its whole machinery of a task, twice, for each type of future.
///
/// # Panics
/// Outside of tokio's runtime.
#[expect(clippy::disallowed_methods, reason = "the future is boxed here")]
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

/// Waits until `look` finds something, and asks it again whenever `changed` tells of a change.
pub async fn found<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut news = pin!(changed.notified());
        // Before the look, so that nothing is missed between the look and the wait.
        news.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        news.await;
    }
}
