//! The client's socket: opening it, again when it broke, and moving frames between it and the queues.

use super::client_request::{RuntimeFrame, RuntimeMessage, hello, parse_runtime_frame};
use super::outbox::{Outbox, Outgoing};
use super::reply::Reply;
use crate::error::{Error, ErrorCode, Result};
use futures_util::{SinkExt, StreamExt};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

/// Results of other runtimes may be this large.
const MAX_INBOUND_BYTES: usize = 128 << 20;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a runtime that knows hello may take to answer it on a later socket.
const HELLO_AGAIN_PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to replace a broken socket.
/// Nobody listens any more: what had the session is gone, or comes back in a moment.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// The fact that says so.
const REFUSED: &str = "refused";
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A runtime that knows our hello says so when it accepts the socket; a proxy may have taken that away.
const KNOWN_HEADER: &str = "x-sheepdog-runtime";

pub type ClientStream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What a socket tells its owner.
pub enum SocketEvent {
    Frame {
        socket: u64,
        frame: RuntimeFrame,
    },
    /// It ended; on purpose when the runtime said so.
    Closed {
        socket: u64,
        deliberate: bool,
    },
}

/// Where the runtime is and how to get in.
#[derive(Clone, Debug)]
pub struct Address {
    pub url: String,
    pub token: Option<String>,
}

