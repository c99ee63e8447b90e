//! An engine in the memory of one process, for users' unit tests. It keeps the promises of the others as long as the process
//! lives, and nothing after that.
//!
//! All state is behind one lock that is never held over an await. Each change raises a counter, which wakes whoever waits.

mod lane;
mod log;
mod store;

use super::{Engine, Room, Rooms, Shared};
use async_trait::async_trait;
use ground::error::Error;
use ground::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::State;
use tokio::sync::watch;

/// The name of its one store.
const STORE: &str = "memory";
/// As long as a message of a server that is set up for a fleet.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// A fleet in memory. Clones share it.
#[derive(Clone)]
struct Memory(Arc<Parts>);

struct Parts {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    lease: Duration,
    connections: watch::Sender<u64>,
    is_connected: watch::Sender<bool>,
}

/// A fleet of its own that ends with its last user.
pub(crate) fn open(lease: Duration) -> Shared {
    Arc::new(Memory(Arc::new(Parts {
        state: Mutex::default(),
        changes: watch::Sender::new(0),
        lease,
        connections: watch::Sender::new(1),
        is_connected: watch::Sender::new(true),
    })))
}

impl Memory {
    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&lock(&self.0.state))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut lock(&self.0.state));
        self.0.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Resolves at the next change after this call.
    fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.0.changes.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[async_trait]
impl Engine for Memory {
    fn lease(&self) -> Duration {
        self.0.lease
    }

    fn connections(&self) -> watch::Receiver<u64> {
        self.0.connections.subscribe()
    }

    fn is_connected(&self) -> watch::Receiver<bool> {
        self.0.is_connected.subscribe()
    }

    fn version(&self) -> String {
        STORE.to_owned()
    }

    fn max_message_bytes(&self) -> usize {
        MAX_MESSAGE_BYTES
    }

    async fn rooms(&self) -> Result<Rooms, Error> {
        let (messages, bytes) = self.read(State::size);
        let room = Room { bytes, max_bytes: 0, messages, is_full: false };
        Ok(Rooms {
            all: BTreeMap::from([(STORE.to_owned(), room)]),
            records: STORE.to_owned(),
            leases: STORE.to_owned(),
        })
    }

    async fn check_room(&self) -> Result<(), Error> {
        Ok(())
    }

    fn forget_room(&self) {}

    async fn close(&self) {}
}
