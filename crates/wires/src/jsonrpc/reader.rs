//! The task that reads: it finds messages, settles answered requests, and passes on all other messages.

use super::found::{Broken, Found};
use super::handler::{Handler, Noise};
use super::message::{self, Message, NO_ID};
use super::pending::{CloseOnDrop, Connected};
use super::stream::ByteSource;
use super::wire::Wire;
use bytes::Bytes;
use futures_util::FutureExt;
use ground::error::{Error, ErrorCode};
use ground::json;
use ground::os::within;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

const PEER_CLOSED: &str = "the peer closed the connection";
const NOTHING_TAKEN: &str = "the peer does not take any more input";
/// After the sink failed, the peer may be silent this long before reading stops: its end says more about the failure.
const SILENCE: Duration = Duration::from_millis(500);
/// After the sink failed, the peer may continue this long, not counting the time that its handler takes.
const AFTER_WRITE_FAILED: Duration = Duration::from_secs(10);
/// After the sink failed, the handler may take this long for one message: it may wait for an answer that can't come any more.
const LISTENER: Duration = Duration::from_secs(30);

pub(super) async fn read<H: Handler>(
    mut source: impl ByteSource,
    held: CloseOnDrop,
    wire: Wire,
    mut handler: H,
    mut ended: watch::Receiver<bool>,
) {
    let connected = Weak::clone(&held.connected);
    let Some(write_failed) = connected.upgrade().map(|connected| Arc::clone(&connected.write_failed)) else {
        return;
    };
    let deadline = ReadDeadline { write_failed: &write_failed, until: None };
    // A panic of the handler must not leave tasks waiting for the end.
    let reading =
        AssertUnwindSafe(read_messages(&mut source, deadline, &connected, wire, &mut handler)).catch_unwind();
    let cause = tokio::select! {
        cause = reading => cause.unwrap_or_else(|panic| Error::of_panic(&*panic)),
        // The connection was closed from outside or dropped, so there is no end to report.
        _ = ended.wait_for(|ended| *ended) => return,
    };
    let error = handler.on_end(cause).await;
    if let Some(connected) = connected.upgrade() {
        connected.close(&error);
    }
}

/// Whether the peer ended the connection, for example because its process exited.
pub fn is_closed_by_peer(cause: &Error) -> bool {
    cause.code() == ErrorCode::ConnectionLost && cause.message().starts_with(PEER_CLOSED)
}

fn lost(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConnectionLost, message)
}

/// Limits how long to read on after the sink failed. The end may be many messages away, and time that the handler takes is not
/// silence of the peer.
struct ReadDeadline<'a> {
    write_failed: &'a Notify,
    until: Option<Instant>,
}

impl ReadDeadline<'_> {
    /// The next bytes of the source. `None` when the peer's time is up.
    async fn next(&mut self, source: &mut impl ByteSource) -> Option<io::Result<Option<Bytes>>> {
        let mut next = pin!(source.next());
        let until = match self.until {
            Some(until) => until,
            None => tokio::select! {
                biased;
                () = self.write_failed.notified() => *self.until.insert(Instant::now() + AFTER_WRITE_FAILED),
                found = &mut next => return Some(found),
            },
        };
        let now = Instant::now();
        if now >= until {
            return None;
        }
        timeout_at(until.min(now + SILENCE), next).await.ok()
    }

    /// Waits until the handler has room for another message. False when the time is up.
    async fn wait_for_listener(&mut self, handler: &mut impl Handler) -> bool {
        let since = Instant::now();
        let mut ready = pin!(handler.ready());
        if self.until.is_none() {
            tokio::select! {
                biased;
                () = &mut ready => return true,
                () = self.write_failed.notified() => self.until = Some(since + AFTER_WRITE_FAILED),
            }
        }
        let has_room = within(LISTENER, ready).await.is_some();
        if let Some(until) = &mut self.until {
            *until += since.elapsed();
        }
        has_room
    }
}

async fn read_messages<H: Handler>(
    source: &mut impl ByteSource,
    mut deadline: ReadDeadline<'_>,
    connected: &Weak<Connected>,
    wire: Wire,
    handler: &mut H,
) -> Error {
    let mut decoder = wire.decoder();
    loop {
        let Some(found) = deadline.next(source).await else {
            return lost(NOTHING_TAKEN);
        };
        match found {
            Ok(Some(bytes)) => decoder.push(&bytes),
            Ok(None) => {
                let torn = if decoder.is_torn() { " in the middle of a message" } else { "" };
                return lost(format!("{PEER_CLOSED}{torn}"));
            }
            Err(error) => return lost(format!("reading from the peer failed: {error}")),
        }
        loop {
            match decoder.next_found() {
                Ok(None) => break,
                Ok(Some(Found::Garbage(bytes))) => handler.on_noise(Noise::Garbage { bytes }),
                Ok(Some(Found::Line(line))) => {
                    if !deadline.wait_for_listener(handler).await {
                        return lost(NOTHING_TAKEN);
                    }
                    handler.on_noise(Noise::Line(&String::from_utf8_lossy(&line)));
                }
                Ok(Some(Found::Body(body))) => {
                    if !deadline.wait_for_listener(handler).await {
                        return lost(NOTHING_TAKEN);
                    }
                    let Some(connected) = connected.upgrade() else {
                        return lost("the connection was dropped");
                    };
                    let is_message = dispatch(&body, &connected, handler)
                        // A byte that is no UTF-8, for example, damages a text and not the message.
                        || json::well_formed(&body)
                            .is_some_and(|text| dispatch(text.as_bytes(), &connected, handler));
                    if !is_message {
                        let bytes = body.len();
                        match decoder.reject(body) {
                            Found::Line(line) => {
                                handler.on_noise(Noise::Line(&String::from_utf8_lossy(&line)));
                            }
                            _ => handler.on_noise(Noise::BadBody { bytes }),
                        }
                    }
                }
                Err(broken) => return lost(describe(broken, wire)),
            }
        }
    }
}

fn describe(broken: Broken, wire: Wire) -> String {
    match broken {
        Broken::Noise(bytes) => format!("the peer wrote {bytes} bytes that are not messages"),
        Broken::TooLong(bytes) => {
            let most = wire.max_body;
            format!("the peer announced a message of {bytes} bytes, {most} are read at most")
        }
        Broken::LineTooLong(most) => format!("the peer wrote a line of more than {most} bytes"),
    }
}

fn dispatch<H: Handler>(body: &[u8], connected: &Connected, handler: &mut H) -> bool {
    if handler.take_frame(body) {
        return true;
    }
    match message::parse(body) {
        Some(Message::Notification { method, params }) => handler.on_notification(&method, params),
        Some(Message::Request { id, method, params }) => handler.on_request(id, &method, params),
        Some(Message::Reply { id, result }) => {
            let fault = result.as_ref().err().map(|refusal| refusal.message.clone());
            if !connected.settle(id, result) {
                handler.on_noise(match &fault {
                    Some(message) if id == NO_ID => Noise::Fault(message),
                    _ => Noise::StrayReply,
                });
            }
        }
        None => return false,
    }
    true
}
