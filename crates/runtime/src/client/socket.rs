//! The client's socket: opening it, reopening it after it broke, and moving frames between it and the queues.

use super::reconnect::PAUSES;
use crate::outbox::{Outbox, Outgoing};
use crate::upgrade::{NO_TOKEN, WRONG_TOKEN};
use crate::wire::capability::Capabilities;
use crate::wire::client_message::{ClientMessage, Hello};
use crate::wire::frame::{Body, RuntimeFrame, parse_runtime_frame};
use crate::wire::reply;
use crate::wire::runtime_message::{RuntimeHello, RuntimeMessage};
use futures_util::{SinkExt, StreamExt};
use ground::error::{Error, ErrorCode, Result};
use ground::mpsc;
use ground::os::{connect_to, within};
use ground::random;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::{IntoClientRequest, uri_mode};
use tokio_tungstenite::tungstenite::error::UrlError;
use tokio_tungstenite::tungstenite::handshake::client::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::stream::Mode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, client_async_tls_with_config};

/// Longest message that is accepted. Other runtimes may send results this large.
const MAX_INBOUND_BYTES: usize = 128 << 20;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a runtime that knows hello may take to answer it on a later socket.
const HELLO_AGAIN_WITHIN: Duration = Duration::from_secs(5);
/// Frames that a runtime may send before it answers hello.
const MAX_EARLY_FRAMES: usize = 256;
const MAX_EARLY_BYTES: usize = 4 << 20;
/// How long refused connections are retried: the program that had the session is gone, or is about to come back.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Field of an error that marks a refused connection.
const REFUSED: &str = "refused";
/// Response header by which a runtime says that it knows this client's hello. A proxy may have removed it.
const KNOWN_HEADER: &str = "x-sheepdog-runtime";

pub(super) type ClientStream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// An event that a socket reports to its owner.
pub(super) enum SocketEvent {
    Frame { socket: u64, frame: RuntimeFrame },
    Closed { socket: u64, end: SocketEnd },
}

/// How a socket ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SocketEnd {
    /// One of the two ends closed it on purpose: there is nothing to resume.
    pub deliberate: bool,
    /// Code and reason of the runtime's close frame, if it sent one.
    pub close: Option<(u16, String)>,
    /// Description of the failure, when the socket broke without a close frame.
    pub fault: Option<String>,
}

impl SocketEnd {
    fn closed(frame: Option<CloseFrame>) -> SocketEnd {
        let close = frame.map(|frame| {
            let reason = frame.reason.chars().filter(|character| !character.is_control()).collect();
            (u16::from(frame.code), reason)
        });
        let deliberate = close.as_ref().is_none_or(|(code, _)| *code != u16::from(CloseCode::Restart));
        SocketEnd { deliberate, close, fault: None }
    }

    fn broken(fault: impl ToString) -> SocketEnd {
        SocketEnd { fault: Some(fault.to_string()), ..SocketEnd::default() }
    }

    /// An error with this code that describes the end, with `closeCode` and `closeReason` where the runtime gave them.
    pub(super) fn into_error(self, code: ErrorCode, what: &str) -> Error {
        match (self.close, self.fault) {
            (Some((number, reason)), _) => {
                let said = if reason.is_empty() { number.to_string() } else { format!("{number}: {reason}") };
                Error::new(code, format!("{what} ({said})"))
                    .with("closeCode", number)
                    .with("closeReason", reason)
            }
            (None, Some(fault)) => Error::new(code, format!("{what} ({fault})")),
            (None, None) => Error::new(code, what),
        }
    }
}

/// The runtime's address and the token for it.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub url: String,
    pub token: Option<String>,
}

impl Address {
    /// The URL for messages, without user, password and query, which can hold secrets.
    fn shown(&self) -> String {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        match url.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let host = authority.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}{path}")
            }
            None => url.to_owned(),
        }
    }

    /// RUNTIME_UNREACHABLE for this address.
    pub(super) fn unreachable(&self, problem: &str) -> Error {
        let url = self.shown();
        Error::new(ErrorCode::RuntimeUnreachable, format!("{url}: {problem}")).with("url", url)
    }

    /// The same for a socket that ended before the runtime answered.
    pub(super) fn unreachable_after(&self, end: SocketEnd) -> Error {
        let url = self.shown();
        let problem = format!("{url}: the connection ended before the runtime sent anything");
        end.into_error(ErrorCode::RuntimeUnreachable, &problem).with("url", url)
    }
}

