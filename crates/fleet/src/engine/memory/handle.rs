//! The handle of a fleet in memory: its state behind one lock, and who waits for changes.

use super::state::State;
use ground::lock::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// A fleet in memory. Clones share it.
#[derive(Clone)]
pub(super) struct Memory(pub(super) Arc<Parts>);

pub(super) struct Parts {
    pub state: Mutex<State>,
    pub changes: watch::Sender<u64>,
    pub lease: Duration,
    pub connections: watch::Sender<u64>,
    pub is_connected: watch::Sender<bool>,
}

impl Memory {
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&lock(&self.0.state))
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut lock(&self.0.state));
        self.0.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Resolves with what `look` finds, now or after a change.
    pub(super) async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.changed();
            if let Some(found) = self.read(&look) {
                return found;
            }
            changed.await;
        }
    }

    /// Resolves at the next change after this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.0.changes.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
