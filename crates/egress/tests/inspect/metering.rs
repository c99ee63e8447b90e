//! Requests and answers of models are metered.

use super::*;

fn stream(_: &str) -> String {
    let events = [
        r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":11,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello there."}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":4}}"#,
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The beginning of a stream that does not end.
fn endless(request: &str) -> String {
    let whole = stream(request);
    let cut = whole.find("data: {\"type\":\"message_delta\"").expect("an event");
    whole[..cut].replace("Content-Length", "X-Length")
}

#[tokio::test]
async fn answers_of_models_are_metered_with_tls_and_without() {
    let (tls, trust) = outside();
    let (server, plain) = (Server::start(Some(tls), stream), Server::start(None, stream));
    let ground = Ground::new([server.port, plain.port], trust);
    let answer = ground.ask("a.example", server.port, &get("a.example", server.port, "/", "a: b")).await;
    assert!(answer.ends_with("\"output_tokens\":4}}\n\n"), "{answer}");
    // A server of this machine, which programs do not use a proxy for.
    let redirects = ground.proxy.redirects().to_vec();
    assert_eq!(redirects.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [plain.port]);
    let mut direct = TcpStream::connect(("127.0.0.1", redirects[0].1)).await.expect("a connection");
    let request = get("localhost", plain.port, "/", "Connection: close");
    direct.write_all(request.as_bytes()).await.expect("sent");
    let answer = message(&mut direct).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let metered = ground.metered.borrow().clone();
    assert_eq!(
        (metered.input_tokens, metered.output_tokens, metered.requests, metered.estimated),
        (22, 8, 2, 0)
    );
    assert_eq!(metered.models, ["m"]);
}

#[tokio::test]
async fn a_stream_is_cut_off_in_its_middle_and_nothing_more_is_asked() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), endless);
    let mut ground = Ground::new([server.port, server.port], trust);
    let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
    let request = get("a.example", server.port, "/", "a: b");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let known = ground.metered.wait_for(|metered| metered.output_tokens == 3).await.expect("a meter").clone();
    assert_eq!((known.input_tokens, known.estimated), (11, 1));
    ground.cut.send_replace(true);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(String::from_utf8_lossy(&rest).contains("Hello there."));
    let answer = ground.ask("a.example", server.port, &request).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("budget"), "{answer}");
    assert_eq!(ground.metered.borrow().requests, 1);
}

#[tokio::test]
async fn a_host_that_is_not_metered_is_cut_off_too() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, 1], trust);
    let mut tunnel = ground.tunnel("d.example", server.port).await;
    ground.cut.send_replace(true);
    assert_eq!(tunnel.read(&mut [0]).await.unwrap_or(0), 0, "a tunnel under way");
    let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
    let request = format!("CONNECT d.example:{} HTTP/1.1\r\n{}\r\n\r\n", server.port, ground.authorization);
    stream.write_all(request.as_bytes()).await.expect("sent");
    let answer = message(&mut stream).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("budget"), "{answer}");
}

const ASKS: &str = r#"{"model":"m","messages":[{"role":"user","content":"Say hello, please."}]}"#;

fn ask_model(host: &str, port: u16) -> String {
    let length = ASKS.len();
    format!(
        "POST /v1/messages HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{ASKS}"
    )
}

#[tokio::test]
async fn requests_that_are_broken_off_before_their_answers_count() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), |_| String::new());
    let mut ground = Ground::new([server.port, server.port], trust);
    let tokens = ASKS.len().div_ceil(4) as u64;
    for number in 1..=4 {
        let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
        stream.write_all(ask_model("a.example", server.port).as_bytes()).await.expect("sent");
        let seen =
            ground.metered.wait_for(|metered| metered.requests == number).await.expect("a meter").clone();
        assert_eq!((seen.input_tokens, seen.estimated), (number * tokens, number));
        // Half of them say that they leave, and half are gone.
        if number % 2 == 0 {
            let _ = stream.shutdown().await;
        }
    }
    ground.cut.send_replace(true);
    let answer = ground.ask("a.example", server.port, &ask_model("a.example", server.port)).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let seen = ground.metered.borrow().clone();
    assert_eq!((seen.requests, seen.input_tokens), (4, 4 * tokens));
}

#[tokio::test]
async fn a_whole_answer_replaces_the_estimate_of_its_request() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), |_| {
        let body = r#"{"choices":[{"message":{"content":"Hello."}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    });
    let mut ground = Ground::new([server.port, server.port], trust);
    ground.ask("a.example", server.port, &ask_model("a.example", server.port)).await;
    let exact = |metered: &Metered| metered.requests == 1 && metered.estimated == 0;
    let seen = ground.metered.wait_for(exact).await.expect("a meter").clone();
    assert_eq!((seen.input_tokens, seen.output_tokens, seen.unread), (3, 2, 0));
}