/// Opens a socket. True beside it when the runtime said that it knows hello.
///
/// # Errors
/// `INVALID_OPTION` for an URL that is none, `RUNTIME_UNAUTHORIZED`, `RUNTIME_CLOSED` when nobody answers.
pub async fn open(address: &Address) -> Result<(ClientStream, bool)> {
    let mut request =
        address.url.as_str().into_client_request().map_err(|error| {
            Error::invalid_option("url", format!("expected a ws:// or wss:// URL: {error}"))
        })?;
    // What is no port would be passed over in favour of the scheme's own.
    if let Some(authority) = request.uri().authority()
        && authority.port_u16().is_none()
        && authority.as_str().rsplit('@').next().is_some_and(|host| host.len() > authority.host().len())
    {
        return Err(Error::invalid_option("url", "expected a port between 1 and 65535"));
    }
    if let Some(token) = &address.token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::invalid_option("token", "has characters that no header can carry"))?;
        request.headers_mut().insert("authorization", value);
    }
    let connector = if address.url.starts_with("wss:") {
        let mut config = crate::http::tls_config()
            .map_err(|error| Error::new(ErrorCode::RuntimeClosed, error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Connector::Rustls(Arc::new(config))
    } else {
        Connector::Plain
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(256 << 10)
        .max_message_size(Some(MAX_INBOUND_BYTES))
        .max_frame_size(Some(MAX_INBOUND_BYTES));
    match connect_async_tls_with_config(request, Some(config), true, Some(connector)).await {
        Ok((stream, response)) => Ok((stream, response.headers().contains_key(KNOWN_HEADER))),
        Err(WsError::Http(response)) => {
            let status = response.status().as_u16();
            let code = match status {
                401 | 403 => ErrorCode::RuntimeUnauthorized,
                _ => ErrorCode::RuntimeClosed,
            };
            let problem = match status {
                401 => "the runtime wants a token, or another one".to_owned(),
                403 => "the runtime refuses the origin".to_owned(),
                _ => format!("the runtime answered with status {status}"),
            };
            Err(Error::new(code, problem).with("status", status))
        }
        Err(WsError::Url(error)) => {
            Err(Error::invalid_option("url", format!("expected a ws:// or wss:// URL: {error}")))
        }
        Err(error) => {
            let hint = match &error {
                WsError::Io(fault)
                    if address.url.starts_with("wss:") && fault.kind() == ErrorKind::InvalidData =>
                {
                    " (is it wss:// over there, with a certificate that this machine trusts?)"
                }
                _ => "",
            };
            let problem = format!("no connection to the runtime: {error}{hint}");
            let is_refused =
                matches!(&error, WsError::Io(fault) if fault.kind() == ErrorKind::ConnectionRefused);
            let error = Error::new(ErrorCode::RuntimeClosed, problem);
            Err(if is_refused { error.with(REFUSED, true) } else { error })
        }
    }
}

/// What came of a hello.
pub struct Greeting {
    /// Whether the session was known, and how far it has read. `None`: the runtime knows no hello.
    pub answer: Option<(bool, u64)>,
    /// What the wire brought before the answer.
    pub early: Vec<RuntimeFrame>,
}

/// Says hello on a new socket and waits for the answer.
///
/// # Errors
/// When the socket breaks meanwhile.
pub async fn greet(
    stream: &mut ClientStream,
    session_id: &str,
    received: u64,
    patience: Duration,
) -> std::result::Result<Greeting, ()> {
    stream.send(Message::text(hello(session_id, received).to_string())).await.map_err(|_| ())?;
    let mut early = Vec::new();
    let waiting = async {
        loop {
            let text = match stream.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(()),
                Some(Ok(_)) => continue,
            };
            match parse_runtime_frame(&text) {
                Some(RuntimeFrame {
                    message: RuntimeMessage::Hello { resumed, received },
                    seq: None,
                    ..
                }) => {
                    return Ok((resumed, received));
                }
                Some(frame) => early.push(frame),
                None => {}
            }
        }
    };
    let answer = match tokio::time::timeout(patience, waiting).await {
        Ok(answer) => Some(answer?),
        Err(_) => None,
    };
    Ok(Greeting { answer, early })
}

/// Opens a socket for a session that the runtime knows, again and again for so long. `None`: there was none, or nobody has
/// listened there for [`REFUSED_FOR`].
pub async fn open_again(
    address: &Address,
    session_id: &str,
    received: u64,
    patience: Duration,
) -> Option<(ClientStream, Greeting)> {
    let attempts = async {
        let mut pause = FIRST_PAUSE;
        let mut refused_since = None;
        loop {
            match open(address).await {
                Ok((mut stream, _)) => {
                    refused_since = None;
                    if let Ok(greeting) = greet(&mut stream, session_id, received, HELLO_AGAIN_PATIENCE).await
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
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    tokio::time::timeout(patience, attempts).await.ok().flatten()
}

/// Moves frames until the socket ends, says so, and closes it.
pub async fn pump(stream: ClientStream, outbox: Arc<Outbox>, socket: u64, events: mpsc::Sender<SocketEvent>) {
    let (mut sink, mut source) = stream.split();
    let reading = async {
        loop {
            let Ok(received) = tokio::time::timeout(SILENCE, source.next()).await else { return false };
            let frame = match received {
                Some(Ok(Message::Text(text))) => parse_runtime_frame(&text),
                Some(Ok(Message::Binary(bytes))) => parse_runtime_frame(&String::from_utf8_lossy(&bytes)),
                Some(Ok(Message::Close(frame))) => {
                    return !matches!(frame, Some(frame) if frame.code == CloseCode::Restart);
                }
                Some(Ok(_)) => None,
                Some(Err(_)) | None => return false,
            };
            if let Some(frame) = frame
                && events.send(SocketEvent::Frame { socket, frame }).await.is_err()
            {
                return true;
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
                    Outgoing::Acknowledge(received) => Message::text(Reply::acknowledge(received).into_bare_frame()),
                    Outgoing::Ended => return true,
                    Outgoing::Moved => return false,
                },
                _ = ping.tick() => Message::Ping(Vec::new().into()),
            };
            if sink.send(message).await.is_err() {
                // The reader knows better whether it was closed or broke.
                return std::future::pending().await;
            }
        }
    };
    let deliberate = tokio::select! {
        deliberate = reading => deliberate,
        deliberate = writing => deliberate,
    };
    // Fails when the owner is gone, and nobody has to know.
    let _ = events.send(SocketEvent::Closed { socket, deliberate }).await;
    if !deliberate {
        // A close frame would end the session; another socket is to go on with it.
        return;
    }
    let goodbye = async {
        let _ = sink.close().await;
        while let Some(Ok(_)) = source.next().await {}
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
}
