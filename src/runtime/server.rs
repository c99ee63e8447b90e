//! The listening socket, what all sessions share, and the end of it all.

use super::connection::serve_connection;
use super::handler::AgentHandler;
use super::intake::{INTAKE_BYTES, Intake};
use super::reply::Reply;
use super::session::{Session, SessionHandle};
use super::upgrade::DoorPolicy;
use crate::error::{Error, Result};
use crate::http::{HttpClient, HttpOptions};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What we can do beyond the protocol that every client knows.
const CAPABILITIES: [&str; 5] =
    ["request_id", "seq", "resume", "artifact_upload_result", "artifact_upload_decline"];

/// How a runtime is served. [`ServerOptions::new`] has the defaults that API users get.
#[derive(Clone)]
pub struct ServerOptions {
    pub handler: Arc<dyn AgentHandler>,
    /// Loopback unless there is a token.
    pub host: String,
    /// 0: any.
    pub port: u16,
    pub token: Option<String>,
    pub allowed_origins: Vec<String>,
    /// `None`: no heartbeats.
    pub heartbeat_interval: Option<Duration>,
    pub drain_timeout: Duration,
    pub max_sessions: usize,
    /// Between two pings; a client that was not heard of for three of them is gone.
    pub ping_interval: Duration,
    /// How long a client whose socket broke may stay away.
    pub grace: Duration,
    /// Of unfinished large messages, over all sockets.
    pub intake_bytes: u64,
}

impl ServerOptions {
    pub const HOST: &str = "127.0.0.1";
    pub const PORT: u16 = 8080;
    pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
    pub const MAX_SESSIONS: usize = 1000;
    pub const PING_INTERVAL: Duration = Duration::from_secs(20);
    pub const GRACE: Duration = Duration::from_secs(30);

    pub fn new(handler: Arc<dyn AgentHandler>) -> ServerOptions {
        ServerOptions {
            handler,
            host: Self::HOST.to_owned(),
            port: Self::PORT,
            token: None,
            allowed_origins: Vec::new(),
            heartbeat_interval: Some(Self::HEARTBEAT_INTERVAL),
            drain_timeout: super::end_session::DRAIN_TIMEOUT,
            max_sessions: Self::MAX_SESSIONS,
            ping_interval: Self::PING_INTERVAL,
            grace: Self::GRACE,
            intake_bytes: INTAKE_BYTES,
        }
    }
}

/// How long requests and uploads may take to end when the server closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(8);
/// And the sockets after them.
const SOCKETS_WITHIN: Duration = Duration::from_millis(500);

/// How far the end of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Open,
    /// Requests are cancelled, open uploads finished.
    Winding,
    /// Whatever is left, ends.
    Now,
}

/// What connections and sessions share.
pub struct Shared {
    pub handler: Arc<dyn AgentHandler>,
    pub http: HttpClient,
    pub policy: DoorPolicy,
    pub heartbeat_interval: Option<Duration>,
    pub drain_timeout: Duration,
    pub ping_interval: Duration,
    pub grace: Duration,
    pub closing: watch::Sender<Closing>,
    pub connections: Arc<Semaphore>,
    pub intake: Arc<Intake>,
    sessions: Mutex<HashMap<String, SessionHandle>>,
    max_sessions: usize,
    live: watch::Sender<usize>,
}

/// Counts as alive until it is dropped.
pub struct Live(watch::Sender<usize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, SessionHandle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of this id; begun when there is none. `None` when there are too many.
    pub fn session(self: &Arc<Self>, id: &str) -> Option<SessionHandle> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id) {
            return Some(session.clone());
        }
        if sessions.len() >= self.max_sessions {
            return None;
        }
        let session = Session::start(self.clone(), Some(id.to_owned()));
        sessions.insert(id.to_owned(), session.clone());
        Some(session)
    }

    pub fn forget(&self, id: &str) {
        self.sessions().remove(id);
    }

    pub fn hello(&self, session_id: &str, resumed: bool, received: u64) -> Reply {
        let grace_ms = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        Reply::hello(&CAPABILITIES, session_id, resumed, received, grace_ms)
    }

    pub fn live(&self) -> Live {
        self.live.send_modify(|count| *count += 1);
        Live(self.live.clone())
    }

    /// Room for one more socket.
    pub fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }
}

/// A runtime being served. Clones are the same server; dropping the last one closes it.
#[derive(Clone)]
pub struct RuntimeServer {
    inner: Arc<Inner>,
}

