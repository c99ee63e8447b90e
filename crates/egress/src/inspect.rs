//! Requests that are looked into: those to hosts with a secret, and to hosts whose answers are metered.
//!
//! The program's TLS ends here, with a certificate of the program's own authority. Each request is checked, gets its secrets, and
//! goes over a TLS connection of this process, which trusts what the system trusts. One request follows another: HTTP/2 is not
//! offered, and a connection is not handed over to another protocol, because nobody could look into it.

use crate::answer::{Body, refused, unreachable, wrong};
use crate::authority::Authority;
use crate::body::{Answered, Asked};
use crate::caller::{Caller, CallerStream, Ends, Exchange, MOST_HEAD};
use crate::connection_headers::{is_encoded, strip, strip_answer};
use crate::host::{Host, Way};
use crate::meter::Passing;
use crate::origin::{OriginStream, is_open};
use crate::reach::NoWay;
use crate::search::{Search, Texts};
use crate::secret::Leak;
use crate::shared::Shared;
use crate::tunnel::deny;
use bytes::Bytes;
use ground::lock::lock;
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderValue, IF_RANGE, RANGE, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};
use wires::http::MAX_HEADER_LINES;

const HANDSHAKE_WITHIN: Duration = Duration::from_secs(30);
/// For the head of a request, counted from the end of the one before.
const HEAD_WITHIN: Duration = Duration::from_secs(600);
/// The first byte of TLS.
const HANDSHAKE: u8 = 22;

/// A host, for the requests of one connection of the program.
pub(crate) struct Inspected {
    shared: Arc<Shared>,
    host: Host,
    port: u16,
    way: Way,
    is_tls: bool,
    caller: Arc<Caller>,
    /// Placeholders that this host must not get.
    foreign: Arc<Texts>,
    /// A connection to the host that may be used again, or that was opened for the first request.
    server: Mutex<Option<Server>>,
}

type Sender = SendRequest<Either<Asked, Empty<Bytes>>>;

enum Server {
    Fresh(TcpStream),
    Open(Sender),
}

/// Serves a connection of the program as if it were the host. `server`: a connection to the host.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    (mut client, ends): (impl AsyncRead + AsyncWrite + Unpin + Send + 'static, Ends),
    (host, port): (Host, u16),
    way: Way,
    server: Option<TcpStream>,
) {
    let mut first = [0];
    let read = timeout(HANDSHAKE_WITHIN, client.read_exact(&mut first)).await;
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let is_tls = first[0] == HANDSHAKE;
    let (rest, back) = tokio::io::split(client);
    let client = tokio::io::join(io::Cursor::new(first).chain(rest), back);
    let (place, on_refused) = (format!("{host}:{port}"), shared.on_refused.clone());
    let caller = Caller::new(ends, Box::new(move |line| on_refused(format!("{place}: {line}"))));
    let inspected = Arc::new(Inspected::new(shared.clone(), (host, port), way, (is_tls, caller), server));
    if !is_tls {
        if way == Way::Secure {
            shared.refuse(format!("{}: a tunnel to this port carries TLS only", inspected.place()));
            return;
        }
        return requests(inspected, client).await;
    }
    let Some(authority) = &shared.authority else { return };
    // The program may trust another authority, or break off: it says so itself.
    if let Ok(Some(stream)) = timeout(HANDSHAKE_WITHIN, accept(&inspected, authority, client)).await {
        requests(inspected, stream).await;
    }
}

/// Answers the program's TLS, whose first message must name the host.
async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
    inspected: &Inspected,
    authority: &Authority,
    client: IO,
) -> Option<TlsStream<IO>> {
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), client).await.ok()?;
    let named = start.client_hello().server_name().map(str::to_owned);
    let named = inspected.host.check_tls(named.as_deref());
    let server = named.and_then(|()| authority.server(&inspected.host).map_err(|error| error.to_string()));
    match server {
        Ok(server) => start.into_stream(server).await.ok(),
        Err(problem) => {
            inspected.shared.refuse(format!("{}: {problem}", inspected.place()));
            deny(&mut start.io).await;
            None
        }
    }
}

