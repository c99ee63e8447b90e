//! Messages of clients and origins go through, also where the HTTP library is strict about them. Each case is tried without TLS, where
//! every host is looked at, and with TLS, for a host with a secret.

use super::*;
use std::time::{Duration, Instant};

type Stream = Box<dyn Both>;
trait Both: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Both for S {}

/// A server that plays this for each connection.
fn play<Played: Future<Output = ()> + Send + 'static>(
    tls: Option<Arc<ServerConfig>>,
    played: impl Fn(Stream) -> Played + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("not waiting");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    ground::task::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream: Stream = match &tls {
                Some(tls) => match TlsAcceptor::from(tls.clone()).accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(_) => continue,
                },
                None => Box::new(stream),
            };
            ground::task::spawn(played(stream));
        }
    });
    port
}

/// Both ways to a server: a stream of the program's, and the target's beginning.
async fn ways<Played: Future<Output = ()> + Send + 'static>(
    played: impl Fn(Stream) -> Played + Send + Copy + 'static,
) -> Vec<(Ground, Stream, String)> {
    let (tls, trust) = outside();
    let (secret, plain) = (play(Some(tls), played), play(None, played));
    let ground = Ground::new([secret, plain], trust.clone());
    let stream = ground.tls("a.example", "a.example", secret).await.expect("TLS");
    let by_tls = (ground, Box::new(stream) as Stream, format!("/ Host: a.example:{secret}"));
    let ground = Ground::new([secret, plain], trust);
    let stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
    let host = format!("d.example:{plain}");
    let by_proxy = (ground, Box::new(stream) as Stream, format!("http://{host}/ Host: {host}"));
    vec![by_tls, by_proxy]
}

