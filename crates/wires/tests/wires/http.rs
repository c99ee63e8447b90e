//! The HTTP client against real sockets on loopback.
#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wires::http::{Body, FileBody, HttpClient, HttpError, HttpOptions, MAX_HEADER_LINES, Request, Waiting};

/// Serves each connection by one call of the function. Returns the base URL.
async fn serve<F, S>(on_connection: F) -> String
where
    F: Fn(TcpStream, SocketAddr) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    ground::task::spawn(async move {
        while let Ok((socket, from)) = listener.accept().await {
            ground::task::spawn(on_connection(socket, from));
        }
    });
    url
}

/// The head of the next request, and the part of its body that came with it.
async fn read_head(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).unwrap(), body));
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

fn file_body(path: &std::path::Path, len: u64) -> Body {
    let file = std::sync::Arc::new(std::fs::File::open(path).unwrap());
    Body::File(FileBody { file, len, witness: None })
}

fn client() -> HttpClient {
    HttpClient::new(HttpOptions::default())
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn keeps_a_connection_and_opens_another_when_fresh_or_renewed() {
    let url = serve(|mut socket, from| async move {
        while read_head(&mut socket).await.is_some() {
            let port = from.port().to_string();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{port}", port.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let client = client();
    let port = async |client: &HttpClient| client.get(&url, vec![]).await.unwrap().bytes(100).await.unwrap();
    let first = port(&client).await;
    assert_eq!(first, port(&client).await);
    assert_ne!(first, port(&client.fresh()).await);
    assert_eq!(first, port(&client).await);
    let clone = client.clone();
    client.renew();
    assert_ne!(first, port(&clone).await);
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_not_used_again() {
    let (closed, mut heard) = ground::mpsc::unbounded_channel();
    let url = serve(move |mut socket, _| {
        let closed = closed.clone();
        async move {
            read_head(&mut socket).await;
            socket.write_all(OK).await.unwrap();
            drop(socket);
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = client();
    for _ in 0..50 {
        let mut response = client.get(&url, vec![]).await.unwrap();
        assert_eq!(response.bytes(10).await.unwrap(), b"ok");
        heard.recv().await.unwrap();
    }
}

#[tokio::test]
async fn uploads_a_file_from_disk_with_its_length() {
    let url = serve(|mut socket, _| async move {
        let (head, mut body) = read_head(&mut socket).await.unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("put /into?signature=abc http/1.1"), "{head}");
        assert!(head.contains("content-length: 300000\r\n") && !head.contains("chunked"), "{head}");
        assert!(head.contains("content-type: image/png\r\n"));
        while body.len() < 300_000 {
            assert_ne!(socket.read_buf(&mut body).await.unwrap(), 0);
        }
        assert!(body.iter().all(|byte| *byte == 7));
        socket.write_all(OK).await.unwrap();
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // The file is longer than promised, and only the promised bytes are sent.
    file.write_all(&[7; 300_100]).unwrap();
    let body = file_body(file.path(), 300_000);
    let headers = vec![("content-type".to_owned(), "image/png".to_owned())];
    let response = client().put(&format!("{url}/into?signature=abc"), headers, body).await.unwrap();
    assert_eq!(response.success().await.unwrap().bytes(10).await.unwrap(), b"ok");
}

#[tokio::test]
async fn says_that_the_file_is_at_fault() {
    let url = serve(|mut socket, _| async move {
        let mut body = Vec::new();
        while socket.read_buf(&mut body).await.unwrap_or(0) > 0 {}
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"short").unwrap();
    let body = file_body(file.path(), 100);
    let error = client().put(&url, vec![], body).await.unwrap_err();
    assert!(matches!(&error, HttpError::File { problem, .. } if problem.contains("shorter")), "{error:?}");
}

#[tokio::test]
async fn an_upload_may_be_slow_but_not_stuck() {
    // More than the kernel's buffers hold.
    const BYTES: usize = 48 << 20;
    let url = serve(|mut socket, _| async move {
        let (head, body) = read_head(&mut socket).await.unwrap();
        if head.contains("/stuck") {
            std::future::pending::<()>().await;
        }
        let mut left = BYTES - body.len();
        let mut piece = vec![0; 1 << 20];
        while left > 0 {
            // The transfer takes longer than the limit in total, but no single step does.
            tokio::time::sleep(Duration::from_millis(30)).await;
            left -= socket.read(&mut piece).await.unwrap();
        }
        socket.write_all(OK).await.unwrap();
    })
    .await;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES as u64).unwrap();
    let request = |path: &str, limit: u64| Request {
        body: file_body(file.path(), BYTES as u64),
        response_timeout: Some(Duration::from_millis(limit)),
        ..Request::new("PUT", format!("{url}{path}"))
    };
    assert_eq!(client().send(request("/slow", 1200)).await.unwrap().status(), 200);
    let error = client().send(request("/stuck", 300)).await.unwrap_err();
    let expected = HttpError::Timeout { waiting_for: Waiting::Response, after: Duration::from_millis(300) };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_status_tells_its_body_and_retry_after() {
    let url = serve(|mut socket, _| async move {
        read_head(&mut socket).await;
        let answer = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nslow!";
        socket.write_all(answer).await.unwrap();
    })
    .await;
    let error = client().get(&url, vec![]).await.unwrap().success().await.unwrap_err();
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(error, HttpError::Status { status: 429, body: "slow!".into(), retry_after });
    assert_eq!(error.to_string(), "status 429: slow!");
}

#[tokio::test]
async fn tells_a_lost_connection_from_an_end() {
    for head in ["content-length: 100", "transfer-encoding: chunked"] {
        let url = serve(move |mut socket, _| async move {
            read_head(&mut socket).await;
            let body = if head.ends_with("chunked") { "5\r\nhello\r\n" } else { "hello" };
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
            socket.write_all(answer.as_bytes()).await.unwrap();
        })
        .await;
        let mut response = client().get(&url, vec![]).await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "hello");
        let error = response.chunk().await.unwrap_err();
        assert!(matches!(error, HttpError::Reset { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn times_out_before_the_head_and_between_chunks() {
    let url = serve(|mut socket, _| async move {
        let (head, _) = read_head(&mut socket).await.unwrap();
        if head.contains("/stall") {
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello").await.unwrap();
        }
        std::future::pending::<()>().await;
    })
    .await;
    let limit = Duration::from_millis(100);
    let silent = Request { response_timeout: Some(limit), ..Request::new("GET", format!("{url}/silent")) };
    let error = client().send(silent).await.unwrap_err();
    assert_eq!(error, HttpError::Timeout { waiting_for: Waiting::Response, after: limit });
    let stall = Request { idle_timeout: Some(limit), ..Request::new("GET", format!("{url}/stall")) };
    let mut response = client().send(stall).await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    let error = response.chunk().await.unwrap_err();
    assert_eq!(error, HttpError::Timeout { waiting_for: Waiting::Chunk, after: limit });
}

#[tokio::test]
async fn dropping_the_request_closes_the_socket() {
    let (closed, mut heard) = ground::mpsc::unbounded_channel();
    let url = serve(move |mut socket, _| {
        let closed = closed.clone();
        async move {
            let (head, _) = read_head(&mut socket).await.unwrap();
            if head.contains("/body") {
                socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello").await.unwrap();
            }
            closed.send("asked").unwrap();
            while socket.read(&mut [0; 100]).await.unwrap_or(0) > 0 {}
            closed.send("closed").unwrap();
        }
    })
    .await;
    let client = client();
    let asking = ground::task::spawn({
        let (client, url) = (client.clone(), url.clone());
        async move { client.get(&url, vec![]).await.map(|_| ()) }
    });
    assert_eq!(heard.recv().await, Some("asked"));
    asking.abort();
    assert_eq!(heard.recv().await, Some("closed"));
    let response = client.get(&format!("{url}/body"), vec![]).await.unwrap();
    assert_eq!(heard.recv().await, Some("asked"));
    drop(response);
    assert_eq!(heard.recv().await, Some("closed"));
}

#[tokio::test]
async fn tells_why_there_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let secret = format!("http://{free}/?signature=secret");
    let error = client().get(&secret, vec![]).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"));

    let plain = serve(|mut socket, _| async move {
        let _ = socket.read(&mut [0; 1000]).await;
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let error = client().get(&plain.replace("http:", "https:"), vec![]).await.unwrap_err();
    assert!(matches!(error, HttpError::Tls { .. }), "{error:?}");
}

#[tokio::test]
async fn refuses_what_can_not_be_sent_without_telling_secrets() {
    for url in ["nonsense", "ftp://127.0.0.1/", "http://"] {
        let error = client().get(url, vec![]).await.unwrap_err();
        assert!(matches!(error, HttpError::InvalidRequest { .. }), "{url}: {error:?}");
    }
    let headers = vec![("authorization".to_owned(), "Bearer hunter2\n".to_owned())];
    let error = client().get("http://127.0.0.1:1/", headers).await.unwrap_err();
    assert!(matches!(error, HttpError::InvalidRequest { .. }));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn follows_redirects_but_not_for_ever_and_not_with_the_key() {
    let other = serve(|mut socket, _| async move {
        let (head, _) = read_head(&mut socket).await.unwrap();
        let head = head.to_ascii_lowercase();
        assert!(!head.contains("hunter2"), "{head}");
        assert!(head.contains("accept: text/plain"), "{head}");
        socket.write_all(OK).await.unwrap();
    })
    .await;
    // Another port is another origin.
    let url = serve(move |mut socket, _| {
        let other = other.clone();
        async move {
            while let Some((head, _)) = read_head(&mut socket).await {
                let to = if head.contains("/away") { other.as_str() } else { "/again" };
                let answer =
                    format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    // No library knows that the last header is a secret.
    let headers = [
        ("authorization", "Bearer hunter2"),
        ("api-key", "hunter2"),
        ("x-tenant", "hunter2"),
        ("accept", "text/plain"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    assert_eq!(client().get(&format!("{url}/away"), headers).await.unwrap().status(), 200);
    let error = client().get(&format!("{url}/again"), vec![]).await.unwrap_err();
    assert!(matches!(error, HttpError::Redirect { .. }), "{error:?}");
}

#[tokio::test]
async fn reads_heads_that_other_clients_read() {
    let lines = |count: usize| (0..count).map(|number| format!("x-{number}: v\r\n")).collect::<String>();
    let heads = [
        lines(150),
        lines(MAX_HEADER_LINES - 1),
        "x-folded: a\r\n b\r\n".to_owned(),
        "x-spaced : a\r\n".to_owned(),
        "x two words: a\r\n".to_owned(),
        "words\r\n".to_owned(),
        format!("x-long: {}\r\n", "a".repeat(60_000)),
    ];
    for head in heads {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}content-length: 2\r\n\r\nok");
        let url = serve(move |mut socket, _| {
            let answer = answer.clone();
            async move {
                read_head(&mut socket).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        let mut response =
            client().get(&url, vec![]).await.unwrap_or_else(|error| panic!("{error}: {head:.50}"));
        assert_eq!(response.bytes(9).await.unwrap(), b"ok", "{head:.50}");
    }
}

#[tokio::test]
async fn unpacks_what_was_not_asked_for_packed() {
    const GZIP: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 215, 81, 40, 72, 76, 206, 78, 77, 1, 0,
        235, 161, 234, 8, 13, 0, 0, 0,
    ];
    const BROTLI: &[u8] = &[27, 12, 0, 248, 165, 200, 202, 82, 144, 65, 36, 169, 86, 46, 170, 83, 114];
    for (encoding, body) in [("gzip", GZIP), ("br", BROTLI)] {
        let url = serve(move |mut socket, _| async move {
            let (head, _) = read_head(&mut socket).await.unwrap();
            assert!(head.to_ascii_lowercase().contains("accept-encoding: identity"), "{head}");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.write_all(body).await.unwrap();
        })
        .await;
        let mut response = client().get(&url, vec![]).await.unwrap();
        assert_eq!(response.bytes(100).await.unwrap(), b"hello, packed", "{encoding}");
    }
}
