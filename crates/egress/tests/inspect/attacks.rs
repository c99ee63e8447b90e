//! Attempts to get a secret out, or to another host, by odd requests and odd answers. Each row is bytes on the wire.

use super::*;

/// The first lines of the requests that a server got.
fn firsts(server: &Server) -> Vec<String> {
    let seen = server.seen.lock().expect("unpoisoned");
    seen.iter().map(|request| request.lines().next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn no_request_hides_another_one() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    let key = ground.variable("KEY");
    let own = format!("Host: a.example:{}", server.port);
    let hidden =
        format!("GET /hidden HTTP/1.1\r\nHost: b.example:{}\r\nx-api-key: {key}\r\n\r\n", server.port);
    let length = hidden.len();
    for head in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 4".to_owned(),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding: identity".to_owned(),
        "Transfer-Encoding: xchunked".to_owned(),
        "Transfer-Encoding : chunked".to_owned(),
        "Transfer-Encoding:\x0bchunked".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x".to_owned(),
        format!("Content-Length: 0\r\nContent-Length: {length}"),
        format!("Content-Length: 0, {length}"),
        format!("Content-Length: +{length}"),
        "Content-Length: 0\r\n Folded: 1".to_owned(),
        "Content-Length: 0\nBare: 1".to_owned(),
        "X: a\rTransfer-Encoding: chunked".to_owned(),
        "X: a\0b".to_owned(),
        "Connection: content-length\r\nContent-Length: 0".to_owned(),
        format!("Connection: content-length\r\nContent-Length: {length}"),
        "Expect: 100-continue\r\nContent-Length: 0".to_owned(),
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings"
            .to_owned(),
    ] {
        let before = firsts(&server).len();
        let request = format!("POST /first HTTP/1.1\r\n{own}\r\n{head}\r\n\r\n0\r\n\r\n{hidden}");
        let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let _ = stream.shutdown().await;
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers).await;
        let new = firsts(&server)[before..].to_vec();
        // The server sees what the proxy sees: one request, or none.
        assert!(new.len() <= 1 && !new.iter().any(|line| line.contains("hidden")), "{head:?}: {new:?}");
        assert!(!server.seen().contains(VALUE), "{head:?}");
    }
}

#[tokio::test]
async fn every_request_on_its_way_names_its_own_host_once() {
    let (tls, trust) = outside();
    let (server, plain) = (Server::start(Some(tls), mirror), Server::start(None, mirror));
    let ground = Ground::new([server.port, plain.port], trust);
    for line in
        ["Connection: host", "Connection: close, Host", "Connection: host\r\nX-Forwarded-Host: b.example"]
    {
        let request = get("a.example", server.port, "/", line);
        ground.ask("a.example", server.port, &request).await;
        let url = format!("http://d.example:{}/", plain.port);
        let request = get("d.example", plain.port, &url, &format!("{}\r\n{line}", ground.authorization));
        let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        message(&mut stream).await.expect("an answer");
    }
    for (server, host) in [(server, "a.example"), (plain, "d.example")] {
        let seen = server.seen();
        let named: Vec<&str> =
            seen.lines().filter(|line| line.to_ascii_lowercase().starts_with("host:")).collect();
        assert_eq!(named.len(), firsts(&server).len(), "{seen}");
        assert!(named.iter().all(|line| line.contains(host)), "{named:?}");
    }
}

#[tokio::test]
async fn one_connection_to_the_proxy_reaches_each_host_by_itself() {
    let one = Server::start(None, |_| "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none".to_owned());
    let other = Server::start(None, |_| "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother".to_owned());
    let ground = Ground::new([one.port, other.port], outside().1);
    let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
    for (port, body) in [(one.port, "one"), (other.port, "other"), (one.port, "one"), (1, "is not in")] {
        let url = format!("http://d.example:{port}/");
        stream.write_all(get("d.example", port, &url, &ground.authorization).as_bytes()).await.expect("sent");
        let answer = message(&mut stream).await.expect("an answer");
        assert!(answer.contains(body), "{port}: {answer}");
    }
}

#[tokio::test]
async fn a_placeholder_in_chunks_goes_to_no_other_host_wherever_it_is_cut() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    let key = ground.variable("KEY");
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let whole = |parts: &[&str]| parts.iter().map(|part| chunk(part)).collect::<String>();
    let letters: Vec<String> = key.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let mut bodies: Vec<String> =
        (1..key.len()).map(|at| whole(&["before ", &key[..at], &key[at..], " after"])).collect();
    bodies.push(whole(&letters));
    // Ends of chunks and what is behind a body are not passed on.
    let harmless = [format!("1;x={key}\r\na\r\n"), String::new()];
    let mut left = bodies.len();
    for (body, trailer) in
        bodies.iter().map(|body| (body, "")).chain(harmless.iter().map(|body| (body, "Trailer")))
    {
        let trailers = if trailer.is_empty() { String::new() } else { format!("X-Key: {key}\r\n") };
        let head =
            format!("POST / HTTP/1.1\r\nHost: b.example:{}\r\nTransfer-Encoding: chunked", server.port);
        let mut stream = ground.tls("b.example", "b.example", server.port).await.expect("TLS");
        let _ = stream.write_all(format!("{head}\r\n\r\n{body}0\r\n{trailers}\r\n").as_bytes()).await;
        let answer = message(&mut stream).await.expect("an answer");
        assert_eq!(answer.starts_with("HTTP/1.1 403"), left > 0, "{body:?}: {answer}");
        left = left.saturating_sub(1);
    }
    // Without the borders of chunks.
    let sent: String =
        server.seen().split("\r\n").filter(|line| usize::from_str_radix(line, 16).is_err()).collect();
    assert!(!sent.contains(&key) && !server.seen().contains(VALUE));
}

