//! The proxy of one program.

use crate::access::Access;
use crate::answer::{Body, empty, no_credential, refused, wrong};
use crate::authority::Authority;
use crate::caller::{Caller, CallerStream, Ends, Exchange};
use crate::host::{Way, split_port, with_port};
use crate::inspect::{self, Inspected};
use crate::meter::{Meter, OnMetered};
use crate::reach::{Outside, Resolver};
use crate::shared::Shared;
pub use crate::shared::{IsOwn, OnAsk, OnRefused};
use crate::tunnel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::os::without_proxy;
use ground::random;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Connections of one program at once, tunnels among them. Each takes two descriptors of this process. More wait.
pub const MOST_CONNECTIONS: usize = 256;
/// For the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// After a failure to accept: the system is out of descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const USER: &str = "sheepdog";
/// Variables of tools that read no other ones: npm, Yarn from 2 on.
const OF_TOOLS: [&str; 4] =
    ["npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"];

/// The channels between a proxy and its user.
pub struct Reports {
    pub refused: OnRefused,
    /// Whether a connection from this address is the program's own. It is told once for each.
    pub is_own: IsOwn,
    pub asks: OnAsk,
    pub metered: OnMetered,
    /// Turned on when no more may be spent: everything under way is cut off, and every host is refused.
    pub cut: watch::Receiver<bool>,
}

/// Serves one program until it is dropped.
pub struct Proxy {
    port: u16,
    credential: String,
    /// Ports of this machine's servers that are looked into, and the proxy's own in their place.
    redirects: Vec<(u16, u16)>,
    shared: Arc<Shared>,
    _ended: DropGuard,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Proxy {
    /// `listener` is on loopback. `inherited`: the variables that the program gets from the host. Needs tokio, and blocks for files.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        listener: TcpListener,
        access: Access,
        reports: Reports,
        inherited: &[(OsString, OsString)],
    ) -> io::Result<Proxy> {
        let outside = Outside { inherited: inherited.to_vec(), ..Outside::default() };
        Proxy::start_with(listener, access, reports, outside)
    }

    /// With another world outside.
    ///
    /// # Errors
    /// The system's.
    pub fn start_with(
        listener: TcpListener,
        access: Access,
        reports: Reports,
        outside: Outside,
    ) -> io::Result<Proxy> {
        let port = listener.local_addr()?.port();
        let listener = waiting(listener)?;
        let credential =
            random::key::<24>().ok_or_else(|| io::Error::other("the system gives no random numbers"))?;
        let authorization = STANDARD.encode(format!("{USER}:{credential}"));
        let ended = CancellationToken::new();
        let authority = access
            .looks_into_any()
            .then(|| Authority::new(&std::env::temp_dir(), &outside.inherited))
            .transpose()?;
        let local = access.local(true);
        let shared = Arc::new(Shared {
            access,
            authority,
            meter: Meter::new(reports.metered),
            ended: ended.clone(),
            resolver: Resolver::new(outside.resolve),
            on_refused: reports.refused,
            is_own: reports.is_own,
            asks: reports.asks,
            cut: reports.cut,
            authorization,
            tls: outside.tls.map(|tls| OnceLock::from(Ok(tls))).unwrap_or_default(),
        });
        let mut redirects: Vec<(u16, u16)> = Vec::new();
        for (host, port) in local {
            if redirects.iter().any(|(known, _)| *known == port) {
                continue;
            }
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            redirects.push((port, listener.local_addr()?.port()));
            let host = shared.access.local_host(host, port);
            let serve = move |stream, shared: Arc<Shared>, place| {
                let host = host.clone();
                async move {
                    let _place: Place = place;
                    let way = shared.access.way(&host, port).unwrap_or(Way::Secure);
                    let Ok(ends) = Ends::of(&stream) else { return };
                    inspect::serve(shared, (stream, ends), (host, port), way, None).await;
                }
            };
            accept_all(waiting(listener)?, shared.clone(), serve);
        }
        accept_all(listener, shared.clone(), serve);
        Ok(Proxy { port, credential, redirects, shared, _ended: ended.drop_guard() })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ports of this machine, and the port of the proxy that a connection to each of them goes to instead.
    pub fn redirects(&self) -> &[(u16, u16)] {
        &self.redirects
    }

    /// The folder of files that programs need to trust the proxy.
    pub fn folder(&self) -> Option<&Path> {
        self.shared.authority.as_ref().map(Authority::folder)
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
            // Servers of the program's own, which the proxy does not know.
            variables.push((name.to_owned(), without_proxy()));
        }
        for name in OF_TOOLS {
            variables.push((name.to_owned(), url.clone()));
        }
        variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
        variables.extend(self.shared.authority.iter().flat_map(Authority::environment));
        let secrets = self.shared.access.secrets.iter();
        variables.extend(secrets.map(|secret| (secret.name().to_owned(), secret.placeholder().to_owned())));
        variables
    }
}

/// One of a program's connections, for as long as a part of it is there.
type Place = Arc<OwnedSemaphorePermit>;

fn waiting(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Serves each connection in a task of its own, until the proxy ends.
fn accept_all<Serving: Future<Output = ()> + Send + 'static>(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    serve: impl Fn(TcpStream, Arc<Shared>, Place) -> Serving + Send + 'static,
) {
    ground::task::spawn(async move {
        shared.ended.run_until_cancelled(accept(&listener, &shared, serve)).await;
    });
}

