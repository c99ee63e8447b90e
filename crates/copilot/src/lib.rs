//! Sessions with the Copilot CLI, over its JSON-RPC.
//!
//! A [`Connection`] is one run of the runtime (a process of ours, or a server elsewhere) after its handshake. Its reader
//! ([`wires::jsonrpc`]) looks at each message without building values: an event goes to the turn logic of its session and,
//! if the host subscribed to its type, as text into the [`Outbox`], the one ordered and bounded queue to the host.
//!
//! What decides is pure and stands alone: [`turn_state`] (when is a turn over), [`resume`] (what a failed resume means),
//! [`session_event`] (what an event says). What waits is thin: one task per turn ([`turn`]), one that watches the process
//! ([`runtime_process`]), the three of the JSON-RPC client.
//!
//! The end of a connection has one way: the reader sees the end of the stream, waits briefly for the exit status, and fails
//! every pending request and every turn with `CONNECTION_LOST`. [`Connection::stop`] ends politely (`runtime.shutdown`, closed
//! stdin, SIGTERM, SIGKILL), [`Connection::kill`] at once; both resolve when the process tree is gone. Dropping the last
//! handle kills the tree, as a backstop.

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
pub use session::{Session, Sessions};
pub use turn::{TurnOptions, wait_for_turn};
pub use turn_handle::{TurnHandle, TurnKind};
