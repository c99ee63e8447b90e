//! A wait for the end of the proxy.

use tokio::sync::watch;

/// The end of the proxy.
#[derive(Clone)]
pub(crate) struct Ended(watch::Receiver<()>);

impl Ended {
    /// The receiver of a sender that lives as long as the proxy.
    pub(crate) fn of(alive: watch::Receiver<()>) -> Ended {
        Ended(alive)
    }

    pub(crate) async fn wait(&mut self) {
        // Nothing is ever sent: an error says that the proxy is gone.
        while self.0.changed().await.is_ok() {}
    }
}
