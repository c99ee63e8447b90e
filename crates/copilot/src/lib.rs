//! Sessions with the Copilot CLI, over its JSON-RPC.
//!
//! A [`Connection`] is one run of the runtime (an own process, or a server elsewhere) after its handshake. Its reader
//! ([`wires::jsonrpc`]) looks at each message without building values. An event goes to the turn logic of its session. If the
//! host subscribed to the event's type, its text also goes into the [`Outbox`], the only queue to the host, which is ordered and
//! bounded.
//!
//! The modules that decide are pure: [`turn_state`] (when a turn is over), [`resume`] (classifying a failed resume),
//! [`session_event`] (the meaning of an event). Waiting is done in thin loops: one task per turn ([`turn`]), one that watches the
//! process ([`runtime_process`]), and the three of the JSON-RPC client.
//!
//! A connection always ends in the same way: the reader reaches the end of the stream, waits briefly for the exit status, and
//! fails every pending request and every turn with `CONNECTION_LOST`. [`Connection::stop`] ends gracefully (`runtime.shutdown`,
//! closed stdin, SIGTERM, SIGKILL), [`Connection::kill`] at once. Both resolve when the process tree is gone. Dropping the last
//! handle kills the tree as well.

mod connection;
pub mod event_log;
mod outbox;
mod reach;
mod receiver;
pub mod reported_error;
mod request_timeout;
pub mod resume;
mod resume_session;
mod runtime_process;
mod runtime_wait;
mod session;
pub mod session_event;
mod session_lock;
mod session_state;
mod sessions;
mod stderr_tail;
mod tracked_turn;
mod turn;
mod turn_handle;
pub mod turn_state;

pub use connection::{Connection, ConnectionOptions, Started};
pub use outbox::Outbox;
pub use reach::Target;
pub use request_timeout::request_timeout;
pub use resume_session::{ResumeRequest, Resumed};
pub use session::Session;
pub use sessions::Sessions;
pub use turn::{TurnOptions, wait_for_turn};
pub use turn_handle::{TurnHandle, TurnKind};
