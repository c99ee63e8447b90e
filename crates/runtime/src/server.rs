//! The listening socket, and the shutdown of the server.

use super::connection::serve_connection;
use super::handler::AgentHandler;
use super::intake::{INTAKE_BYTES, Intake};
use super::registry::SessionRegistry;
use super::service::{Closing, Service};
use super::stranger::Strangers;
use super::upgrade::AccessPolicy;
use super::upload::upload_client;
use ground::error::{Error, ErrorCode, Result};
use ground::os::within;
use process::EnvironmentBase;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use wires::http::{HttpClient, HttpOptions, Proxies};

/// The options of a server. [`ServerOptions::new`] has the defaults that API users get.
#[derive(Clone)]
pub struct ServerOptions {
    pub handler: Arc<dyn AgentHandler>,
    /// Address to listen on. Loopback unless there is a token.
    pub host: String,
    /// Port to listen on. 0: any free port.
    pub port: u16,
    pub token: Option<String>,
    pub allowed_origins: Vec<String>,
    /// The environment of commands, before the client's own variables.
    pub environment: EnvironmentBase,
    /// Pause between two heartbeats. `None`: no heartbeats.
    pub heartbeat_interval: Option<Duration>,
    pub drain_timeout: Duration,
    pub max_sessions: usize,
    /// Pause between two pings. A client that gives no sign of life for three of them is treated as gone.
    pub ping_interval: Duration,
    /// How long a client whose socket broke may stay away.
    pub grace: Duration,
    /// Budget for unfinished large messages over all sockets, in bytes.
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
            environment: EnvironmentBase::Inherit,
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
/// How long the sockets may take to close after that.
const SOCKETS_WITHIN: Duration = Duration::from_millis(500);

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
    /// Starts closing the server. May be called from any thread. Has no effect when the server is closed.
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
    service: Arc<Service>,
    port: u16,
    url: String,
    closed: watch::Sender<bool>,
}

/// Starts the server. Resolves once connections are accepted; the server runs until it is closed.
///
/// # Errors
/// - `RUNTIME_PORT_IN_USE`.
/// - `INVALID_OPTION` for an address that can't be listened on for another reason, for an address that other machines can reach
///   when there is no token, and for an agent in a sandbox when there is no token.
pub async fn serve(options: ServerOptions) -> Result<RuntimeServer> {
    if let Some(token) = &options.token
        && (token.is_empty() || token.trim() != token || token.contains(char::is_control))
    {
        let problem =
            "expected a string that is not empty, without spaces around it and without control characters";
        return Err(Error::invalid_option("token", problem));
    }
    if options.token.is_none() && !is_loopback(&options.host) {
        return Err(Error::invalid_option(
            "host",
            format!("other machines can reach {}, so a token is required", options.host),
        ));
    }
    if options.token.is_none() && options.handler.is_sandboxed() {
        let problem = "is required when the agent is in a sandbox: without one the agent could connect and run commands outside its sandbox";
        return Err(Error::invalid_option("token", problem));
    }
    let host = options.host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let cannot = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            let problem = format!(
                "port: another program listens on {}:{}: choose another port, or 0 for any",
                options.host, options.port
            );
            return Error::new(ErrorCode::RuntimePortInUse, problem).with("port", options.port);
        }
        Error::invalid_option("port", format!("cannot listen on {}:{}: {error}", options.host, options.port))
            .with("errno", error.raw_os_error().unwrap_or_default())
    };
    let listener = TcpListener::bind((host.as_str(), options.port)).await.map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let shown = if host.contains(':') { format!("[{host}]") } else { host };
    let proxies = Proxies::read(|name| options.environment.variable(name));
    let service = Arc::new(Service {
        handler: options.handler,
        environment: options.environment,
        http: HttpClient::new(HttpOptions { proxies: proxies.clone(), ..HttpOptions::default() }),
        upload_http: upload_client(proxies),
        heartbeat_interval: options.heartbeat_interval,
        drain_timeout: options.drain_timeout,
        ping_interval: options.ping_interval,
        grace: options.grace,
        closing: watch::Sender::new(Closing::Open),
        intake: Intake::new(options.intake_bytes),
        live: watch::Sender::new(0),
    });
    let policy = AccessPolicy { token: options.token, allowed_origins: options.allowed_origins };
    let registry = SessionRegistry::new(service.clone(), options.max_sessions);
    ground::task::spawn(accept(listener, service.clone(), Arc::new(policy), registry));
    let url = format!("ws://{shown}:{port}");
    let (threads, closed) = (Handle::current(), watch::Sender::new(false));
    Ok(RuntimeServer { inner: Arc::new(Inner { threads, service, port, url, closed }) })
}

async fn accept(
    listener: TcpListener,
    service: Arc<Service>,
    policy: Arc<AccessPolicy>,
    registry: SessionRegistry,
) {
    let mut closing = service.closing.subscribe();
    let strangers = Strangers::default();
    loop {
        let next = async { (strangers.admit().await, listener.accept().await) };
        let (stranger, accepted) = tokio::select! {
            next = next => next,
            _ = closing.wait_for(|state| *state != Closing::Open) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                ground::task::spawn(serve_connection(
                    stream,
                    stranger,
                    service.clone(),
                    policy.clone(),
                    registry.clone(),
                ));
            }
            // No file descriptors are left, or the client left before the accept. The server goes on after a pause, without a
            // busy loop.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

impl RuntimeServer {
    /// The port that the server listens on, also when 0 was requested.
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    pub fn url(&self) -> &str {
        &self.inner.url
    }

    pub fn downgrade(&self) -> WeakRuntimeServer {
        WeakRuntimeServer { inner: Arc::downgrade(&self.inner), threads: self.inner.threads.clone() }
    }

    /// Stops accepting, cancels requests, finishes open uploads and closes the sockets, within 10 s. May be called repeatedly.
    pub async fn close(&self) {
        let service = &self.inner.service;
        let first = service.closing.send_if_modified(|state| {
            let first = *state == Closing::Open;
            if first {
                *state = Closing::Winding;
            }
            first
        });
        if !first {
            // `self` holds the sender, so the channel can't be closed.
            let _ = self.inner.closed.subscribe().wait_for(|closed| *closed).await;
            return;
        }
        let mut live = service.live.subscribe();
        if within(CLOSE_WITHIN, live.wait_for(|count| *count == 0)).await.is_none() {
            service.closing.send_replace(Closing::Now);
            // A socket that does not close in time is left to the operating system.
            within(SOCKETS_WITHIN, live.wait_for(|count| *count == 0)).await;
        }
        self.inner.closed.send_replace(true);
    }

    /// Resolves when the server was closed.
    pub async fn closed(&self) {
        // `self` holds the sender, so the channel can't be closed.
        let _ = self.inner.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.service.closing.send_if_modified(|state| {
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
