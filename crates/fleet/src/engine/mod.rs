//! The engine under a fleet, and the only home of async-nats: NATS JetStream is queue, record store, log, lease store and
//! object store. Narrow on purpose: another engine would have to give these calls, and the promises that stand at each.
//!
//! | call | promise |
//! |---|---|
//! | `queue`: put, pull, beat, ack | at least once; a message whose holder is silent for a lease is given out again |
//! | `records`: read, write | compare-and-swap on the revision, read at the leader |
//! | `log`: append, open | in order, kept, any number of readers from any cursor |
//! | `leases`: take, renew | ends by itself when nobody renews it |
//! | `blob`: put, get | whole, checked by its digest |
//!
//! A call waits through a server that is away for a moment and repeats itself: messages have ids, and a swap whose answer was
//! lost is read back. `Connection` counts connections, so that whoever listens knows that it may have missed something.

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
