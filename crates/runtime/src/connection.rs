//! One socket of the server: first the access check, then frames in both directions until one side ends it.
//!
//! Reading and writing wait for each other only where necessary: the server stops reading from a client that does not read while
//! too much output waits for it. A session begins with the first frame, so that an idle socket costs little.

use super::intake::{Meter, MeteredStream};
use super::outbox::{Outbox, Outgoing};
use super::registry::SessionRegistry;
use super::service::{Closing, Service};
use super::session::{SessionEvent, SessionHandle};
use super::stranger::Stranger;
use super::upgrade::{AccessPolicy, MAX_HEAD_BYTES, UpgradeAnswer, answer, too_many_sessions};
use super::wire::client_message::{ClientMessage, Hello};
use super::wire::frame::{Body, parse_client_frame};
use super::wire::reply;
use futures_util::{SinkExt, StreamExt};
use ground::lock::lock;
use ground::os::{Awake, within};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};

/// Longest message that a client may send, in bytes. Existing clients rely on this value.
pub const MAX_INBOUND_BYTES: usize = 100 << 20;
/// How long a closing socket may take until the client has closed it too.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A client that sends this many bytes of a long message between two pings counts as alive: it can't answer pings meanwhile.
const PROGRESS_BYTES: u64 = 64 << 10;
/// How long a client may read nothing while output waits for it.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);

type Socket = WebSocketStream<MeteredStream>;

/// Why a socket ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closed it.
    Closed,
    /// It broke, or no sign of life came from the client for too long.
    Broken,
    /// Everything has been sent.
    Said,
    /// Another socket took over the session, or is about to.
    Moved,
    /// The client sent a message longer than the limit.
    TooLong,
    /// The client sent an invalid frame.
    WrongFrame,
    /// The client sent a text frame that is not UTF-8.
    NoText,
    /// The server-wide budget for unfinished inbound messages is used up.
    Crowded,
    /// There are too many sessions, including those whose clients are away.
    Full,
    ServerClosing,
}

pub async fn serve_connection(
    mut stream: TcpStream,
    stranger: Stranger,
    service: Arc<Service>,
    policy: Arc<AccessPolicy>,
    registry: SessionRegistry,
) {
    let live = service.live();
    // Send small frames without waiting for more data.
    let _ = stream.set_nodelay(true);
    let head = stranger.within_patience(read_head(&mut stream, &policy, &registry)).await;
    let (permit, response, rest) = match head {
        Some(Ok(accepted)) => accepted,
        Some(Err(Some(refusal))) => {
            let refuse = async {
                stream.write_all(refusal.as_bytes()).await?;
                stream.shutdown().await?;
                // Read what the client still sends: closing with unread input would reset the connection and could lose the
                // answer.
                let mut discarded = [0; 1024];
                for _ in 0..64 {
                    if stream.read(&mut discarded).await? == 0 {
                        break;
                    }
                }
                Ok::<(), std::io::Error>(())
            };
            within(CLOSE_TIMEOUT, refuse).await;
            return;
        }
        Some(Err(None)) | None => return,
    };
    drop(stranger);
    if stream.write_all(response.as_bytes()).await.is_err() {
        return;
    }
    let config = WebSocketConfig::default()
        // A buffer of this size is made for each socket.
        .read_buffer_size(4 << 10)
        .write_buffer_size(64 << 10)
        .max_message_size(Some(MAX_INBOUND_BYTES))
        .max_frame_size(Some(MAX_INBOUND_BYTES));
    let meter = Meter::new(service.intake.clone());
    let stream = MeteredStream::new(stream, meter.clone(), &rest);
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(config)).await;
    let mut end = converse(&mut socket, &service, &registry, &meter).await;
    if meter.was_refused() {
        end = End::Crowded;
    }
    drop(permit);
    say_goodbye(&mut socket, end).await;
    drop(live);
}

/// The answer to an upgrade and the bytes after its head, or a refusal. `None` when the client left.
async fn read_head(
    stream: &mut TcpStream,
    policy: &AccessPolicy,
    registry: &SessionRegistry,
) -> Result<(OwnedSemaphorePermit, String, Vec<u8>), Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let read = stream.read(&mut buffer).await.map_err(|_| None)?;
        if read == 0 {
            return Err(None);
        }
        head.extend_from_slice(&buffer[..read]);
        match answer(&head, policy) {
            // Only an authorized client takes a slot, so that unfinished heads of strangers keep no client out.
            UpgradeAnswer::Accept { response, head_bytes } => match registry.admit() {
                Some(permit) => return Ok((permit, response, head.split_off(head_bytes))),
                None => return Err(Some(too_many_sessions())),
            },
            UpgradeAnswer::Refuse(response) => return Err(Some(response)),
            UpgradeAnswer::ReadOn if head.len() > 2 * MAX_HEAD_BYTES => return Err(None),
            UpgradeAnswer::ReadOn => {}
        }
    }
}

