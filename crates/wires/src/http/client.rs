//! The HTTP client: a pool of connections, and the timeouts of a request.

use super::failure::{HttpError, Waiting};
use super::proxy::Proxies;
use super::request::{Body, Request, file_stream};
use super::response::Response;
use super::trust;
use futures_util::StreamExt;
use ground::lock::lock;
use ground::os::{addresses_of, within};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

/// Header lines of a message. Node.js takes as many, curl some more.
pub const MAX_HEADER_LINES: usize = 2000;

/// The options that all requests of a client share.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Limit for DNS, TCP and TLS. Default 10 s.
    pub connect_timeout: Duration,
    /// Most redirects that are followed; default 5. `None`: a redirect is returned like any other response, and
    /// [`Response::redirect_target`] gives its target.
    pub max_redirects: Option<usize>,
    /// Default: none.
    pub proxies: Proxies,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            connect_timeout: Duration::from_secs(10),
            max_redirects: Some(5),
            proxies: Proxies::default(),
        }
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

    /// Uploads a body. A file is streamed from disk with its Content-Length.
    pub async fn put(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        body: Body,
    ) -> Result<Response, HttpError> {
        self.send(Request { headers, body, ..Request::new("PUT", url) }).await
    }

    /// Sends a request and resolves with the head of the response, whatever its status.
    pub async fn send(&self, mut request: Request) -> Result<Response, HttpError> {
        let Some(max_redirects) = self.options.max_redirects else {
            return self.send_once(request).await;
        };
        for _ in 0..=max_redirects {
            let response = self.send_once(request.clone()).await?;
            match redirected(&request, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(HttpError::Redirect { problem: format!("more than {max_redirects} redirects") })
    }

    async fn send_once(&self, request: Request) -> Result<Response, HttpError> {
        let pool = self.pool()?;
        let mut headers = header_map(&request.headers)?;
        // The request asks for no compression. A response that is compressed anyway is decompressed.
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

/// Resolves names for reqwest, whose own look-up panics when the system refuses a thread.
struct Addresses;

impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The code that connects replaces the port.
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
        // Shorter than the keep-alive of common servers and load balancers, so that no connection is used just before the server
        // closes it.
        .pool_idle_timeout(Duration::from_secs(20))
        .pool_max_idle_per_host(32)
        .tcp_nodelay(true)
        .dns_resolver(Arc::new(Addresses))
        // As lenient as other clients are: lines that are folded are joined, and others that can't be read are left out.
        .http1_max_headers(MAX_HEADER_LINES)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .referer(false)
        // The caller decides about retries.
        .retry(reqwest::retry::never())
        .redirect(redirect::Policy::none())
        .no_proxy();
    for proxy in options.proxies.build()? {
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| HttpError::from_reqwest(error, options.connect_timeout))
}

/// The request that a redirect asks for; one to another origin without the headers that may be secret.
fn redirected(request: &Request, response: &Response) -> Result<Option<Request>, HttpError> {
    /// Headers that describe the message itself.
    const TAKEN_ALONG: [&str; 6] =
        ["accept", "accept-encoding", "content-type", "content-length", "range", "user-agent"];
    let (Some(target), 301 | 302 | 303 | 307 | 308) = (response.redirect_target(), response.status()) else {
        return Ok(None);
    };
    let mut next = Request { url: target?, ..request.clone() };
    if parse_url(&next.url)?.origin() != parse_url(&request.url)?.origin() {
        next.headers.retain(|(name, _)| TAKEN_ALONG.iter().any(|taken| name.eq_ignore_ascii_case(taken)));
    }
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

// The URL is parsed here, because reqwest's error would contain the URL with its query.
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
        // The value may be a key, so the error contains only the name.
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

/// Awaits the response. The timeout restarts with each progress of the request's body.
async fn within_progress<T>(
    response: impl Future<Output = T>,
    mut progress: watch::Receiver<u64>,
    limit: Option<Duration>,
) -> Result<T, HttpError> {
    let Some(limit) = limit else { return Ok(response.await) };
    tokio::pin!(response);
    let mut uploading = true;
    loop {
        let next = async {
            tokio::select! {
                biased;
                response = &mut response => Some(response),
                // An error means that the stream is gone: everything is sent, and the timeout is no longer restarted.
                changed = progress.changed(), if uploading => {
                    uploading = changed.is_ok();
                    None
                }
            }
        };
        match within(limit, next).await {
            Some(Some(response)) => return Ok(response),
            Some(None) => {}
            None => return Err(HttpError::Timeout { waiting_for: Waiting::Response, after: limit }),
        }
    }
}
