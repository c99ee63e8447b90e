//! Brings a file into the sandbox before a request runs; an archive is unpacked in place.

use super::data_url::{data_of, read_data};
use super::unzip::{UnzipLimits, unzip};
use super::wire::client_message::Downloadable;
use ground::os::{blocking, on_disk, write_piece};
use ground::percent;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio_tungstenite::tungstenite::http::StatusCode;
use wires::http::{HttpClient, HttpError};
use wires::watch::UNFINISHED_PREFIX;

/// Longest download.
const MAX_BYTES: u64 = 16 << 30;

static NEXT_PART: AtomicU64 = AtomicU64::new(0);

/// Downloads into `working_dir`, which is created when missing. Dropping the future stops the download and removes the partial
/// file.
///
/// # Errors
/// A text for the client; it begins with `Download failed: `.
pub async fn download(http: &HttpClient, wanted: &Downloadable) -> Result<(), String> {
    let failed = |problem: String| format!("Download failed: {problem}");
    let name = file_name(&wanted.download_url).map_err(|problem| failed(problem.to_owned()))?;
    let directory = PathBuf::from(&wanted.working_dir);
    let io_failed = |error: std::io::Error| failed(format!("{}: {error}", wanted.working_dir));
    let made = directory.clone();
    on_disk(move || std::fs::create_dir_all(made)).await.map_err(io_failed)?;
    let number = NEXT_PART.fetch_add(1, Ordering::Relaxed);
    let unfinished = format!("{UNFINISHED_PREFIX}{}-{number}", std::process::id());
    let aside = directory.join(format!("{unfinished}.unpacked"));
    let part = Part(directory.join(unfinished));
    fetch(http, &wanted.download_url, &part.0).await.map_err(failed)?;
    if !name.ends_with(".zip") {
        // A rename replaces a symlink of that name instead of writing through it.
        return on_disk(move || std::fs::rename(&part.0, directory.join(&name))).await.map_err(io_failed);
    }
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let stopped = stop.0.clone();
    let unpacked = blocking(move || {
        let done = unzip(&part.0, &directory, &aside, UnzipLimits::default(), &stopped);
        drop(part);
        done
    });
    match unpacked.await {
        Ok(done) => done.map_err(|problem| failed(format!("{name}: {problem}"))),
        Err(_) => Err(failed(format!("{name}: unpacking was interrupted"))),
    }
}

async fn fetch(http: &HttpClient, url: &str, path: &Path) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    // `create_new` never writes through a symlink.
    let path = path.to_owned();
    let new = || on_disk(move || OpenOptions::new().write(true).create_new(true).open(path).map(Arc::new));
    if let Some(rest) = data_of(url) {
        let data = read_data(rest)?;
        let file = new().await.map_err(words)?;
        return write_piece(&file, data.into()).await.map_err(words);
    }
    let response = http.get(url, Vec::new()).await.map_err(|error| error.to_string())?;
    let mut response = response.success().await.map_err(|error| match error {
        HttpError::Status { status, .. } => {
            let known = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
            format!("{status} {}", known.unwrap_or_default()).trim_end().to_owned()
        }
        other => other.to_string(),
    })?;
    let file = new().await.map_err(words)?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        bytes += chunk.len() as u64;
        if bytes > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes"));
        }
        write_piece(&file, chunk).await.map_err(words)?;
    }
    Ok(())
}

/// A partial file. It is removed when this is dropped, unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Removing fails when the file was renamed, as it should.
        let _ = std::fs::remove_file(&self.0);
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The last part of the URL's path, if it is a valid file name.
fn file_name(url: &str) -> Result<String, &'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = match data_of(path) {
        Some(rest) => rest,
        None => {
            let (_, path) = path.split_once("://").ok_or("the URL is neither http, https nor data")?;
            path.split_once('/').ok_or("the URL names no file")?.1
        }
    };
    let name = percent::decoded(path.rsplit('/').next().unwrap_or_default());
    match name.as_str() {
        "" => Err("the URL names no file"),
        "." | ".." => Err("the URL names a directory"),
        name if name.contains(['/', '\0']) => Err("the URL's file name leaves its directory"),
        name if name.len() > 255 => Err("the URL's file name is too long"),
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_only_the_last_part_of_the_url_names_the_file() {
        assert_eq!(file_name("https://h/a/b%20c.txt?sig=/../x#y").unwrap(), "b c.txt");
        assert_eq!(file_name("http://h/..a").unwrap(), "..a");
        assert_eq!(file_name("data:text/plain,a%20b?c#d").unwrap(), "plain,a b", "as clients expect it");
        for wrong in [
            "http://h",
            "http://h/",
            "http://h/a/..",
            "http://h/%2e%2e",
            "http://h/a%2fb",
            "http://h/a%00",
            "file",
            "http://h/?a=b",
            "http://h/%2E",
            "data:text/plain,a/%2e%2e",
            "data:,a%2fb",
        ] {
            file_name(wrong).expect_err(wrong);
        }
    }
}
