//! The errors that can occur between a request and the end of its response.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A typed failure. Its text never contains a URL's query, a header or a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// The URL, a header or the TLS set-up is invalid: no request was made.
    InvalidRequest { problem: String },
    /// No connection: unknown host, refused, unreachable.
    Connect { problem: String },
    /// The TLS handshake failed: an untrusted certificate, or no TLS on the other side.
    Tls { problem: String },
    /// A timeout expired.
    Timeout { waiting_for: Waiting, after: Duration },
    /// The connection was lost, before the response or in the middle of its body.
    Reset { problem: String },
    /// Too many redirects, or one from https to http.
    Redirect { problem: String },
    /// The file to upload can't be read, or changed its length.
    File { problem: String },
    /// The response's status is not from 200 to 299. `body` is the beginning of its body.
    Status { status: u16, body: String, retry_after: Option<Duration> },
}

/// The phase of a request that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Connection,
    /// The head of the response. This includes a request's body that the server does not read.
    Response,
    /// The next piece of the response's body.
    Chunk,
}

impl fmt::Display for HttpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::InvalidRequest { problem } => {
                write!(formatter, "the request cannot be sent: {problem}")
            }
            HttpError::Connect { problem } => write!(formatter, "no connection: {problem}"),
            HttpError::Tls { problem } => write!(formatter, "no secure connection: {problem}"),
            HttpError::Timeout { waiting_for, after } => {
                let what = match waiting_for {
                    Waiting::Connection => "no connection",
                    Waiting::Response => "no response",
                    Waiting::Chunk => "silence in the middle of the response",
                };
                write!(formatter, "{what} for {} ms", after.as_millis())
            }
            HttpError::Reset { problem } => write!(formatter, "the connection was lost: {problem}"),
            HttpError::Redirect { problem } => write!(formatter, "not redirected: {problem}"),
            HttpError::File { problem } => write!(formatter, "the file cannot be read: {problem}"),
            HttpError::Status { status, body, .. } if body.trim().is_empty() => {
                write!(formatter, "status {status}")
            }
            HttpError::Status { status, body, .. } => write!(formatter, "status {status}: {}", body.trim()),
        }
    }
}

impl StdError for HttpError {}

impl HttpError {
    pub(super) fn from_reqwest(error: reqwest::Error, connect_timeout: Duration) -> Self {
        // reqwest's error shows the URL with its query.
        let error = error.without_url();
        let problem = innermost(&error);
        if error.is_builder() {
            HttpError::InvalidRequest { problem }
        } else if let Some(problem) = tls_problem(&error) {
            HttpError::Tls { problem }
        } else if error.is_timeout() {
            // The connect timeout is the only timeout that reqwest has.
            HttpError::Timeout { waiting_for: Waiting::Connection, after: connect_timeout }
        } else if error.is_connect() {
            HttpError::Connect { problem }
        } else {
            HttpError::Reset { problem }
        }
    }
}

/// The last error of the chain, which is the actual cause ("Connection refused (os error 111)").
fn innermost(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Finds a TLS error. It is inside an `io::Error`, so the chain of sources does not contain it.
fn tls_problem(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(tls.to_string());
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(problem) = inner.and_then(|inner| tls_problem(inner)) {
            return Some(problem);
        }
        next = error.source();
    }
    None
}
