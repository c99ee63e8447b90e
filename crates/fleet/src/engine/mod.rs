//! The engine under a fleet: queue, record store, log, lease store and object store. `interface::Engine` is the interface; it is narrow
//! on purpose, and each call has a guarantee. [`nats`] is the engine of fleets on many machines, and the only module that
//! uses the names of that server. [`memory`] keeps the same promises within one process, for tests.
//!
//! | trait | promise |
//! |---|---|
//! | `Queue`: put, pull, beat, finish | at least once; a message whose holder is silent for a lease is redelivered |
//! | `Entries`: put, watch | compare-and-swap on the revision, read at the leader; may expire; a change is told to everybody who is connected |
//! | `Logs`: append, read | in order, kept, any number of readers from any cursor |
//! | `Objects`: put, get | whole, checked by its digest |
//!
//! A call waits while the engine is away for a moment, and repeats itself: messages have ids, and a swap whose answer was lost
//! is read back. `connections` counts connections, so that a listener knows that it may have missed something.

mod entries;
mod interface;
mod lane;
mod memory;
mod nats;
mod value;

pub(crate) use entries::RecordWatch;
pub(crate) use interface::{Changes, Engine, LogReader, Shared, classes};
pub(crate) use lane::{Delivery, Lane};
pub(crate) use memory::open as open_memory;
#[cfg(test)]
pub(crate) use nats::test_server;
pub use nats::{Access, ServerPlaces};
pub(crate) use nats::{Local, connect};
pub(crate) use value::{
    CLOSED, Entry, Found, Group, JobPage, Kept, Key, Place, Queued, Refused, RetryFor, Room, Rooms, Waiting,
    away, is_too_long,
};
