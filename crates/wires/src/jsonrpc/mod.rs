//! JSON-RPC 2.0 over any pair of byte streams, with `Content-Length` headers or a JSON text a line.
//!
//! [`Client::start`]`(source, sink, wire, handler)` spawns three tasks that share one state; everything on the wire stays JSON
//! text, no value is built here:
//! - the **reader** takes bytes from a [`ByteSource`], finds messages ([`wire`]), settles the requests that were answered,
//!   and hands all else to the [`Handler`], in the order of the wire. Before each message it waits for [`Handler::ready`]: a
//!   handler that is full slows the peer's pipe.
//! - the **writer** takes whole frames from a bounded queue and writes them one after the other; a caller that goes away
//!   never leaves half a frame behind.
//! - the **timekeeper** fails what is overdue with `CONNECTION_TIMED_OUT`.
//!
//! | to do | call |
//! |---|---|
//! | speak with headers (Copilot), or a JSON text a line (ACP) | [`Wire::HEADERS`], [`Wire::LINES`]; fields say the longest message (64 MiB a line) and the name of the notification that cancels |
//! | ask and wait | [`Client::request`]`(method, params, timeout)`: dropping the future cancels the request |
//! | ask without waiting | [`Client::call`]`(.., Completion::new(f))` gives a [`CallId`] |
//! | give a request up | [`Client::cancel`] (the peer is told) or [`Client::forget`] (it is not) |
//! | tell, answer | [`Client::notify`], [`Client::respond`]`(id, Ok(result) or Err(&Refusal))` |
//! | hear of what the peer asks and tells | [`Handler::on_request`], [`Handler::on_notification`]; [`Handler::take_frame`] before parsing |
//! | hear of a line that is no message | [`Handler::on_noise`] with [`Noise::Line`] |
//! | end it; know that it ended, and how | [`Client::close`]; [`Client::ended`], [`Client::closed`] |
//!
//! The end: when the source ends, breaks, or turns to noise, or the sink refuses, the reader asks [`Handler::on_end`] for the
//! error that tells best what happened (it may wait for an exit status), and every pending request fails with it, as does
//! every later one. [`Client::close`] does the same from outside. Dropping every `Client` ends the three tasks.
//!
//! A request settles whatever happens to its owner: a task that panics, or whose executor goes away, ends the connection with
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
pub use message::{Refusal, quote, without_halves};
pub use pending::CallId;
pub use reader::is_closed_by_peer;
pub use stream::{ByteSink, ByteSource, StreamSink, StreamSource};
pub use wire::{Decoder, Framing, Wire};