async fn converse(socket: &mut Socket, service: &Service, registry: &SessionRegistry, meter: &Meter) -> End {
    let pulse = Pulse::new(service.ping_interval, meter);
    let first = match first_frame(socket, service, &pulse, meter).await {
        Ok(first) => first,
        Err(end) => return end,
    };
    let (session, number, hello) = match enter(registry, &first).await {
        Some(entered) => entered,
        None if *service.closing.borrow() == Closing::Open => return End::Full,
        None => return End::ServerClosing,
    };
    if let Some(hello) = hello
        && socket.send(Message::text(hello.into_bare_frame())).await.is_err()
    {
        return leave(&session, number, End::Broken).await;
    }
    let Some(number) = number else { return End::Said };
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        if let FirstFrame::Request(text) = first
            && !forward(&session, number, &text).await
        {
            return End::Said;
        }
        loop {
            if !session.outbox.may_listen().await {
                return End::Crowded;
            }
            let received = stream.next().await;
            pulse.heard();
            let message = match received {
                Some(Ok(message)) => message,
                other => return end_of(&other),
            };
            if matches!(message, Message::Text(_) | Message::Binary(_)) {
                meter.reset();
            }
            let heard = match &message {
                Message::Text(text) => forward(&session, number, text).await,
                Message::Binary(bytes) => forward(&session, number, &String::from_utf8_lossy(bytes)).await,
                Message::Close(_) => return End::Closed,
                _ => true,
            };
            if !heard {
                // The session is over: its last messages are still sent.
                std::future::pending::<()>().await;
            }
        }
    };
    let mut closing = service.closing.subscribe();
    let end = tokio::select! {
        end = reading => end,
        end = write(&mut sink, &session.outbox, number, &pulse) => end,
        end = pulse.watch() => end,
        () = reaches(&mut closing, |state| state == Closing::Now) => End::ServerClosing,
    };
    let end =
        if end == End::Said && *service.closing.borrow() != Closing::Open { End::ServerClosing } else { end };
    leave(&session, Some(number), end).await
}

async fn leave(session: &SessionHandle, number: Option<u64>, end: End) -> End {
    if let Some(socket) = number {
        let deliberate = matches!(end, End::Closed | End::TooLong | End::WrongFrame | End::NoText);
        // Sending fails when the session is over. Then the event is not needed.
        let _ = session.events.send(SessionEvent::Closed { socket, deliberate }).await;
    }
    end
}

/// A client's first frame decides what kind of client it is.
enum FirstFrame {
    Hello(Hello),
    Request(Utf8Bytes),
}

async fn first_frame(
    socket: &mut Socket,
    service: &Service,
    pulse: &Pulse<'_>,
    meter: &Meter,
) -> Result<FirstFrame, End> {
    let mut closing = service.closing.subscribe();
    loop {
        let text = tokio::select! {
            received = socket.next() => {
                pulse.heard();
                if matches!(received, Some(Ok(Message::Text(_) | Message::Binary(_)))) {
                    meter.reset();
                }
                match received {
                    // The text is not copied, because it may be long.
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(Message::Binary(bytes))) => String::from_utf8_lossy(&bytes).into_owned().into(),
                    Some(Ok(Message::Close(_))) => return Err(End::Closed),
                    Some(Ok(_)) => continue,
                    other => return Err(end_of(&other)),
                }
            }
            () = pulse.due.notified() => {
                socket.send(Message::Ping(Vec::new().into())).await.map_err(|_| End::Broken)?;
                continue;
            }
            end = pulse.watch() => return Err(end),
            () = reaches(&mut closing, |state| state != Closing::Open) => return Err(End::ServerClosing),
        };
        return Ok(match parse_client_frame(&text) {
            Ok(Some(frame)) => match frame.message {
                ClientMessage::Hello(hello) => FirstFrame::Hello(hello),
                ClientMessage::Unknown => continue,
                _ => FirstFrame::Request(text),
            },
            Ok(None) => continue,
            Err(_) => FirstFrame::Request(text),
        });
    }
}

/// The session that the first frame asks for, the socket's number in it, and the first message to send.
async fn enter(
    registry: &SessionRegistry,
    first: &FirstFrame,
) -> Option<(SessionHandle, Option<u64>, Option<Body>)> {
    match first {
        FirstFrame::Request(_) => {
            let session = registry.passing_session();
            let (reply, number) = oneshot::channel();
            session.events.send(SessionEvent::Open { reply }).await.ok()?;
            let number = number.await.ok()?;
            Some((session, Some(number), None))
        }
        FirstFrame::Hello(hello) => {
            let id = match &hello.session_id {
                Some(id) => id.clone(),
                None => ground::random::key::<16>()?,
            };
            // A session that is ending at this moment is still registered. Then another one is begun.
            for _ in 0..3 {
                let session = registry.session(&id)?;
                let (reply, attached) = oneshot::channel();
                let event = SessionEvent::Attach { hello: hello.clone(), reply };
                if session.events.send(event).await.is_ok()
                    && let Ok(attached) = attached.await
                {
                    return Some((session, attached.socket, Some(attached.hello)));
                }
                tokio::task::yield_now().await;
            }
            None
        }
    }
}

