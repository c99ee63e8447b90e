//! The client of a runtime: one session, one request at a time, over as many sockets as it takes.
//!
//! [`RuntimeClient`] is a cloneable handle ([`handle`]). The owner task ([`session`]) holds the state; it waits for orders of
//! the handle, frames of its [`line`] (one [`socket`] after the other) and clocks, and hands [`event`]s out by a bounded queue: who does not take them stops
//! the reading. [`connecting`] is how one begins.
//!
//! [`peer`] decides by what arrives whether the runtime knows hello. If it does, a broken socket is replaced, with pauses
//! between attempts and a limit ([`reconnect`]). A runtime that does not know hello gets one request at a time, a cancel
//! before the next request, and an explicit end of the session.

mod connecting;
mod event;
mod handle;
mod in_flight;
mod line;
mod peer;
mod reconnect;
mod session;
mod socket;
mod upload_queue;

pub use connecting::{ClientOptions, Connecting};
pub use event::{ClientEvent, ClientRequest, RequestMessage, RequestResult, SessionEnd};
pub use handle::{RuntimeClient, WeakRuntimeClient};
