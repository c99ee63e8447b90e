//! JSON-RPC 2.0 over any pair of byte streams, with `Content-Length` headers or one JSON text per line.
//!
//! [`Client::start`]`(source, sink, wire, handler)` spawns three tasks that share one state. Messages stay JSON text; this module
//! builds no values:
//! - the **reader** takes bytes from a [`ByteSource`], finds messages ([`wire`]), settles the requests that were answered, and
//!   passes all other messages to the [`Handler`], in the order of the wire. Before each message it waits for [`Handler::ready`]:
//!   a handler that is full slows the peer's pipe.
//! - the **writer** takes whole frames from a bounded queue and writes them one after the other. A caller that goes away never
//!   leaves half a frame behind.
//! - the **timekeeper** fails overdue requests with `CONNECTION_TIMED_OUT`.
//!
//! | task | call |
//! |---|---|
//! | use headers (Copilot), or one JSON text per line (ACP) | [`Wire::HEADERS`], [`Wire::LINES`]; their fields set the longest
//! message (64 MiB a line) and the name of the cancel notification |
//! | send a request and wait | [`Client::request`]`(method, params, timeout)`: dropping the future cancels the request |
//! | send a request without waiting | [`Client::call`]`(.., Completion::new(f))` gives a [`CallId`] |
//! | give a request up | [`Client::cancel`] (with a notification to the peer) or [`Client::forget`] (without) |
//! | notify, answer | [`Client::notify`], [`Client::respond`]`(id, Ok(result) or Err(&Refusal))` |
//! | receive requests and notifications | [`Handler::on_request`], [`Handler::on_notification`]; [`Handler::take_frame`] before
//! parsing |
//! | receive a line that is not a message | [`Handler::on_noise`] with [`Noise::Line`] |
//! | end the connection; learn that it ended, and how | [`Client::close`]; [`Client::ended`], [`Client::closed`] |
//!
//! The connection ends when the source ends, fails, or turns to noise, or when the sink fails. The reader then asks
//! [`Handler::on_end`] for the error that describes best what happened (the handler may wait for an exit status). Every pending
//! and every later request fails with this error. [`Client::close`] does the same from outside. Dropping every `Client` ends the
//! three tasks.
//!
//! A request settles even when its owner fails. A task that panics, or whose executor goes away, ends the connection with
//! `CONNECTION_LOST` ([`pending::CloseOnDrop`]), and a [`Completion`] that is dropped fails by itself.

mod client;
mod completion;
mod found;
mod handler;
mod headers;
mod lines;
mod message;
mod pending;
mod reader;
mod stream;
mod timekeeper;
mod wire;
mod writer;

pub use client::Client;
pub use completion::Completion;
pub use found::{Broken, Found};
pub use handler::{Handler, Noise};
pub use message::{Message, parse, reply, request};
pub use message::{Refusal, quote};
pub use pending::CallId;
pub use reader::is_closed_by_peer;
pub use stream::{ByteSink, ByteSource, StreamSink, StreamSource};
pub use wire::{Decoder, Framing, Wire};