/// Passes a frame to the session. False when the session is over.
async fn forward(session: &SessionHandle, socket: u64, text: &str) -> bool {
    let frame = match parse_client_frame(text) {
        Ok(None) => return true,
        Ok(Some(frame)) => Ok(frame),
        Err(malformed) => Err(malformed),
    };
    session.events.send(SessionEvent::Frame { socket, frame }).await.is_ok()
}

async fn write(
    sink: &mut (impl futures_util::Sink<Message, Error = WsError> + Unpin),
    outbox: &Outbox,
    number: u64,
    pulse: &Pulse<'_>,
) -> End {
    loop {
        let outgoing = tokio::select! {
            outgoing = outbox.next(number) => outgoing,
            () = pulse.due.notified() => {
                if sink.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return End::Broken;
                }
                continue;
            }
        };
        let mut next = Some(outgoing);
        // Write all frames that are ready, then flush once.
        while let Some(outgoing) = next {
            pulse.blocked(true);
            let fed = match outgoing {
                Outgoing::Frame(frame) => sink.feed(Message::Text(frame)).await,
                Outgoing::Acknowledge(received) => {
                    sink.feed(Message::text(reply::acknowledge(received).into_bare_frame())).await
                }
                Outgoing::Ended => {
                    let _ = sink.flush().await;
                    return End::Said;
                }
                Outgoing::Moved => return End::Moved,
            };
            if fed.is_err() {
                return End::Broken;
            }
            next = outbox.try_next(number);
        }
        if sink.flush().await.is_err() {
            return End::Broken;
        }
        pulse.blocked(false);
    }
}

async fn reaches(closing: &mut watch::Receiver<Closing>, state: impl Fn(Closing) -> bool) {
    // The shared service holds the sender, so the channel can't be closed.
    let _ = closing.wait_for(|now| state(*now)).await;
}

fn end_of(received: &Option<Result<Message, WsError>>) -> End {
    match received {
        Some(Err(WsError::Capacity(_))) => End::TooLong,
        // The socket ended without a close handshake.
        Some(Err(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => End::Broken,
        Some(Err(WsError::Protocol(_))) => End::WrongFrame,
        Some(Err(WsError::Utf8(_))) => End::NoText,
        _ => End::Broken,
    }
}

async fn say_goodbye(socket: &mut Socket, end: End) {
    let frame = match end {
        End::Broken => return,
        End::Closed => None,
        End::Said => Some((CloseCode::Normal, "")),
        End::Moved => Some((CloseCode::Restart, "continue with another socket")),
        End::WrongFrame => Some((CloseCode::Protocol, "invalid WebSocket frame")),
        End::NoText => Some((CloseCode::Invalid, "a text message is not valid UTF-8")),
        End::TooLong => Some((CloseCode::Size, "a message is longer than 100 MiB")),
        End::Crowded => Some((CloseCode::Again, "too many large messages at once")),
        End::Full => Some((CloseCode::Again, "there are too many sessions")),
        End::ServerClosing => Some((CloseCode::Away, "the server is closing")),
    };
    let goodbye = async {
        if let Some((code, reason)) = frame {
            socket.close(Some(CloseFrame { code, reason: reason.into() })).await?;
        }
        // Read until the client has closed too: closing with unread input would reset the connection and could lose the last
        // frames.
        while let Some(Ok(_)) = socket.next().await {}
        Ok::<(), WsError>(())
    };
    within(CLOSE_TIMEOUT, goodbye).await;
}

/// Watches whether the client is still alive.
struct Pulse<'a> {
    interval: Duration,
    meter: &'a Meter,
    state: Mutex<PulseState>,
    /// The client could not be heard while this process was stopped.
    awake: Awake,
    /// Wakes the writer to send a ping.
    due: Notify,
}

struct PulseState {
    heard: Instant,
    blocked: Option<Instant>,
}

impl<'a> Pulse<'a> {
    fn new(interval: Duration, meter: &'a Meter) -> Pulse<'a> {
        let awake = Awake::new();
        let state = PulseState { heard: awake.now(), blocked: None };
        Pulse { interval, meter, state: Mutex::new(state), awake, due: Notify::new() }
    }

    fn heard(&self) {
        lock(&self.state).heard = self.awake.now();
    }

    /// Records whether the writer waits for the client to read.
    fn blocked(&self, blocked: bool) {
        lock(&self.state).blocked = blocked.then(|| self.awake.now());
    }

    /// Ends when no sign of life came for three pings, or when the client has not read for too long.
    async fn watch(&self) -> End {
        loop {
            tokio::time::sleep(self.interval).await;
            if self.meter.progress() >= PROGRESS_BYTES {
                self.heard();
            }
            let now = self.awake.now();
            let state = lock(&self.state);
            let is_dead = match state.blocked {
                // A client that does not read can't answer a ping that is queued behind other data.
                Some(since) => now - since >= STALL_TIMEOUT,
                None => now - state.heard >= self.interval * 3,
            };
            if is_dead {
                return End::Broken;
            }
            self.due.notify_one();
        }
    }
}
