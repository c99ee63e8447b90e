//! An engine in the memory of one process, for users' unit tests. It keeps the promises of the others as long as the process
//! lives, and nothing after that.
//!
//! All state is behind one lock that is never held over an await. Each change raises a counter, which wakes whoever waits.

mod entries;
mod handle;
mod lane;
mod log;
mod objects;
mod state;

use crate::engine::interface::{Engine, Shared};
use crate::engine::value::{Room, Rooms};
use async_trait::async_trait;
use ground::error::Error;
use handle::{Memory, Parts};
use state::State;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// The name of its one store.
const STORE: &str = "memory";
/// As long as a message of a server that is set up for a fleet.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

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

    async fn last_changes(&self) -> Result<(u64, u64), Error> {
        let behind = self.read(|state| state.last) + 1;
        Ok((behind, behind))
    }
}
