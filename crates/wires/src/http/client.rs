//! The client: a pool of connections and the request's clocks.

use super::failure::{HttpError, Waiting};
use super::request::{Body, Request, file_stream};
use super::response::Response;
use super::{proxy, trust};
use futures_util::StreamExt;
use ground::lock::lock;
use ground::os::addresses_of;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

/// What all requests of a client share.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// For DNS, TCP and TLS. Default 10 s.
    pub connect_timeout: Duration,
    /// Followed at most; default 5. `None`: a redirect is a response like others, and where it leads says
    /// [`Response::redirect_target`]. A body that is streamed can't be sent again by this client.
    pub max_redirects: Option<usize>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions { connect_timeout: Duration::from_secs(10), max_redirects: Some(5) }
    }
}

/// A cloneable handle on a pool of connections.
#[derive(Clone)]
pub struct HttpClient {
    options: HttpOptions,
    pool: Arc<Mutex<Option<reqwest::Client>>>,
}

impl HttpClient {
    pub fn new(options: HttpOptions) -> Self {
        HttpClient { options, pool: Arc::default() }
    }

    /// A client with the same options and a pool of its own: its first request opens a connection.
    pub fn fresh(&self) -> Self {
        HttpClient::new(self.options.clone())
    }

    /// Later requests of all handles open new connections; those under way keep theirs.
    pub fn renew(&self) {
        *self.lock() = None;
    }

    pub async fn get(&self, url: &str, headers: Vec<(String, String)>) -> Result<Response, HttpError> {
        self.send(Request { headers, ..Request::new("GET", url) }).await
    }

    /// Uploads; a file is streamed from disk with its Content-Length.
    pub async fn put(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        body: Body,
    ) -> Result<Response, HttpError> {
        self.send(Request { headers, body, ..Request::new("PUT", url) }).await
    }

