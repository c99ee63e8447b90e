//! A response: its head is available, its body is pulled.

use super::failure::{HttpError, Waiting};
use super::retry_after::{parse_retry_after, parse_retry_after_ms};
use bytes::Bytes;
use ground::os::within;
use std::time::{Duration, SystemTime};

/// Longest part of an error status's body that the error contains.
const EXCERPT_BYTES: usize = 4 << 10;
/// How long to wait for that part. The status without it is more useful than a timeout.
const EXCERPT_WAIT: Duration = Duration::from_secs(2);

/// Dropping it closes the connection unless the body was read to its end.
#[derive(Debug)]
pub struct Response {
    inner: reqwest::Response,
    idle_timeout: Option<Duration>,
}

impl Response {
    pub(super) fn new(inner: reqwest::Response, idle_timeout: Option<Duration>) -> Self {
        Response { inner, idle_timeout }
    }

    pub fn status(&self) -> u16 {
        self.inner.status().as_u16()
    }

    /// The value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.inner.headers().get(name)?.to_str().ok()
    }

    /// The target of a redirect. `None`: the response is not a redirect, or names no target.
    ///
    /// # Errors
    /// [`HttpError::Redirect`] for a target that must not be requested: another scheme, or http after https.
    pub fn redirect_target(&self) -> Option<Result<String, HttpError>> {
        let location = self.inner.status().is_redirection().then(|| self.header("location"))??;
        let refused = |problem: &str| HttpError::Redirect { problem: problem.to_owned() };
        Some(match self.inner.url().join(location) {
            Err(_) => Err(refused("to an invalid URL")),
            Ok(target) if !matches!(target.scheme(), "http" | "https") => {
                Err(refused("to neither http nor https"))
            }
            Ok(target) if self.inner.url().scheme() == "https" && target.scheme() != "https" => {
                Err(refused("the server redirects from https to http"))
            }
            Ok(target) => Ok(target.into()),
        })
    }

    pub fn content_length(&self) -> Option<u64> {
        self.inner.content_length()
    }

    /// The wait from Retry-After-Ms, which is more exact, else from Retry-After, in seconds or as a date.
    pub fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after-ms").and_then(parse_retry_after_ms).or_else(|| {
            parse_retry_after(self.header("retry-after")?, self.header("date"), SystemTime::now())
        })
    }

    /// The next bytes as they come; `None` at the end. A body that ends too early is [`HttpError::Reset`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let next = self.inner.chunk();
        let chunk = match self.idle_timeout {
            None => next.await,
            Some(limit) => within(limit, next)
                .await
                .ok_or(HttpError::Timeout { waiting_for: Waiting::Chunk, after: limit })?,
        };
        // The connection exists already, so the connect timeout can't be the reason.
        chunk.map_err(|error| HttpError::from_reqwest(error, Duration::ZERO))
    }

    /// The rest of the body, cut after `max` bytes.
    pub async fn bytes(&mut self, max: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        self.read_into(&mut body, max).await?;
        Ok(body)
    }

    /// The response, if its status is from 200 to 299. Otherwise [`HttpError::Status`] with the beginning of the body.
    pub async fn success(mut self) -> Result<Self, HttpError> {
        if self.inner.status().is_success() {
            return Ok(self);
        }
        let (status, retry_after) = (self.status(), self.retry_after());
        let mut body = Vec::new();
        // The part that was read is used, even when reading the rest fails or times out.
        within(EXCERPT_WAIT, self.read_into(&mut body, EXCERPT_BYTES)).await;
        Err(HttpError::Status { status, body: String::from_utf8_lossy(&body).into_owned(), retry_after })
    }

    async fn read_into(&mut self, body: &mut Vec<u8>, max: usize) -> Result<(), HttpError> {
        while body.len() < max {
            let Some(chunk) = self.chunk().await? else { break };
            let room = max - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        Ok(())
    }
}
