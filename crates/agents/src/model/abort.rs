//! A switch that aborts a call from outside.

use std::future::pending;
use tokio::sync::watch;

/// Aborts a call when [`AbortSwitch::abort`] is called, before the call begins or later.
#[derive(Debug, Default)]
pub struct AbortSwitch {
    aborted: watch::Sender<bool>,
}

impl AbortSwitch {
    pub fn abort(&self) {
        self.aborted.send_replace(true);
    }

    pub fn is_aborted(&self) -> bool {
        *self.aborted.borrow()
    }

    /// Resolves when the call is aborted. Does not keep the switch alive. A switch that was dropped never aborts.
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut aborted = self.aborted.subscribe();
        async move {
            if aborted.wait_for(|aborted| *aborted).await.is_err() {
                pending().await
            }
        }
    }
}
