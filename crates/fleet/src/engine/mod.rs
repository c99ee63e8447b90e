//! The engine under a fleet, and the only module that uses async-nats: NATS JetStream is queue, record store, log, lease store
//! and object store. The interface is narrow on purpose: another engine would need these calls, with the guarantee of each.
//!
//! | call | promise |
//! |---|---|
//! | `queue`: put, pull, beat, ack | at least once; a message whose holder is silent for a lease is redelivered |
//! | `records`: read, write | compare-and-swap on the revision, read at the leader |
//! | `log`: append, open | in order, kept, any number of readers from any cursor |
//! | `leases`: take, renew | expires unless it is renewed |
//! | `blob`: put, get | whole, checked by its digest |
//!
//! A call waits while the server is away for a moment, and repeats itself: messages have ids, and a swap whose answer was lost is
//! read back. `Connection` counts connections, so that a listener knows that it may have missed something.

mod batch;
mod blob;
mod connection;
mod leases;
mod log;
mod queue;
mod records;
mod room;
mod store;
mod streams;
#[cfg(test)]
pub(super) mod test_server;
mod trust;

pub(crate) use connection::{Access, Engine};
pub(crate) use leases::LeaseSlot;
pub(crate) use log::LogReader;
pub(crate) use queue::{Delivery, Lane, Waiting};
pub(crate) use records::{Kept, RecordWatch};
pub(crate) use room::Room;
pub(crate) use store::{Refused, RetryFor, full, is_too_long};