async fn requests(inspected: Arc<Inspected>, client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let caller = inspected.caller.clone();
    let service = service_fn(move |request| {
        let (inspected, exchange) = (inspected.clone(), inspected.caller.begin(&request));
        async move { Ok::<_, Infallible>(inspected.answer(request, exchange).await) }
    });
    let client = TokioIo::new(CallerStream::new(caller.clone(), client));
    // A client that breaks off is no fault.
    let _ = server(HEAD_WITHIN).serve_connection(client, service).await;
    caller.end();
}

/// The server that programs speak to.
pub(crate) fn server(head_within: Duration) -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(head_within).max_headers(MAX_HEADER_LINES);
    server
}

impl Inspected {
    /// A host that a request without TLS goes to. `server`: a connection to it.
    pub(crate) fn plain(
        shared: Arc<Shared>,
        host: Host,
        port: u16,
        way: Way,
        (server, caller): (TcpStream, Arc<Caller>),
    ) -> Inspected {
        Inspected::new(shared, (host, port), way, (false, caller), Some(server))
    }

    fn new(
        shared: Arc<Shared>,
        (host, port): (Host, u16),
        way: Way,
        (is_tls, caller): (bool, Arc<Caller>),
        server: Option<TcpStream>,
    ) -> Inspected {
        let foreign = shared.access.secrets.foreign(&host, port);
        let server = Mutex::new(server.map(Server::Fresh));
        Inspected { shared, host, port, way, is_tls, caller, foreign, server }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Whether a request's Host header is this host.
    fn is_named_by(&self, request: &Request<Incoming>) -> bool {
        let web = if self.is_tls { 443 } else { 80 };
        let is_own = |named: &HeaderValue| {
            let Some((host, port)) = named.to_str().ok().and_then(|text| crate::host::with_port(text, web))
            else {
                return false;
            };
            port == self.port && host.is_same(&self.host)
        };
        let mut named = request.headers().get_all(HOST).iter().peekable();
        named.peek().is_some() && named.all(is_own)
    }

    async fn answer(&self, request: Request<Incoming>, exchange: Exchange) -> Response<Body> {
        let shared = &self.shared;
        if request.uri().authority().is_some() && request.uri().scheme_str().is_none() {
            return wrong("a proxy behind this host is not reached");
        }
        if !self.is_named_by(&request) {
            shared.refuse(format!("{}: its Host header is another one", self.place()));
            return refused("the request's Host header is not its host");
        }
        self.pass(request, exchange).await
    }

    /// Passes a request on that was checked to be for this host.
    pub(crate) async fn pass(&self, mut request: Request<Incoming>, exchange: Exchange) -> Response<Body> {
        let shared = &self.shared;
        let is_seen = shared.access.looks_into(&self.host, self.port);
        let is_own = shared.access.secrets.has_for(&self.host, self.port);
        if let Some(refusal) = self.turned_away(&request, is_seen, is_own) {
            return refusal;
        }
        let exchanged = {
            let (uri, mut headers) = (request.uri().clone(), std::mem::take(request.headers_mut()));
            let exchanged = shared.access.secrets.exchange(&self.host, self.port, &uri, &mut headers);
            *request.headers_mut() = headers;
            exchanged
        };
        let hidden = match exchanged {
            Ok(hidden) => hidden,
            Err(leak) => return self.on_leak(&leak),
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let Ok(path) = path.parse::<Uri>() else { return wrong("the request's path can't be passed on") };
        *request.uri_mut() = path;
        *request.version_mut() = Version::HTTP_11;
        strip(request.headers_mut());
        if is_seen {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if is_own {
            // Parts of a secret in parts of an answer would be found by nobody.
            request.headers_mut().remove(RANGE);
            request.headers_mut().remove(IF_RANGE);
        }
        let mut passing =
            is_seen.then(|| shared.meter.ask(request.method(), request.uri().path(), request.headers()));
        let (asked, leaks) = (passing.as_ref().map(Passing::asked).unwrap_or_default(), Arc::default());
        let foreign = Search::new(self.foreign.clone());
        let mut request = request.map(|body| Asked::new(body, foreign, asked, Arc::clone(&leaks)));
        self.relay_interim(&mut request, is_own.then(|| hidden.clone()));
        let is_head = request.method() == Method::HEAD;
        let mut response = match self.send(request).await {
            Ok(response) => response,
            Err(NoWay::Refused { what, line }) => {
                shared.refuse(what);
                return refused(&line);
            }
            Err(NoWay::Failed(_)) if leaks.load(Ordering::Acquire) => {
                if let Some(passing) = &mut passing {
                    passing.forget();
                }
                return self.on_leak(&Leak("a secret".to_owned()));
            }
            Err(NoWay::Failed(line)) => return unreachable(&line),
        };
        // The words beside the status are the server's own, and could hold a secret.
        response.extensions_mut().clear();
        if let Some(passing) = passing {
            let hidden = is_own.then_some(hidden);
            return self.on_answer(response, hidden, is_head, (passing, exchange));
        }
        strip_answer(&mut response, is_head);
        response.map(|body| Answered::new(body, Search::new(Texts::new([])), None, Some(exchange)).boxed())
    }

    /// The answer to a request that goes no further: the budget, or the way to this host, forbids it.
    fn turned_away(
        &self,
        request: &Request<Incoming>,
        is_seen: bool,
        is_own: bool,
    ) -> Option<Response<Body>> {
        if let Some(response) = self.shared.used_up() {
            return Some(response);
        }
        if is_seen && request.headers().contains_key(UPGRADE) && !is_h2c(request) {
            let line = "a host with a secret or a budget is spoken to by HTTP requests only: no websockets";
            let mut response = refused(line);
            // Servers without websockets say so; programs then use requests.
            *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
            return Some(response);
        }
        (is_own && !self.is_tls && self.way == Way::Secure).then(|| {
            self.shared.refuse(format!("{}: a secret goes by TLS only", self.place()));
            refused("a secret goes by TLS only: use https, or list the host with its port")
        })
    }

    /// Relays the host's interim answers to the program, which may hold its body back until one arrives.
    fn relay_interim(&self, request: &mut Request<Asked>, hidden: Option<Arc<Texts>>) {
        let expects = request.headers().get(EXPECT);
        let expects = expects.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let is_old = request.version() == Version::HTTP_10;
        let go = std::sync::Mutex::new(None);
        if expects && !is_old {
            let (sender, receiver) = oneshot::channel();
            *lock(&go) = Some(sender);
            request.body_mut().wait_for(receiver);
        }
        let (caller, secrets) = (self.caller.clone(), self.shared.access.secrets.clone());
        hyper::ext::on_informational(request, move |interim| {
            if interim.status() == StatusCode::CONTINUE {
                // The server tells the program when its body is asked for.
                if let Some(go) = lock(&go).take() {
                    let _ = go.send(());
                }
                return;
            }
            let mut headers = interim.headers().clone();
            strip(&mut headers);
            if let Some(hidden) = &hidden {
                secrets.hide_in(&mut headers, hidden);
            }
            if !is_old {
                caller.pass_interim(interim.status(), &headers);
            }
        });
    }

    fn on_answer(
        &self,
        mut response: Response<Incoming>,
        hidden: Option<Arc<Texts>>,
        is_head: bool,
        (mut passing, exchange): (Passing, Exchange),
    ) -> Response<Body> {
        let (shared, is_own) = (&self.shared, hidden.is_some());
        let hidden = hidden.unwrap_or_else(|| Texts::new([]));
        let is_encoded = is_encoded(response.headers());
        strip_answer(&mut response, is_head);
        let secrets = &shared.access.secrets;
        if is_encoded && is_own {
            return unreachable(&format!(
                "{}: its answer is compressed though it was asked for plain text, so nobody can see whether it holds a secret",
                self.place()
            ));
        }
        secrets.hide_in(response.headers_mut(), &hidden);
        if is_own && !is_head && !secrets.keeps_length(&self.host, self.port) {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        passing.on_answer(response.status(), kind, response.body().size_hint().exact(), is_encoded);
        response.map(|body| Answered::new(body, Search::new(hidden), Some(passing), Some(exchange)).boxed())
    }

    fn on_leak(&self, Leak(name): &Leak) -> Response<Body> {
        self.shared.refuse(format!("{}: the placeholder of {name} was sent to it", self.place()));
        refused(&format!("the placeholder of {name} must not go to {}", self.place()))
    }

    /// Sends a request and waits for the head of its answer. The host may end a connection that was kept at any moment: what it read
    /// nothing of is sent by a new one.
    /// And, as clients do it themselves, a request that changes nothing and has no body is sent once more if it ended without an answer.
    async fn send(&self, request: Request<Asked>) -> Result<Response<Incoming>, NoWay> {
        let mut request = request.map(Either::Left);
        let mut is_again = false;
        let answered = (self.shared.asks)(&self.place());
        loop {
            let (mut server, is_kept) = self.server().await?;
            let is_repeatable = is_kept && request.method().is_safe() && request.body().is_end_stream();
            let copy = is_repeatable.then(|| copy_of(&request));
            let mut failure = match server.try_send_request(request).await {
                Ok(response) => {
                    *self.server.lock().await = Some(Server::Open(server));
                    answered();
                    return Ok(response);
                }
                Err(failure) => failure,
            };
            let copy = copy.filter(|_| is_cut_off(failure.error()));
            request = match failure.take_message().or(copy) {
                Some(request) if !is_again => request,
                _ => {
                    return Err(NoWay::Failed(format!(
                        "{}: {}",
                        self.place(),
                        words_of(&failure.into_error())
                    )));
                }
            };
            is_again = true;
        }
    }

    /// A connection to the host that is ready for a request, and whether it had one before.
    async fn server(&self) -> Result<(Sender, bool), NoWay> {
        let fresh = match self.server.lock().await.take() {
            Some(Server::Fresh(stream)) if is_open(&stream).await => Some(stream),
            Some(Server::Fresh(_)) => None,
            Some(Server::Open(mut server)) => match server.ready().await {
                Ok(()) => return Ok((server, true)),
                Err(_) => None,
            },
            None => None,
        };
        let fresh = match fresh {
            Some(stream) => stream,
            None => self.shared.connect(&self.host, self.port).await?,
        };
        let failed = |error: String| NoWay::Failed(format!("{}: {error}", self.place()));
        let shake = async {
            if !self.is_tls {
                return self.handshake(fresh).await.map_err(|error| failed(error.to_string()));
            }
            let name = match &self.host {
                Host::Name(name) => {
                    ServerName::try_from(name.clone()).map_err(|error| failed(error.to_string()))?
                }
                Host::Address(address) => ServerName::from(*address),
            };
            let config = self.shared.tls().map_err(failed)?;
            let stream = TlsConnector::from(config).connect(name, fresh).await;
            let stream = stream.map_err(|error| failed(error.to_string()))?;
            self.handshake(stream).await.map_err(|error| failed(error.to_string()))
        };
        match timeout(HANDSHAKE_WITHIN, shake).await {
            Ok(server) => server.map(|server| (server, false)),
            Err(_) => Err(failed("it did not answer".to_owned())),
        }
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> hyper::Result<Sender> {
        let mut client = hyper::client::conn::http1::Builder::new();
        // As lenient as clients are: lines that are folded are joined, and others that can't be read are left out.
        client.max_headers(MAX_HEADER_LINES).allow_obsolete_multiline_headers_in_responses(true);
        client.allow_spaces_after_header_name_in_responses(true).ignore_invalid_headers_in_responses(true);
        let (sender, connection) = client.handshake(TokioIo::new(OriginStream::new(stream))).await?;
        let (ended, left) = (self.shared.ended.clone(), self.caller.over());
        ground::task::spawn(async move {
            tokio::select! {
                // The reader of the answer sees a failure.
                _ = connection => {}
                () = ended.cancelled() => {}
                // Nobody waits for the host any more.
                () = left.cancelled() => {}
            }
        });
        Ok(sender)
    }
}

/// A request without a body.
fn copy_of<Any, Asked>(request: &Request<Any>) -> Request<Either<Asked, Empty<Bytes>>> {
    let mut copy = Request::new(Either::Right(Empty::new()));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// Whether the host closed the connection before it had answered.
fn is_cut_off(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.source().is_some_and(|source| source.is::<io::Error>())
}

/// Why a host that was reached gave no answer, in words that say what to do.
fn words_of(error: &hyper::Error) -> String {
    if error.is_parse_too_large() {
        return format!(
            "its answer has more than {MAX_HEADER_LINES} header lines, or a head of more than {MOST_HEAD}"
        );
    }
    error.to_string()
}

/// An offer of HTTP/2, which a server may pass over.
fn is_h2c(request: &Request<Incoming>) -> bool {
    request.headers().get(UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"h2c"))
}