    /// Sends and resolves with the head of the response, whatever its status. A redirect to another origin is followed
    /// without the headers that the new one has no claim to.
    pub async fn send(&self, mut request: Request) -> Result<Response, HttpError> {
        let Some(max_redirects) = self.options.max_redirects else {
            return self.send_within_origin(request).await;
        };
        for _ in 0..=max_redirects {
            let response = self.send_within_origin(request.clone()).await?;
            match redirected(&request, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(too_many(max_redirects))
    }

    async fn send_within_origin(&self, request: Request) -> Result<Response, HttpError> {
        let pool = self.pool()?;
        let mut headers = header_map(&request.headers)?;
        // Nothing is asked for in pieces that have to be unpacked; what comes so all the same is unpacked.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let method = reqwest::Method::from_bytes(request.method.as_bytes())
            .map_err(|error| HttpError::InvalidRequest { problem: error.to_string() })?;
        let url = parse_url(&request.url)?;
        let (taken, progress) = watch::channel(0);
        let file_failure: Arc<Mutex<Option<HttpError>>> = Arc::default();
        let mut builder = pool.request(method, url).headers(headers);
        builder = match request.body {
            Body::Empty => builder,
            Body::Bytes(bytes) => builder.body(bytes),
            Body::File(file) => {
                let failure = file_failure.clone();
                let len = file.len;
                let bytes = file_stream(file, Arc::new(taken))
                    .map(move |piece| piece.inspect_err(|error| note(&failure, error)));
                builder.header(CONTENT_LENGTH, len).body(reqwest::Body::wrap_stream(bytes))
            }
        };
        let sent = within_progress(builder.send(), progress, request.response_timeout).await?;
        match sent {
            Ok(response) => Ok(Response::new(response, request.idle_timeout)),
            Err(error) => {
                let noted = lock(&file_failure).take();
                Err(noted.unwrap_or_else(|| HttpError::from_reqwest(error, self.options.connect_timeout)))
            }
        }
    }

    fn pool(&self) -> Result<reqwest::Client, HttpError> {
        let mut pool = self.lock();
        match &*pool {
            Some(client) => Ok(client.clone()),
            None => Ok(pool.insert(build(&self.options)?).clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<reqwest::Client>> {
        lock(&self.pool)
    }
}

/// reqwest's own look-up panics when the system refuses a thread.
struct Addresses;

impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is put in by whoever connects.
            let found = addresses_of(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn build(options: &HttpOptions) -> Result<reqwest::Client, HttpError> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(trust::tls_config()?)
        .user_agent(concat!("sheepdog/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        // Below the keep-alive of common servers and load balancers: a connection is not used when it is about to close.
        .pool_idle_timeout(Duration::from_secs(20))
        .pool_max_idle_per_host(32)
        .tcp_nodelay(true)
        .dns_resolver(Arc::new(Addresses))
        .referer(false)
        // How often is the caller's decision.
        .retry(reqwest::retry::never())
        .redirect(redirects(options.max_redirects))
        .no_proxy();
    for proxy in proxy::from_environment()? {
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| HttpError::from_reqwest(error, options.connect_timeout))
}

fn redirects(max: Option<usize>) -> redirect::Policy {
    let Some(max) = max else { return redirect::Policy::none() };
    redirect::Policy::custom(move |attempt| {
        let secure_before = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > max {
            attempt.error(format!("more than {max} redirects"))
        } else if secure_before && attempt.url().scheme() != "https" {
            attempt.error("the server redirects from https to http")
        } else if attempt.previous().last().is_some_and(|from| from.origin() != attempt.url().origin()) {
            // reqwest would take every header along but the few that it knows to be secret.
            attempt.stop()
        } else {
            attempt.follow()
        }
    })
}

fn too_many(max: usize) -> HttpError {
    HttpError::Redirect { problem: format!("more than {max} redirects") }
}

/// The request at the other origin that the response leads to.
fn redirected(request: &Request, response: &Response) -> Result<Option<Request>, HttpError> {
    /// Of the message itself; any other may be a key.
    const TAKEN_ALONG: [&str; 6] =
        ["accept", "accept-encoding", "content-type", "content-length", "range", "user-agent"];
    let (Some(target), 301 | 302 | 303 | 307 | 308) = (response.redirect_target(), response.status()) else {
        return Ok(None);
    };
    let mut next = Request { url: target?, ..request.clone() };
    next.headers.retain(|(name, _)| TAKEN_ALONG.iter().any(|taken| name.eq_ignore_ascii_case(taken)));
    let keeps_method = matches!(response.status(), 307 | 308) || ["GET", "HEAD"].contains(&request.method);
    if !keeps_method && (response.status() == 303 || request.method == "POST") {
        next.method = "GET";
        next.body = Body::Empty;
        next.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    Ok(Some(next))
}

/// Whether a request can be made to this URL; [`HttpError::InvalidRequest`] if not.
pub fn check_url(url: &str) -> Result<(), HttpError> {
    parse_url(url).map(|_| ())
}

// Parsed here: reqwest would tell a wrong URL's text, query and all.
fn parse_url(url: &str) -> Result<reqwest::Url, HttpError> {
    let url = reqwest::Url::parse(url)
        .map_err(|error| HttpError::InvalidRequest { problem: format!("the URL is wrong: {error}") })?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => {
            Err(HttpError::InvalidRequest { problem: format!("expected an http or https URL, got {other}") })
        }
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        // The value may be a key: only the name is told.
        let wrong = |what: &str| HttpError::InvalidRequest { problem: format!("header {name:?}: {what}") };
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("invalid HTTP header name"))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| wrong("its value contains a character that an HTTP header cannot hold"))?;
        map.append(header, value);
    }
    Ok(map)
}

fn note(failure: &Mutex<Option<HttpError>>, error: &io::Error) {
    let noted = HttpError::File { problem: error.to_string() };
    *lock(failure) = Some(noted);
}

/// Awaits the response as long as there is progress with the request's body.
async fn within_progress<T>(
    response: impl Future<Output = T>,
    mut progress: watch::Receiver<u64>,
    limit: Option<Duration>,
) -> Result<T, HttpError> {
    let Some(limit) = limit else { return Ok(response.await) };
    tokio::pin!(response);
    let mut uploading = true;
    let clock = tokio::time::sleep(limit);
    tokio::pin!(clock);
    loop {
        tokio::select! {
            // Both ready: an answer that came in time counts.
            biased;
            response = &mut response => return Ok(response),
            // An error says that the stream is gone: all is sent, from now on the clock runs through.
            changed = progress.changed(), if uploading => {
                uploading = changed.is_ok();
                clock.as_mut().reset(tokio::time::Instant::now() + limit);
            }
            () = &mut clock => return Err(HttpError::Timeout { waiting_for: Waiting::Response, after: limit }),
        }
    }
}