/// The key of the request, in ways that the request's path names.
fn repeat(request: &str) -> String {
    let key = key_in(request);
    let number = |after: &str| {
        request
            .split_once(after)
            .and_then(|(_, rest)| rest.split([' ', '-', '\r']).next()?.parse::<usize>().ok())
    };
    if let Some(at) = number("GET /cut/") {
        let (one, other) = key.split_at(at.min(key.len()));
        return format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{other}\r\n0\r\nX-Key: {key}\r\n\r\n",
            one.len(),
            other.len()
        );
    }
    if request.starts_with("GET /range") {
        let lower = request.to_ascii_lowercase();
        let from = lower
            .split_once("range: bytes=")
            .and_then(|(_, rest)| rest.split('-').next()?.parse::<usize>().ok());
        return match from {
            Some(from) => {
                let part = &key[from..(from + 8).min(key.len())];
                format!("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n\r\n{part}", part.len())
            }
            None => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{key}", key.len()),
        };
    }
    match request.split(' ').nth(1).unwrap_or_default() {
        "/reason" => format!("HTTP/1.1 200 {key}\r\nContent-Length: 0\r\n\r\n"),
        "/early" => format!(
            "HTTP/1.1 103 Early Hints\r\nLink: <{key}>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        ),
        "/location" => {
            format!("HTTP/1.1 302 Found\r\nLocation: https://c.example/?{key}\r\nContent-Length: 0\r\n\r\n")
        }
        "/name" => format!("HTTP/1.1 200 OK\r\n{key}: 1\r\nContent-Length: 0\r\n\r\n"),
        "/twice" => {
            format!("HTTP/1.1 200 OK\r\nX: {key}{key}\r\nContent-Length: {}\r\n\r\n{key}{key}", 2 * key.len())
        }
        "/gzip" => {
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{key}", key.len())
        }
        "/coded" => format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{:x}\r\n{key}\r\n0\r\n\r\n",
            key.len()
        ),
        "/old" => format!("HTTP/1.0 200 OK\r\n\r\n{key}"),
        "/long" => format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{key}"),
        "/error" => format!(
            "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer {key}\r\nContent-Length: {}\r\n\r\n{key}",
            key.len()
        ),
        _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{key}", key.len()),
    }
}

#[tokio::test]
async fn a_secret_comes_back_by_no_odd_answer() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), repeat);
    let ground = Ground::new([server.port, server.port], trust);
    let key = ground.variable("KEY");
    let mut paths: Vec<String> = (0..=VALUE.len()).map(|at| format!("/cut/{at}")).collect();
    for path in [
        "/reason",
        "/early",
        "/location",
        "/name",
        "/twice",
        "/gzip",
        "/coded",
        "/old",
        "/long",
        "/error",
        "/range",
        "/",
    ] {
        paths.push(path.to_owned());
    }
    let before = server.seen().matches(VALUE).count();
    for path in &paths {
        let request = get("a.example", server.port, path, &format!("x-api-key: {key}\r\nConnection: close"));
        let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        // Without the borders of chunks.
        let joined: String =
            text.split("\r\n").filter(|line| usize::from_str_radix(line, 16).is_err()).collect();
        let value = VALUE.to_ascii_lowercase();
        assert!(!text.contains(&value) && !joined.contains(&value), "{path}: {text}");
    }
    assert_eq!(
        server.seen().matches(VALUE).count() - before,
        paths.len(),
        "the key did not arrive each time"
    );
}

#[tokio::test]
async fn parts_of_an_answer_do_not_make_up_a_secret() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), repeat);
    let ground = Ground::new([server.port, server.port], trust);
    let key = ground.variable("KEY");
    let mut joined = String::new();
    for from in (0..VALUE.len()).step_by(8) {
        let header = format!("x-api-key: {key}\r\nRange: bytes={from}-{}\r\nIf-Range: \"x\"", from + 7);
        let answer =
            ground.ask("a.example", server.port, &get("a.example", server.port, "/range", &header)).await;
        joined.push_str(answer.split_once("\r\n\r\n").expect("a body").1);
    }
    assert!(!joined.contains(VALUE) && joined.contains(&key), "{joined}");
}

#[tokio::test]
async fn a_host_that_is_looked_into_speaks_no_other_version() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    for preface in
        ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /\r\n", "GET / HTTP/3.0\r\n\r\n", "\r\n\r\n\x16\x03\x01"]
    {
        let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
        stream.write_all(preface.as_bytes()).await.expect("sent");
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{preface:?}: {text}");
    }
    assert_eq!(server.seen(), "");
    // A client that speaks HTTP/2 alone is refused in the handshake.
    let stream = ground.tunnel("a.example", server.port).await;
    let own: Vec<_> = CertificateDer::pem_file_iter(ground.variable("NODE_EXTRA_CA_CERTS"))
        .expect("a file")
        .flatten()
        .collect();
    let mut config = (*client(&own)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("a.example").expect("a name");
    assert!(TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_err());
}