/// Opens a socket. The flag is true when the runtime announced that it knows hello.
///
/// # Errors
/// `INVALID_OPTION` for an invalid URL, `RUNTIME_UNAUTHORIZED`, `RUNTIME_UNREACHABLE` when nothing answers there.
pub(super) async fn open(address: &Address) -> Result<(ClientStream, bool)> {
    let mut request =
        address.url.as_str().into_client_request().map_err(|error| {
            Error::invalid_option("url", format!("expected a ws:// or wss:// URL: {error}"))
        })?;
    // An invalid port would be ignored in favour of the scheme's default port, so it is refused here.
    if let Some(authority) = request.uri().authority()
        && authority.port_u16().is_none()
        && authority.as_str().rsplit('@').next().is_some_and(|host| host.len() > authority.host().len())
    {
        return Err(Error::invalid_option("url", "expected a port between 1 and 65535"));
    }
    if let Some(token) = &address.token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            Error::invalid_option("token", "contains a character that an HTTP header cannot hold")
        })?;
        request.headers_mut().insert("authorization", value);
    }
    let connector = if address.url.starts_with("wss:") {
        let config = wires::http::tls_config().map_err(|error| address.unreachable(&error.to_string()))?;
        Connector::Rustls(Arc::new(config))
    } else {
        Connector::Plain
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(256 << 10)
        .max_message_size(Some(MAX_INBOUND_BYTES))
        .max_frame_size(Some(MAX_INBOUND_BYTES));
    match reach(request, config, connector).await {
        Ok((stream, response)) => Ok((stream, response.headers().contains_key(KNOWN_HEADER))),
        Err(WsError::Http(response)) => {
            // The answer knows each way of giving a token.
            let answer = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            Err(refusal(address, response.status().as_u16(), &answer))
        }
        Err(WsError::Url(error)) => {
            Err(Error::invalid_option("url", format!("expected a ws:// or wss:// URL: {error}")))
        }
        Err(error) => {
            let hint = match &error {
                WsError::Io(fault)
                    if address.url.starts_with("wss:") && fault.kind() == ErrorKind::InvalidData =>
                {
                    " (does the server use wss://, with a certificate that this machine trusts?)"
                }
                _ => "",
            };
            let problem = format!("no connection to the runtime: {error}{hint}");
            let is_refused =
                matches!(&error, WsError::Io(fault) if fault.kind() == ErrorKind::ConnectionRefused);
            let error = address.unreachable(&problem);
            Err(if is_refused { error.with(REFUSED, true) } else { error })
        }
    }
}

/// The error for an answer that is no upgrade.
fn refusal(address: &Address, status: u16, answer: &str) -> Error {
    let is_given = match (answer.contains(WRONG_TOKEN), answer.contains(NO_TOKEN)) {
        (false, false) => address.token.is_some(),
        (is_wrong, _) => is_wrong,
    };
    let unauthorized = |problem: &str| Error::new(ErrorCode::RuntimeUnauthorized, problem);
    let error = match status {
        401 if is_given => {
            unauthorized("the runtime refused this token: pass the token that it was started with")
        }
        401 => unauthorized(
            "the runtime requires a token: pass `token` (the command: --token or SHEEPDOG_RUNTIME_TOKEN)",
        ),
        403 => unauthorized("the runtime refuses the origin"),
        _ => address.unreachable(&format!("the runtime answered with status {status}")),
    };
    error.with("status", status)
}

/// Replaces tokio-tungstenite's own function, which panics when the system refuses a thread for the name look-up.
async fn reach(
    request: Request,
    config: WebSocketConfig,
    connector: Connector,
) -> std::result::Result<(ClientStream, Response), WsError> {
    let default_port = match uri_mode(request.uri())? {
        Mode::Plain => 80,
        Mode::Tls => 443,
    };
    let host = request.uri().host().ok_or(WsError::Url(UrlError::NoHostName))?;
    let socket = connect_to(host, request.uri().port_u16().unwrap_or(default_port)).await?;
    socket.set_nodelay(true)?;
    client_async_tls_with_config(request, socket, Some(config), Some(connector)).await
}

/// The result of sending a hello.
pub(super) struct Greeting {
    /// The runtime's answer. `None`: it did not arrive in time.
    pub answer: Option<RuntimeHello>,
    /// Frames that arrived before the answer.
    pub early: Vec<RuntimeFrame>,
}

