//! The client of a runtime: one session with one request at a time, over as many sockets as needed.
//!
//! [`RuntimeClient`] is a cloneable handle ([`handle`]). The owner task ([`session`]) holds the state. It waits for orders of the
//! handle, frames of its [`line`] (one [`socket`] after the other) and clocks. It hands [`event`]s out through a bounded queue: a
//! caller that does not take its events stops the reading. [`connecting`] opens a session.
//!
//! [`peer`] decides from the received frames whether the runtime knows hello. If it does, a broken socket is replaced, with
//! pauses between attempts and a limit ([`reconnect`]). A runtime that does not know hello gets one request at a time, a cancel
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