async fn accept<Serving: Future<Output = ()> + Send + 'static>(
    listener: &tokio::net::TcpListener,
    shared: &Arc<Shared>,
    serve: impl Fn(TcpStream, Arc<Shared>, Place) -> Serving,
) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (serving, over) = (serve(stream, shared.clone(), Arc::new(place)), shared.over());
        ground::task::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = over => {}
            }
        });
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, place: Place) {
    let Ok(ends) = Ends::of(&stream) else { return };
    let is_own = Arc::new(OnceLock::new());
    let on_refused = shared.on_refused.clone();
    let caller =
        Caller::new(ends, Box::new(move |line| on_refused(format!("a request to the proxy: {line}"))));
    let (known, proxy, same) = (is_own.clone(), shared.clone(), caller.clone());
    let service = service_fn(move |request| {
        let (shared, place, caller) = (proxy.clone(), place.clone(), same.clone());
        let exchange = caller.begin(&request);
        // By the first request it was told who connects. Browsers take no credential from a variable.
        let is_own = *known.get_or_init(|| (shared.is_own)(ends.peer));
        let is_let_in = is_own || has_credential(&request, &shared.authorization);
        async move {
            if !is_let_in {
                return Ok::<_, Infallible>(no_credential());
            }
            Ok(answer(shared, request, place, (caller, exchange)).await)
        }
    });
    let client = TokioIo::new(CallerStream::new(caller.clone(), stream));
    // A client that breaks off is no fault.
    let _ = inspect::server(HEAD_WITHIN).serve_connection(client, service).with_upgrades().await;
    caller.end();
    // It may have asked nothing.
    is_own.get_or_init(|| (shared.is_own)(ends.peer));
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    place: Place,
    (caller, exchange): (Arc<Caller>, Exchange),
) -> Response<Body> {
    if request.method() == Method::CONNECT {
        return shared.on_connect(request, place, caller.ends()).await;
    }
    shared.on_request(request, caller, exchange).await
}

impl Shared {
    /// The tunnel keeps the place of its connection, which hyper's part of it leaves.
    async fn on_connect(
        self: Arc<Self>,
        request: Request<Incoming>,
        place: Place,
        ends: Ends,
    ) -> Response<Body> {
        let target = request.uri().authority().and_then(|authority| split_port(authority.as_str()));
        let Some((host, port)) = target else {
            return wrong("CONNECT needs a host and a port");
        };
        let host = self.access.local_host(host, port);
        // Before the look: the cut may come between the two.
        let over = self.over();
        let is_seen = self.access.looks_into(&host, port);
        // A host that is looked into says it to each request, in the words of its protocol.
        if let Some(response) = self.used_up().filter(|_| !is_seen) {
            return response;
        }
        let (way, server) = match self.reach(&host, port).await {
            Ok(reached) => reached,
            Err(response) => return response,
        };
        ground::task::spawn(async move {
            let _place = place;
            let tunnel = async {
                let Ok(client) = hyper::upgrade::on(request).await else { return };
                let client = TokioIo::new(client);
                if is_seen {
                    let client = (client, ends);
                    return inspect::serve(self.clone(), client, (host, port), way, Some(server)).await;
                }
                let refused = tunnel::run(client, server, &host, port, way).await;
                if let Err(Some(problem)) = refused {
                    self.refuse(problem);
                }
            };
            tokio::select! {
                () = tunnel => {}
                () = over => {}
            }
        });
        Response::new(empty())
    }

    async fn on_request(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        caller: Arc<Caller>,
        exchange: Exchange,
    ) -> Response<Body> {
        let (Some(scheme), Some(authority)) = (request.uri().scheme_str(), request.uri().authority()) else {
            return wrong("this is a proxy: a request to it names its host");
        };
        if scheme != "http" {
            return wrong("a request to an https address goes by CONNECT");
        }
        let authority = authority.as_str().to_owned();
        let Some((host, port)) = with_port(&authority, 80) else {
            return wrong("the request's host is no name and no address");
        };
        // The host behind a shared address goes by this header.
        let mut named = request.headers().get_all(HOST).iter();
        let is_own = |named: &HeaderValue| {
            named.to_str().ok().and_then(|named| with_port(named, 80)) == Some((host.clone(), port))
        };
        if !named.all(is_own) {
            self.refuse(format!("{host}:{port}: its Host header is another one"));
            return refused("the request's Host header is not its host");
        }
        let Ok(named) = HeaderValue::from_str(&authority) else {
            return wrong("the request's host is no name and no address");
        };
        request.headers_mut().insert(HOST, named);
        let host = self.access.local_host(host, port);
        match self.reach(&host, port).await {
            Ok((way, server)) => {
                Inspected::plain(self, host, port, way, (server, caller)).pass(request, exchange).await
            }
            Err(response) => response,
        }
    }
}

fn has_credential(request: &Request<Incoming>, expected: &str) -> bool {
    let given = request.headers().get(PROXY_AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
    let (scheme, given) = given.split_at_checked(6).unwrap_or_default();
    // The time that it takes says nothing about where they differ.
    let differ = given.iter().zip(expected.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    scheme.eq_ignore_ascii_case(b"basic ") && given.len() == expected.len() && differ == 0
}