/// Sends hello on a new socket and waits for the answer.
///
/// # Errors
/// When the socket ends meanwhile, or the runtime sends too many other frames first.
pub(super) async fn greet(
    stream: &mut ClientStream,
    session_id: &str,
    received: u64,
    limit: Duration,
) -> std::result::Result<Greeting, SocketEnd> {
    let hello = Body::of(&ClientMessage::Hello(Hello {
        version: 1,
        capabilities: Capabilities::OURS,
        session_id: Some(session_id.to_owned()),
        received,
    }));
    stream.send(Message::text(hello.into_bare_frame())).await.map_err(SocketEnd::broken)?;
    let mut early = Vec::new();
    let mut early_bytes = 0;
    let waiting = async {
        loop {
            let text = match stream.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(frame))) => return Err(SocketEnd::closed(frame)),
                Some(Err(error)) => return Err(SocketEnd::broken(error)),
                None => return Err(SocketEnd::default()),
                Some(Ok(_)) => continue,
            };
            match parse_runtime_frame(&text) {
                Some(RuntimeFrame { message: RuntimeMessage::Hello(hello), seq: None, .. }) => {
                    return Ok(hello);
                }
                Some(frame) => {
                    early_bytes += text.len();
                    early.push(frame);
                    if early.len() > MAX_EARLY_FRAMES || early_bytes > MAX_EARLY_BYTES {
                        return Err(SocketEnd::broken("the runtime sent too much before it answered hello"));
                    }
                }
                None => {}
            }
        }
    };
    let answer = within(limit, waiting).await.transpose()?;
    Ok(Greeting { answer, early })
}

/// Opens a socket for a session that the runtime knows, after a pause, and retries until the time is up. `None`: no socket could
/// be opened, or connections have been refused for [`REFUSED_FOR`].
pub(super) async fn open_again(
    address: &Address,
    session_id: &str,
    received: u64,
    pause: Duration,
    limit: Duration,
) -> Option<(ClientStream, Greeting)> {
    let attempts = async {
        tokio::time::sleep(pause).await;
        let mut failures = 0;
        let mut refused_since = None;
        loop {
            match open(address).await {
                Ok((mut stream, _)) => {
                    refused_since = None;
                    if let Ok(greeting) = greet(&mut stream, session_id, received, HELLO_AGAIN_WITHIN).await
                        && greeting.answer.is_some()
                    {
                        return Some((stream, greeting));
                    }
                }
                Err(error) if error.facts().contains_key(REFUSED) => {
                    if refused_since.get_or_insert_with(Instant::now).elapsed() >= REFUSED_FOR {
                        return None;
                    }
                }
                Err(_) => refused_since = None,
            }
            failures += 1;
            tokio::time::sleep(PAUSES.delay(failures, None, random::fraction())).await;
        }
    };
    within(limit, attempts).await.flatten()
}

fn acknowledgement(received: u64) -> Message {
    Message::text(reply::acknowledge(received).into_bare_frame())
}

/// Moves frames until the socket ends, reports the end, and closes it.
pub(super) async fn pump(
    stream: ClientStream,
    outbox: Arc<Outbox>,
    socket: u64,
    events: mpsc::Sender<SocketEvent>,
) {
    let (mut sink, mut source) = stream.split();
    let reading = async {
        loop {
            let Some(received) = within(SILENCE, source.next()).await else {
                return SocketEnd::broken("the runtime was silent for too long");
            };
            let frame = match received {
                Some(Ok(Message::Text(text))) => parse_runtime_frame(&text),
                Some(Ok(Message::Binary(bytes))) => parse_runtime_frame(&String::from_utf8_lossy(&bytes)),
                Some(Ok(Message::Close(frame))) => return SocketEnd::closed(frame),
                Some(Ok(_)) => None,
                Some(Err(error)) => return SocketEnd::broken(error),
                None => return SocketEnd::default(),
            };
            let Some(frame) = frame else { continue };
            if events.send(SocketEvent::Frame { socket, frame }).await.is_err() {
                return SocketEnd { deliberate: true, ..SocketEnd::default() };
            }
        }
    };
    let writing = async {
        let mut ping = tokio::time::interval(PING_INTERVAL);
        ping.reset();
        loop {
            let message = tokio::select! {
                outgoing = outbox.next(socket) => match outgoing {
                    Outgoing::Frame(frame) => Message::Text(frame),
                    Outgoing::Acknowledge(received) => acknowledgement(received),
                    Outgoing::Ended => return SocketEnd { deliberate: true, ..SocketEnd::default() },
                    Outgoing::Moved => return SocketEnd::default(),
                },
                _ = ping.tick() => Message::Ping(Vec::new().into()),
            };
            if sink.send(message).await.is_err() {
                // The reader can tell better whether the socket was closed or broke.
                return std::future::pending().await;
            }
        }
    };
    let end = tokio::select! { end = reading => end, end = writing => end };
    let deliberate = end.deliberate;
    // Sending fails when the owner is gone, and then the event is not needed.
    let _ = events.send(SocketEvent::Closed { socket, end }).await;
    // Otherwise a close frame would end the session; another socket is to go on with it.
    if deliberate {
        let goodbye = async {
            let _ = sink.close().await;
            while let Some(Ok(_)) = source.next().await {}
        };
        within(CLOSE_TIMEOUT, goodbye).await;
    }
}
