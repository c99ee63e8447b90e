//! Sends one artifact to the URL that the client gave for it: from disk, with patience, and what is told is what was sent.

use super::artifact::{Upload, UploadFailure, Uploaded};
use ground::hex::hex;
use ground::lock::lock;
use ground::os::open_in_place;
use ground::random;
use ground::retry::RetryPolicy;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wires::http::{Body, FileBody, HttpClient, HttpError, HttpOptions};
use wires::watch::Stamp;

/// Attempts on one URL. A server that asks for more patience than the longest wait is tried all the same: the drain is not for
/// ever.
const RETRY: RetryPolicy =
    RetryPolicy { attempts: 5, base_delay: Duration::from_millis(200), max_delay: Duration::from_secs(20) };
/// Followed by one attempt.
const MAX_REDIRECTS: usize = 5;

/// A client for uploads: redirects are followed here, because the file has to be sent again.
pub fn upload_client() -> HttpClient {
    HttpClient::new(HttpOptions { max_redirects: None, ..HttpOptions::default() })
}

/// Uploads, again when the server falters or the file changed meanwhile. `http`: an [`upload_client`].
///
/// # Errors
/// In words for the client: without the URL (it is a secret), without what the server wrote (it may repeat the URL), without
/// paths of this machine.
pub async fn upload(http: &HttpClient, upload: &Upload) -> Result<Uploaded, UploadFailure> {
    let path = &upload.artifact.path;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failed = |reason: String| UploadFailure { reason, attempts };
        let (file, before) = open(path).await.map_err(|error| failed(words_for(&error)))?;
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
            return Err(failed(format!("the upload failed after {attempts} {times}: {}", problem.words())));
        }
        let asked = match &problem {
            Problem::Http(HttpError::Status { retry_after, .. }) => *retry_after,
            _ => None,
        };
        tokio::time::sleep(RETRY.delay(attempts, asked, random::fraction())).await;
    }
}

/// Why one attempt brought nothing home.
enum Problem {
    Http(HttpError),
    /// The server was content before it had the file.
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
            // It became shorter while it was sent: what it is now can be sent.
            Problem::Http(HttpError::File { .. }) | Problem::Early => true,
            Problem::Http(HttpError::Status { status, .. }) => matches!(status, 408 | 425 | 429 | 500..=599),
            Problem::Http(_) | Problem::Elsewhere(_) => false,
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

/// One attempt, redirects included; the hash of what was sent.
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
            // The file goes where they lead. 303 means something else: to look for an answer there.
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

/// The file as it is, if it still is the file that was found.
async fn open(path: &Path) -> io::Result<(Arc<File>, Stamp)> {
    let path = path.to_owned();
    let opened = ground::os::blocking(move || open_in_place(&path)).await;
    let (file, metadata) = opened.map_err(io::Error::other)??;
    Ok((Arc::new(file), Stamp::of(&metadata)))
}

fn words_for(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the file is gone".to_owned(),
        io::ErrorKind::InvalidInput => error.to_string(),
        _ => "the file can't be read any more".to_owned(),
    }
}
