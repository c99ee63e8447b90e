//! Sends one artifact to the URL that the client gave for it: from disk, with patience, and what was sent is the file.

use super::artifact::Upload;
use super::reply::Uploaded;
use crate::http::{Body, HttpClient, HttpError};
use crate::watch::Stamp;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Attempts on one URL.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A server that asks for more patience than this is tried all the same: the drain is not for ever.
const LONGEST_ASKED: Duration = Duration::from_secs(20);

/// Uploads, again when the server falters or the file changed meanwhile.
///
/// # Errors
/// In words for the client, without the URL (it is a secret) and without paths of this machine.
pub async fn upload(http: &HttpClient, upload: &Upload) -> Result<Uploaded, String> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let before = look(&upload.artifact.path).await?;
        let sha256 = hash(&upload.artifact.path, before.bytes).await;
        let headers = vec![("Content-Type".to_owned(), upload.content_type.clone())];
        let body = Body::File { path: upload.artifact.path.clone(), len: before.bytes };
        let sent = match http.put(&upload.url, headers, body).await {
            Ok(response) => response.success().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let changed = look(&upload.artifact.path).await.is_ok_and(|after| after != before);
        match sent {
            Ok(()) if changed && upload.artifact.warning.is_none() && attempts < MAX_ATTEMPTS => continue,
            Ok(()) => {
                return Ok(Uploaded {
                    stamp: before,
                    bytes: before.bytes,
                    sha256: sha256.unwrap_or_default(),
                    attempts,
                });
            }
            Err(error) if attempts < MAX_ATTEMPTS && is_passing(&error) => {
                let pause = FIRST_PAUSE * 2_u32.pow(attempts - 1);
                let asked = match &error {
                    HttpError::Status { retry_after, .. } => retry_after.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                tokio::time::sleep(pause.min(LONGEST_PAUSE).max(asked.min(LONGEST_ASKED))).await;
            }
            Err(HttpError::File { .. }) => return Err("the file can't be read any more".to_owned()),
            Err(error) => {
                let times = if attempts == 1 { "attempt" } else { "attempts" };
                return Err(format!("the upload failed after {attempts} {times}: {error}"));
            }
        }
    }
}

fn is_passing(error: &HttpError) -> bool {
    match error {
        HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::Reset { .. } => true,
        // It became shorter while it was sent: what it is now can be sent.
        HttpError::File { .. } => true,
        HttpError::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
        HttpError::InvalidRequest { .. } | HttpError::Tls { .. } | HttpError::Redirect { .. } => false,
    }
}

/// The file as it is, if it still is the file that was found: no symlink has taken its place, nor that of a directory above.
async fn look(path: &Path) -> Result<Stamp, String> {
    let gone = |_| "the file is gone".to_owned();
    if tokio::fs::canonicalize(path).await.map_err(gone)? != path {
        return Err("a symlink has taken the file's place".to_owned());
    }
    let metadata = tokio::fs::symlink_metadata(path).await.map_err(gone)?;
    if !metadata.is_file() {
        return Err("it is no file any more".to_owned());
    }
    Ok(Stamp::of(&metadata))
}

/// Of the first `length` bytes.
async fn hash(path: &Path, length: u64) -> Option<String> {
    let mut file = tokio::fs::File::open(path).await.ok()?.take(length);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer).await.ok()? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Some(hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
