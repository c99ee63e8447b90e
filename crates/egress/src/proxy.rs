//! The proxy of one program.

use crate::answer::{Body, empty, no_credential, refused, unreachable, wrong};
use crate::ended::Ended;
use crate::forward::forward;
use crate::host::{Host, Hosts, split_port};
use crate::reach::{NoWay, Resolve, connect, system, way};
use crate::tunnel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::random;
use hyper::body::Incoming;
use hyper::header::{HOST, PROXY_AUTHORIZATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// Connections of one program at once. More wait.
const MOST_CONNECTIONS: usize = 512;
/// For the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// After a failure to accept: the system is out of descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const USER: &str = "sheepdog";
/// Servers of the program's own, which it reaches without the proxy.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// Takes reports: the host and the port that were refused.
pub type OnRefused = Arc<dyn Fn(String) + Send + Sync>;

/// Serves one program until it is dropped.
pub struct Proxy {
    port: u16,
    credential: String,
    _alive: watch::Sender<()>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("port", &self.port).finish_non_exhaustive()
    }
}

struct Shared {
    hosts: Hosts,
    resolve: Resolve,
    on_refused: OnRefused,
    /// The value of `Proxy-Authorization`.
    authorization: String,
    ended: Ended,
}

impl Proxy {
    /// `listener` is on loopback. Needs tokio.
    ///
    /// # Errors
    /// The system's.
    pub fn start(listener: TcpListener, hosts: Hosts, on_refused: OnRefused) -> io::Result<Proxy> {
        Proxy::start_with(listener, hosts, on_refused, Arc::new(system))
    }

    /// With another way to resolve names.
    ///
    /// # Errors
    /// The system's.
    pub fn start_with(
        listener: TcpListener,
        hosts: Hosts,
        on_refused: OnRefused,
        resolve: Resolve,
    ) -> io::Result<Proxy> {
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let credential =
            random::key::<24>().ok_or_else(|| io::Error::other("the system gives no random numbers"))?;
        let authorization = STANDARD.encode(format!("{USER}:{credential}"));
        let (alive, ended) = watch::channel(());
        let ended = Ended::of(ended);
        let shared = Arc::new(Shared { hosts, resolve, on_refused, authorization, ended: ended.clone() });
        tokio::spawn(async move {
            let mut over = ended;
            tokio::select! {
                () = over.wait() => {}
                () = accept(&listener, &shared) => {}
            }
        });
        Ok(Proxy { port, credential, _alive: alive })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Variables by which programs find it. They replace what the host has.
    pub fn environment(&self) -> Vec<(String, String)> {
        let Proxy { port, credential, .. } = self;
        let url = format!("http://{USER}:{credential}@127.0.0.1:{port}");
        let mut variables = Vec::new();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            variables.push((name.to_owned(), url.clone()));
            variables.push((name.to_ascii_lowercase(), url.clone()));
        }
        for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
            variables.push((name.to_owned(), DIRECT.to_owned()));
        }
        for name in ["npm_config_proxy", "npm_config_https_proxy"] {
            variables.push((name.to_owned(), url.clone()));
        }
        variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
        variables
    }
}

async fn accept(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut ended = shared.ended.clone();
            tokio::select! {
                () = serve(stream, shared) => {}
                () = ended.wait() => {}
            }
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(shared, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).half_close(true);
    // A client that breaks off is no fault.
    let _ = server.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    if !has_credential(&request, &shared.authorization) {
        return no_credential();
    }
    if request.method() == Method::CONNECT {
        return shared.on_connect(request).await;
    }
    shared.on_request(request).await
}

impl Shared {
    async fn on_connect(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let target = request.uri().authority().and_then(|authority| split_port(authority.as_str()));
        let Some((host, port)) = target else {
            return wrong("CONNECT needs a host and a port");
        };
        let (way, server) = match self.reach(&host, port).await {
            Ok(reached) => reached,
            Err(response) => return response,
        };
        tokio::spawn(async move {
            let mut ended = self.ended.clone();
            let tunnel = async {
                let Ok(client) = hyper::upgrade::on(request).await else { return };
                let refused = tunnel::run(TokioIo::new(client), server, &host, port, way).await;
                if let Err(Some(problem)) = refused {
                    (self.on_refused)(problem);
                }
            };
            tokio::select! {
                () = tunnel => {}
                () = ended.wait() => {}
            }
        });
        Response::new(empty())
    }

    async fn on_request(&self, request: Request<Incoming>) -> Response<Body> {
        let (Some(scheme), Some(authority)) = (request.uri().scheme_str(), request.uri().authority()) else {
            return wrong("this is a proxy: a request to it names its host");
        };
        if scheme != "http" {
            return wrong("a request to an https address goes by CONNECT");
        }
        let authority = authority.as_str().to_owned();
        let with_port = |text: &str| split_port(text).or_else(|| Some((Host::parse(text)?, 80)));
        let Some((host, port)) = with_port(&authority) else {
            return wrong("the request's host is no name and no address");
        };
        // The host behind a shared address goes by this header.
        let mut named = request.headers().get_all(HOST).iter();
        if !named.all(|named| named.to_str().ok().and_then(with_port) == Some((host.clone(), port))) {
            (self.on_refused)(format!("{host}:{port}: its Host header is another one"));
            return refused("the request's Host header is not its host");
        }
        match self.reach(&host, port).await {
            Ok((_, server)) => forward(request, server, &authority, self.ended.clone()).await,
            Err(response) => response,
        }
    }

    async fn reach(&self, host: &Host, port: u16) -> Result<(crate::host::Way, TcpStream), Response<Body>> {
        let reached = async {
            let way = way(&self.hosts, host, port)?;
            Ok((way, connect(&self.hosts, &self.resolve, host, port).await?))
        };
        reached.await.map_err(|problem| match problem {
            NoWay::Refused { what, line } => {
                (self.on_refused)(what);
                refused(&line)
            }
            NoWay::Failed(line) => unreachable(&line),
        })
    }
}

fn has_credential(request: &Request<Incoming>, expected: &str) -> bool {
    let given = request.headers().get(PROXY_AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
    let (scheme, given) = given.split_at_checked(6).unwrap_or_default();
    // The time that it takes says nothing about where they differ.
    let differ = given.iter().zip(expected.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    scheme.eq_ignore_ascii_case(b"basic ") && given.len() == expected.len() && differ == 0
}
