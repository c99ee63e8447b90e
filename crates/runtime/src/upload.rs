//! Uploads one artifact to the URL that the client gave for it, with retries. The reported size and hash are those of the content
//! that was sent.

use super::artifact::{FailureKind, Upload, UploadFailure, Uploaded};
use ground::hex::hex;
use ground::lock::lock;
use ground::os::FileStamp;
use ground::os::open_in_place;
use ground::random;
use ground::retry::RetryPolicy;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wires::http::{Body, FileBody, HttpClient, HttpError, HttpOptions, Proxies};

/// Attempts on one URL. When a server asks for a longer wait than the longest one here, the next attempt comes earlier: the drain
/// has a limit.
const RETRY: RetryPolicy =
    RetryPolicy { attempts: 5, base_delay: Duration::from_millis(200), max_delay: Duration::from_secs(20) };
/// Redirects that one attempt follows.
const MAX_REDIRECTS: usize = 5;

/// An HTTP client for uploads. It follows no redirects: this module does, because the file has to be sent again.
pub fn upload_client(proxies: Proxies) -> HttpClient {
    HttpClient::new(HttpOptions { max_redirects: None, proxies, ..HttpOptions::default() })
}

/// Uploads a file; retries when the server fails temporarily or the file changed meanwhile. `http`: an [`upload_client`].
///
/// # Errors
/// A text for the client. It does not contain the URL (a secret), the server's answer (which may repeat the URL), or paths of
/// this machine.
pub async fn upload(http: &HttpClient, upload: &Upload) -> Result<Uploaded, UploadFailure> {
    let path = &upload.artifact.path;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failed = |reason: String, kind| UploadFailure { reason, attempts, kind };
        let (file, before) = open(path).await.map_err(|error| {
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            failed(words_for(&error), if is_gone { FailureKind::Gone } else { FailureKind::Final })
        })?;
        let problem = match send(http, upload, file, before.bytes).await {
            Ok(sha256) => {
                let changed = open(path).await.is_ok_and(|(_, after)| after != before);
                if changed && upload.artifact.warning.is_none() && attempts < RETRY.attempts {
                    continue;
                }
                return Ok(Uploaded { stamp: before, bytes: before.bytes, sha256, attempts, torn: changed });
            }
            Err(problem) => problem,
        };
        if attempts >= RETRY.attempts || !problem.may_pass() {
            let times = if attempts == 1 { "attempt" } else { "attempts" };
            let words = format!("the upload failed after {attempts} {times}: {}", problem.words());
            return Err(failed(words, problem.kind()));
        }
        tokio::time::sleep(pause(attempts, &problem)).await;
    }
}

/// The pause after so many failed attempts.
fn pause(attempts: u32, problem: &Problem) -> Duration {
    let asked = match problem {
        Problem::Http(HttpError::Status { retry_after, .. }) => *retry_after,
        _ => None,
    };
    RETRY.delay(attempts, asked.map(|wait| wait.min(RETRY.max_delay)), random::fraction())
}

/// The reason why one attempt failed.
enum Problem {
    Http(HttpError),
    /// The server answered with success before it had the whole file.
    Early,
    /// A redirect that asks for something other than the file.
    Elsewhere(u16),
}

impl Problem {
    fn may_pass(&self) -> bool {
        match self {
            Problem::Http(
                HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::Reset { .. },
            ) => true,
            // The file became shorter while it was sent. Its current content can be sent.
            Problem::Http(HttpError::File { .. }) | Problem::Early => true,
            Problem::Http(HttpError::Status { status, .. }) => matches!(status, 408 | 425 | 429 | 500..=599),
            Problem::Http(_) | Problem::Elsewhere(_) => false,
        }
    }

    fn kind(&self) -> FailureKind {
        match self {
            Problem::Http(HttpError::Status { status: 400 | 401 | 403 | 410, .. }) => FailureKind::Refused,
            _ => FailureKind::Final,
        }
    }

    fn words(&self) -> String {
        match self {
            Problem::Http(HttpError::Status { status, .. }) => format!("status {status}"),
            Problem::Http(error) => error.to_string(),
            Problem::Early => "the server answered before it had the file".to_owned(),
            Problem::Elsewhere(status) => {
                format!("status {status} does not redirect to a place for the file")
            }
        }
    }
}

/// Makes one attempt, redirects included. Returns the hash of the content that was sent.
async fn send(http: &HttpClient, upload: &Upload, file: Arc<File>, len: u64) -> Result<String, Problem> {
    let mut url = upload.url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let witness = Arc::new(Mutex::new((Sha256::new(), 0)));
        let sees = witness.clone();
        let body = FileBody {
            file: file.clone(),
            len,
            witness: Some(Arc::new(move |piece: &[u8]| {
                let mut seen = lock(&sees);
                seen.0.update(piece);
                seen.1 += piece.len() as u64;
            })),
        };
        let headers = vec![("Content-Type".to_owned(), upload.content_type.clone())];
        let response = http.put(&url, headers, Body::File(body)).await.map_err(Problem::Http)?;
        match response.status() {
            200..300 => {}
            // The file is sent to the redirect's target. A 303 asks for something else: to fetch an answer from there.
            301 | 302 | 307 | 308 => match response.redirect_target() {
                Some(target) => {
                    url = target.map_err(Problem::Http)?;
                    continue;
                }
                None => return Err(Problem::Elsewhere(response.status())),
            },
            status @ 300..400 => return Err(Problem::Elsewhere(status)),
            _ => return Err(response.success().await.err().map_or(Problem::Early, Problem::Http)),
        }
        let (hasher, seen) = lock(&witness).clone();
        return if seen == len { Ok(hex(&hasher.finalize())) } else { Err(Problem::Early) };
    }
    Err(Problem::Http(HttpError::Redirect { problem: format!("more than {MAX_REDIRECTS} redirects") }))
}

/// Opens the file, if it still is the file that was found.
async fn open(path: &Path) -> io::Result<(Arc<File>, FileStamp)> {
    let path = path.to_owned();
    let opened = ground::os::blocking(move || open_in_place(&path)).await;
    let (file, metadata) = opened.map_err(io::Error::other)??;
    Ok((Arc::new(file), FileStamp::of(&metadata)))
}

fn words_for(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the file is gone".to_owned(),
        io::ErrorKind::InvalidInput => error.to_string(),
        _ => "the file can't be read any more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_given_the_time_that_it_asks_for_within_the_time_of_a_drain() {
        let paused = |seconds: u64| {
            let retry_after = Some(Duration::from_secs(seconds));
            pause(1, &Problem::Http(HttpError::Status { status: 503, body: String::new(), retry_after }))
        };
        assert_eq!([3, 20, 21, 60, 86_400].map(|seconds| paused(seconds).as_secs()), [3, 20, 20, 20, 20]);
        assert!(pause(1, &Problem::Early) < Duration::from_secs(1));
    }
}