/// A request with this method and the rest of its target, and more lines.
fn request(ground: &Ground, place: &str, method: &str, rest: &str, lines: &str) -> String {
    let (target, host) = place.split_once(' ').expect("a target and a host");
    format!("{method} {target}{rest} HTTP/1.1\r\n{host}\r\n{}\r\n{lines}\r\n", ground.authorization)
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte).await, Ok(1)) {
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn whole(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_body_that_waits_is_sent_when_the_host_says_so() {
    async fn refuses(mut stream: Stream) {
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno").await.expect("sent");
        // Nothing of the body comes.
        assert_eq!(whole(&mut stream).await, "");
    }
    for (ground, mut stream, place) in ways(refuses).await {
        let lines = "Expect: 100-continue\r\nContent-Length: 4\r\n";
        stream.write_all(request(&ground, &place, "PUT", "", lines).as_bytes()).await.expect("sent");
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{place}: {answer}");
    }
    async fn takes(mut stream: Stream) {
        head(&mut stream).await;
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        stream.write_all(early.as_bytes()).await.expect("sent");
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.expect("a body");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n").await.expect("sent");
        stream.write_all(&body).await.expect("sent");
        whole(&mut stream).await;
    }
    async fn is_silent(mut stream: Stream) {
        head(&mut stream).await;
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.expect("a body");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.expect("sent");
        whole(&mut stream).await;
    }
    let (told, silent) = (ways(takes).await, ways(is_silent).await);
    for (is_told, (ground, mut stream, place)) in
        told.into_iter().map(|way| (true, way)).chain(silent.into_iter().map(|way| (false, way)))
    {
        let lines = "Expect: 100-continue\r\nContent-Length: 4\r\n";
        let begin = Instant::now();
        stream.write_all(request(&ground, &place, "PUT", "", lines).as_bytes()).await.expect("sent");
        if is_told {
            let early = head(&mut stream).await;
            assert!(early.starts_with("HTTP/1.1 103") && early.contains("</a>"), "{place}: {early}");
        }
        assert_eq!(head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n", "{place}");
        assert!(is_told || begin.elapsed() >= Duration::from_millis(900));
        stream.write_all(b"body").await.expect("sent");
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{place}: {answer}");
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_body_is_delivered() {
    async fn refuses(mut stream: Stream) {
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno").await.expect("sent");
        let _ = stream.shutdown().await;
    }
    for _ in 0..10 {
        for (ground, stream, place) in ways(refuses).await {
            let (mut answers, mut stream) = tokio::io::split(stream);
            let lines = "Content-Length: 30000000\r\n";
            stream.write_all(request(&ground, &place, "PUT", "", lines).as_bytes()).await.expect("sent");
            // A client that reads while it sends.
            let sending = ground::task::spawn(async move {
                let piece = vec![b'x'; 100_000];
                while stream.write_all(&piece).await.is_ok() {}
            });
            let answer = head(&mut answers).await;
            assert!(answer.starts_with("HTTP/1.1 413"), "{place}: {answer}");
            sending.abort();
        }
    }
}

#[tokio::test]
async fn targets_that_curl_sends_go_through() {
    async fn mirrors(mut stream: Stream) {
        let request = head(&mut stream).await;
        let first = request.lines().next().unwrap_or_default();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{first}", first.len());
        stream.write_all(answer.as_bytes()).await.expect("sent");
        whole(&mut stream).await;
    }
    for (rest, expected) in [
        ("s?q=created:>2024", "s?q=created:%3E2024"),
        ("s?q=\"<a>\"", "s?q=%22%3Ca%3E%22"),
        ("<a>`b", "%3Ca%3E%60b"),
        ("{a}|b[1]^\\?c={d}|[e]^\\'", "{a}|b[1]^\\?c={d}|[e]^\\'"),
        ("%zz?%zz", "%zz?%zz"),
    ] {
        for (ground, mut stream, place) in ways(mirrors).await {
            let lines = "Connection: close\r\n";
            stream.write_all(request(&ground, &place, "GET", rest, lines).as_bytes()).await.expect("sent");
            let answer = whole(&mut stream).await;
            assert!(answer.ends_with(&format!("GET /{expected} HTTP/1.1")), "{place}{rest}: {answer}");
        }
    }
    // A request that can't be passed on is answered with a line of ours, and gets a row.
    for rest in ["a b", "\u{1}", &"x".repeat(70_000)] {
        for (ground, mut stream, place) in ways(mirrors).await {
            stream.write_all(request(&ground, &place, "GET", rest, "").as_bytes()).await.expect("sent");
            let answer = whole(&mut stream).await;
            assert!(
                answer.starts_with("HTTP/1.1 4") && answer.contains("\r\n\r\nsheepdog: the request"),
                "{answer}"
            );
            assert_eq!(ground.refused().len(), 1, "{:?}", ground.refused());
        }
    }
}

#[tokio::test]
async fn the_second_request_of_a_connection_is_read_as_the_first_one() {
    async fn mirrors(mut stream: Stream) {
        loop {
            let request = head(&mut stream).await;
            if request.is_empty() {
                return;
            }
            let mut body = vec![0; if request.starts_with("PUT") { 9 } else { 0 }];
            stream.read_exact(&mut body).await.expect("a body");
            let first =
                format!("{} {}", request.lines().next().unwrap_or_default(), String::from_utf8_lossy(&body));
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{first}", first.len());
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
    }
    for (ground, mut stream, place) in ways(mirrors).await {
        let lines = "Content-Length: 9\r\n";
        let one = format!("{}GET /<a>\r", request(&ground, &place, "PUT", "<1>", lines));
        let two = format!("{}GET /<b>\r", request(&ground, &place, "PUT", "<2>", lines));
        // Both at once, as a pipeline.
        stream.write_all(format!("{one}{two}").as_bytes()).await.expect("sent");
        for number in [1, 2] {
            let answer = message(&mut stream).await.expect("an answer");
            assert!(answer.contains(&format!("/%3C{number}%3E HTTP/1.1 GET /<")), "{place}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_host_that_ends_a_kept_connection_is_asked_anew_for_what_changes_nothing() {
    /// Answers as if the connection were kept, reads the next request, and closes.
    async fn leaves(mut stream: Stream) {
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.expect("sent");
        head(&mut stream).await;
    }
    for (method, status) in [("GET", "200"), ("OPTIONS", "200"), ("POST", "502"), ("DELETE", "502")] {
        for (ground, mut stream, place) in ways(leaves).await {
            // Without TLS each request has a connection of its own.
            let status = if place.starts_with("http") { "200" } else { status };
            for (method, expected) in [("GET", "200"), (method, status)] {
                let text = request(&ground, &place, method, "", "");
                stream.write_all(text.as_bytes()).await.expect("sent");
                let answer = message(&mut stream).await.expect("an answer");
                assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{method} {place}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_host_is_told_that_the_program_has_left() {
    async fn is_silent(mut stream: Stream) {
        let request = head(&mut stream).await;
        if request.contains("/half") {
            tokio::time::sleep(Duration::from_millis(1200)).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").await.expect("sent");
            return;
        }
        if request.contains("/begun") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n").await.expect("sent");
        }
        ASKED.add_permits(1);
        whole(&mut stream).await;
        TOLD.add_permits(1);
    }
    static ASKED: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);
    static TOLD: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);
    for rest in ["", "begun"] {
        for (ground, mut stream, place) in ways(is_silent).await {
            stream.write_all(request(&ground, &place, "GET", rest, "").as_bytes()).await.expect("sent");
            if rest == "begun" {
                head(&mut stream).await;
            }
            ASKED.acquire().await.expect("open").forget();
            drop(stream);
            let told = tokio::time::timeout(Duration::from_secs(20), TOLD.acquire()).await;
            told.expect("the host is told").expect("open").forget();
        }
    }
    // One that only ends its half gets its answer.
    for (ground, mut stream, place) in ways(is_silent).await {
        stream.write_all(request(&ground, &place, "GET", "half", "").as_bytes()).await.expect("sent");
        stream.shutdown().await.expect("an end");
        let answer = whole(&mut stream).await;
        assert!(answer.ends_with("\r\n\r\nlate"), "{place}: {answer}");
    }
}

#[tokio::test]
async fn header_lines_that_clients_take_go_through() {
    async fn is_odd(mut stream: Stream) {
        head(&mut stream).await;
        let lines = "X-Folded: one\r\n  two\r\nX-Space : three\r\nno colon here\r\nX-Bad\u{1}Name: 4\r\nX-Good: five\r\n";
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\nConnection: close\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.expect("sent");
    }
    for (ground, mut stream, place) in ways(is_odd).await {
        let lines = "Connection: close\r\n";
        stream.write_all(request(&ground, &place, "GET", "", lines).as_bytes()).await.expect("sent");
        let answer = whole(&mut stream).await.to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 200") && answer.ends_with("ok"), "{place}: {answer}");
        let folded = answer.lines().find(|line| line.starts_with("x-folded: ")).unwrap_or_default();
        assert_eq!(folded.split_whitespace().collect::<Vec<_>>(), ["x-folded:", "one", "two"], "{answer}");
        assert!(answer.contains("x-space: three") && answer.contains("x-good: five"), "{answer}");
    }
}

#[tokio::test]
async fn many_header_lines_go_through_and_too_many_are_told() {
    async fn has_many(mut stream: Stream) {
        let request = head(&mut stream).await;
        let count = request.lines().filter(|line| line.starts_with("x-many")).count();
        let number = if request.contains("/endless") { 2500 } else { 1000 };
        let lines: String = (0..number).map(|number| format!("Set-Cookie: c{number}=1\r\n")).collect();
        let answer =
            format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 4\r\nConnection: close\r\n\r\n{count:4}");
        let _ = stream.write_all(answer.as_bytes()).await;
        whole(&mut stream).await;
    }
    let many = |count: usize| -> String {
        (0..count)
            .map(|number| format!("X-Many-{number}: 1\r\n"))
            .chain(["Connection: close\r\n".to_owned()])
            .collect()
    };
    for (rest, sent, expected) in [
        ("", 1000, "1000"),
        ("endless", 1, "its answer has more than 2000 header lines, or a head of more than 400 KB\n"),
        ("", 2500, "sheepdog: the request has more than 2000 header lines, or a head of more than 400 KB\n"),
    ] {
        for (ground, mut stream, place) in ways(has_many).await {
            let request = request(&ground, &place, "GET", rest, &many(sent));
            stream.write_all(request.as_bytes()).await.expect("sent");
            let answer = whole(&mut stream).await;
            assert!(answer.ends_with(expected), "{place}: {}", &answer[answer.len().saturating_sub(300)..]);
        }
    }
}

#[tokio::test]
async fn an_answer_keeps_its_length() {
    async fn has_length(mut stream: Stream) {
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1234567\r\n\r\n").await.expect("sent");
        whole(&mut stream).await;
    }
    for method in ["HEAD", "GET"] {
        for (ground, mut stream, place) in ways(has_length).await {
            stream.write_all(request(&ground, &place, method, "", "").as_bytes()).await.expect("sent");
            let answer = head(&mut stream).await.to_ascii_lowercase();
            assert!(answer.contains("content-length: 1234567\r\n"), "{place}: {answer}");
        }
    }
}
