//! JSON-RPC 2.0 with `Content-Length` framing, over any pair of byte streams.
//!
//! [`Client::start`] spawns three tasks that share one state:
//! - the **reader** takes bytes from a [`ByteSource`], finds frames ([`wire`]) and messages ([`message`]), settles the
//!   requests that were answered, and hands all else to the [`Handler`], in the order of the wire. Before each frame it waits
//!   for [`Handler::ready`]: a handler that is full slows the peer's pipe.
//! - the **writer** takes whole frames from a bounded queue and writes them one after the other; a caller that goes away
//!   never leaves half a frame behind.
//! - the **timekeeper** sleeps until the next deadline and fails what is overdue with `CONNECTION_TIMED_OUT`.
//!
//! The end: when the source ends, breaks, or turns to noise, or the sink refuses, the reader asks [`Handler::on_end`] for the
//! error that tells best what happened (it may wait for an exit status), and every pending request fails with it, as does
//! every later one. [`Client::close`] does the same from outside. Dropping every `Client` ends the three tasks.

mod client;
mod message;
mod stream;
mod wire;

pub use client::{ByteSink, ByteSource, CallId, Client, Handler, Noise};
pub use message::{Refusal, quote, without_halves};
pub use stream::{StreamSink, StreamSource};
pub use wire::{Broken, Decoder, encode};