/// A handle that does not keep the server alive.
#[derive(Clone)]
pub struct WeakRuntimeServer {
    inner: Weak<Inner>,
    threads: Handle,
}

impl WeakRuntimeServer {
    /// Has it close, from whatever thread. Nothing, when it is over.
    pub fn close(&self) {
        if let Some(inner) = self.inner.upgrade() {
            let server = RuntimeServer { inner };
            self.threads.spawn(async move { server.close().await });
        }
    }

    pub fn is_over(&self) -> bool {
        self.inner.upgrade().is_none_or(|inner| *inner.closed.borrow())
    }
}

struct Inner {
    threads: Handle,
    shared: Arc<Shared>,
    port: u16,
    url: String,
    closed: watch::Sender<bool>,
}

/// Serves until closed. Resolves once connections are accepted.
///
/// # Errors
/// `INVALID_OPTION` for an address that can't be listened on, and for one that others can reach when there is no token.
pub async fn serve(options: ServerOptions) -> Result<RuntimeServer> {
    if options.token.as_deref() == Some("") {
        return Err(Error::invalid_option("token", "expected a string that is not empty"));
    }
    if options.token.is_none() && !is_loopback(&options.host) {
        return Err(Error::invalid_option(
            "host",
            format!("{} can be reached by others, so a token is needed: give `token`", options.host),
        ));
    }
    let host = options.host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let cannot = |error: std::io::Error| {
        Error::invalid_option("port", format!("can't listen on {}:{}: {error}", options.host, options.port))
            .with("errno", error.raw_os_error().unwrap_or_default())
    };
    let listener = TcpListener::bind((host.as_str(), options.port)).await.map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let shown = if host.contains(':') { format!("[{host}]") } else { host };
    let shared = Arc::new(Shared {
        handler: options.handler,
        http: HttpClient::new(HttpOptions::default()),
        policy: DoorPolicy { token: options.token, allowed_origins: options.allowed_origins },
        heartbeat_interval: options.heartbeat_interval,
        drain_timeout: options.drain_timeout,
        ping_interval: options.ping_interval,
        grace: options.grace,
        closing: watch::Sender::new(Closing::Open),
        connections: Arc::new(Semaphore::new(options.max_sessions)),
        intake: Intake::new(options.intake_bytes),
        sessions: Mutex::default(),
        max_sessions: options.max_sessions,
        live: watch::Sender::new(0),
    });
    tokio::spawn(accept(listener, shared.clone()));
    let url = format!("ws://{shown}:{port}");
    let (threads, closed) = (Handle::current(), watch::Sender::new(false));
    Ok(RuntimeServer { inner: Arc::new(Inner { threads, shared, port, url, closed }) })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut closing = shared.closing.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|state| *state != Closing::Open) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(stream, shared.clone()));
            }
            // Out of descriptors, or the client left before we came: neither is a reason to stop, nor to spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

impl RuntimeServer {
    /// The real port, also when any was asked for.
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    pub fn url(&self) -> &str {
        &self.inner.url
    }

    pub fn downgrade(&self) -> WeakRuntimeServer {
        WeakRuntimeServer { inner: Arc::downgrade(&self.inner), threads: self.inner.threads.clone() }
    }

    /// Takes no more connections, cancels requests, finishes open uploads, closes sockets; within 10 s. Any number of times.
    pub async fn close(&self) {
        let shared = &self.inner.shared;
        let first = shared.closing.send_if_modified(|state| {
            let first = *state == Closing::Open;
            if first {
                *state = Closing::Winding;
            }
            first
        });
        if !first {
            // The sender is part of what we hold: it can't be gone.
            let _ = self.inner.closed.subscribe().wait_for(|closed| *closed).await;
            return;
        }
        let mut live = shared.live.subscribe();
        if tokio::time::timeout(CLOSE_WITHIN, live.wait_for(|count| *count == 0)).await.is_err() {
            shared.closing.send_replace(Closing::Now);
            // Only a socket that can't even be closed is left behind, to the system.
            let _ = tokio::time::timeout(SOCKETS_WITHIN, live.wait_for(|count| *count == 0)).await;
        }
        self.inner.closed.send_replace(true);
    }

    /// Resolves when the server was closed.
    pub async fn closed(&self) {
        // The sender is part of what we hold: it can't be gone.
        let _ = self.inner.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.closing.send_if_modified(|state| {
            let open = *state == Closing::Open;
            if open {
                *state = Closing::Winding;
            }
            open
        });
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
