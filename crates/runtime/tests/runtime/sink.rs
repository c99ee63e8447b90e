//! An HTTP server that receives uploads.

use super::support::PATIENCE;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// An HTTP server whose answer to a PUT depends on the first part of the path:
///
/// - `/fail-N/...` answers 500 N times.
/// - `/slow/...` answers slowly.
/// - `/deny/...` answers 403.
/// - `/mute/...` never answers.
/// - `/later/...` asks once to retry in a second.
/// - `/hold/...` delays its first answer until the test releases it.
#[derive(Clone, Default)]
pub(crate) struct Sink {
    pub received: Arc<Mutex<HashMap<String, Vec<Received>>>>,
    pub port: u16,
    pub release: Arc<Notify>,
    came: Arc<Notify>,
    open: Arc<Mutex<(usize, usize)>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub at: Instant,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Sink {
    pub(crate) async fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = Sink { port: listener.local_addr().unwrap().port(), ..Sink::default() };
        let accepting = sink.clone();
        ground::task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                ground::task::spawn(accepting.clone().serve(stream));
            }
        });
        sink
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received.lock().unwrap();
        received
            .get(&format!("/{path}"))
            .into_iter()
            .flatten()
            .map(|received| received.body.clone())
            .collect()
    }

    /// Waits until the condition holds. It is checked after each upload.
    pub(crate) async fn until(&self, holds: impl Fn(&Sink) -> bool) {
        let held = async {
            loop {
                let came = self.came.notified();
                if holds(self) {
                    return;
                }
                came.await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.expect("what is waited for comes to the sink");
    }

    /// Largest number of requests that were open at a time.
    pub(crate) fn most_open(&self) -> usize {
        self.open.lock().unwrap().1
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            {
                let mut open = self.open.lock().unwrap();
                open.0 += 1;
                open.1 = open.1.max(open.0);
            }
            let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
            let headers: HashMap<String, String> = head
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).await.is_err() {
                return;
            }
            let before = {
                let mut received = self.received.lock().unwrap();
                let list = received.entry(path.clone()).or_default();
                list.push(Received { at: Instant::now(), headers, body });
                list.len()
            };
            self.came.notify_waiters();
            let mode = path.split('/').nth(1).unwrap_or_default();
            let redirect = mode.strip_prefix("redirect-").map(|status| {
                let rest = path.splitn(3, '/').nth(2).unwrap_or_default();
                format!("{status} Elsewhere\r\nLocation: /home/{rest}")
            });
            let status = match mode.split_once('-') {
                _ if redirect.is_some() => redirect.as_deref().unwrap(),
                Some(("fail", times)) if before <= times.parse().unwrap() => "500 Internal Server Error",
                _ if mode == "deny" => "403 Forbidden",
                _ if mode == "later" && before == 1 => "503 Service Unavailable\r\nRetry-After: 1",
                _ => "200 OK",
            };
            match mode {
                "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
                "mute" => std::future::pending().await,
                "hold" if before == 1 => self.release.notified().await,
                _ => {}
            }
            self.open.lock().unwrap().0 -= 1;
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The answer to an upload request: a URL of the sink, made of `prefix` and the file's own path.
pub(crate) fn upload_response(request: &Value, sink: &Sink, prefix: &str) -> Value {
    let path = request["filename"].as_str().unwrap();
    json!({"message_type": "artifact_upload_response_message", "filename": request["filename"], "filepath": request["filepath"],
           "presigned_url": sink.url(&format!("{prefix}{path}?signature=secret")), "content_type": "text/plain"})
}
