//! The switch that ends a call from outside.

use std::future::pending;
use tokio::sync::watch;

/// Off until [`AbortSwitch::abort`] is called, before the call begins or later.
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

    /// Resolves when the switch is thrown. Does not hold the switch: one that is dropped will never be thrown.
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut aborted = self.aborted.subscribe();
        async move {
            if aborted.wait_for(|aborted| *aborted).await.is_err() {
                pending().await
            }
        }
    }
}
