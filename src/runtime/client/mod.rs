//! The client of a runtime: one session, one request at a time, over as many sockets as it takes.
//!
//! [`RuntimeClient`] is a cloneable handle ([`handle`]). The owner task ([`session`]) holds the state; it waits for orders of
//! the handle, frames of its [`line`] (one [`socket`] after the other) and clocks, and hands [`event`]s out by a bounded queue: who does not take them stops
//! the reading. [`connecting`] is how one begins.
//!
//! A runtime that knows hello is resumed when the socket breaks, with waits between and an end when nothing comes of it
//! ([`reconnect`]). One that does not is talked to as it is used to: no request while one is in flight, cancel before the next,
//! the end of the session asked for and waited for.

mod connecting;
mod event;
mod handle;
mod in_flight;
mod line;
mod reconnect;
mod session;
mod socket;
mod upload_queue;

pub use connecting::{ClientOptions, Connecting};
pub use event::{ClientEvent, ClientRequest, RequestMessage, RequestResult, SessionEnd};
pub use handle::{RuntimeClient, WeakRuntimeClient};
