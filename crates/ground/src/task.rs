//! Starts tasks. clippy.toml forbids tokio's own function.

use std::pin::Pin;
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
