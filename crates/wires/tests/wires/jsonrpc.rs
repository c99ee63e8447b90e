//! The JSON-RPC client over a pipe in memory: order, bounds, and the ways a connection ends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report, in its helpers too")]

use ground::error::{Error, ErrorCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::Notify;
use wires::jsonrpc::{
    ByteSource, Client, Completion, Found, Handler, Noise, Refusal, StreamSink, StreamSource, Wire,
};

type Seen = Arc<Mutex<Vec<String>>>;

struct Recorder {
    seen: Seen,
    heard: Arc<Notify>,
    /// When set, the handler waits until this is notified.
    gate: Option<Arc<Notify>>,
}

impl Recorder {
    fn say(&self, what: String) {
        self.seen.lock().unwrap().push(what);
        self.heard.notify_one();
    }
}

impl Handler for Recorder {
    fn on_notification(&mut self, method: &str, params: &str) {
        self.say(format!("{method} {params}"));
    }
    fn on_request(&mut self, id: &str, method: &str, params: &str) {
        self.say(format!("{id}? {method} {params}"));
    }
    fn on_noise(&mut self, noise: Noise<'_>) {
        self.say(format!("{noise:?}"));
    }
    async fn ready(&mut self) {
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
    }
    async fn on_end(&mut self, cause: Error) -> Error {
        self.say("end".to_owned());
        cause
    }
}

struct Setup {
    client: Client,
    peer: DuplexStream,
    seen: Seen,
    heard: Arc<Notify>,
    wire: Wire,
}

fn connect(gate: Option<Arc<Notify>>, buffer: usize) -> Setup {
    connect_by(Wire::HEADERS, gate, buffer)
}

fn connect_by(wire: Wire, gate: Option<Arc<Notify>>, buffer: usize) -> Setup {
    let (ours, peer) = duplex(buffer);
    let (read, write) = split(ours);
    let seen = Seen::default();
    let heard = Arc::new(Notify::new());
    let recorder = Recorder { seen: seen.clone(), heard: heard.clone(), gate };
    let client = Client::start(StreamSource::new(read), StreamSink(write), wire, recorder);
    Setup { client, peer, seen, heard, wire }
}

impl Setup {
    async fn read_frame(&mut self) -> String {
        let mut decoder = self.wire.decoder();
        loop {
            if let Some(Found::Body(frame)) = decoder.next_found().unwrap() {
                return String::from_utf8(frame.to_vec()).unwrap();
            }
            let byte = self.peer.read_u8().await.unwrap();
            decoder.push(&[byte]);
        }
    }

    async fn say(&mut self, body: &str) {
        self.peer.write_all(&self.wire.encode(body)).await.unwrap();
    }

    async fn seen(&self, count: usize) -> Vec<String> {
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if seen.len() >= count {
                return seen;
            }
            self.heard.notified().await;
        }
    }
}

#[tokio::test]
async fn a_reply_settles_its_own_request() {
    let mut setup = connect(None, 4096);
    let (first, second) = (setup.client.clone(), setup.client.clone());
    let first = ground::task::spawn(async move { first.request("a", "{}", None).await });
    assert_eq!(setup.read_frame().await, r#"{"jsonrpc":"2.0","id":0,"method":"a","params":{}}"#);
    let second = ground::task::spawn(async move { second.request("b", "[1]", None).await });
    assert_eq!(setup.read_frame().await, r#"{"jsonrpc":"2.0","id":1,"method":"b","params":[1]}"#);
    // One and the same number of JSON.
    setup.say(r#"{"id":1.0,"result":"two"}"#).await;
    setup.say(r#"{"id":0,"error":{"code":-32601,"message":"Unhandled method a","data":{"x":1}}}"#).await;
    assert_eq!(second.await.unwrap().unwrap(), "\"two\"");
    let error = first.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::RpcError, "Unhandled method a"));
    assert_eq!(error.facts()["rpcCode"], -32601);
    assert_eq!(error.facts()["method"], "a");
    assert_eq!(error.facts()["data"]["x"], 1);
}

#[tokio::test]
async fn the_peers_requests_and_notifications_come_in_order_and_are_answered() {
    let mut setup = connect(None, 4096);
    setup.say(r#"{"method":"n","params":{"a":1}}"#).await;
    setup.say(r#"{"id":"x","method":"q"}"#).await;
    assert_eq!(setup.seen(2).await, ["n {\"a\":1}", "\"x\"? q null"]);
    setup.client.respond("\"x\"", Ok("7"));
    assert_eq!(setup.read_frame().await, r#"{"jsonrpc":"2.0","id":"x","result":7}"#);
    let refusal = Refusal { code: -32601, message: "no".into(), data: None };
    setup.client.respond("9", Err(&refusal));
    assert_eq!(
        setup.read_frame().await,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no"}}"#
    );
}

#[tokio::test]
async fn garbage_bad_bodies_and_stray_replies_are_told_and_passed_over() {
    let mut setup = connect(None, 4096);
    setup.peer.write_all(b"hello\n").await.unwrap();
    setup.say("{nonsense").await;
    setup.say(r#"{"id":77,"result":1}"#).await;
    setup.say(r#"{"method":"n"}"#).await;
    let seen = setup.seen(4).await;
    assert!(seen[0].starts_with("Garbage"), "{seen:?}");
    assert!(seen[1].starts_with("BadBody"), "{seen:?}");
    assert_eq!(seen[2..], ["StrayReply", "n null"]);
}

#[tokio::test]
async fn a_byte_that_is_no_text_does_not_lose_its_message() {
    let mut setup = connect(None, 4096);
    let body = b"{\"method\":\"n\",\"params\":{\"a\":\"x\xffy\"}}";
    setup.peer.write_all(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes()).await.unwrap();
    setup.peer.write_all(body).await.unwrap();
    assert_eq!(setup.seen(1).await, ["n {\"a\":\"x\u{fffd}y\"}"]);
}

#[tokio::test]
async fn an_error_without_an_id_fails_the_only_request_and_is_told_otherwise() {
    let mut setup = connect(None, 4096);
    let unread = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    setup.say(unread).await;
    assert_eq!(setup.seen(1).await, [r#"Fault("Parse error")"#]);
    let client = setup.client.clone();
    let only = ground::task::spawn(async move { client.request("a", "{}", None).await });
    setup.read_frame().await;
    setup.say(unread).await;
    let error = only.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::RpcError, "Parse error"));
    assert_eq!(error.facts()["method"], "a");
    let calls = ["b", "c"].map(|method| {
        let client = setup.client.clone();
        ground::task::spawn(async move { client.request(method, "{}", None).await })
    });
    for _ in 0..2 {
        setup.read_frame().await;
    }
    setup.say(unread).await;
    assert_eq!(setup.seen(1).await, [r#"Fault("Parse error")"#]);
    assert!(calls.iter().all(|call| !call.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_answered_times_out_and_its_late_reply_is_stray() {
    let mut setup = connect(None, 4096);
    let error = setup.client.request("slow", "{}", Some(Duration::from_secs(5))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectionTimedOut);
    assert_eq!(error.facts()["timeoutMs"], 5000);
    assert_eq!(error.facts()["method"], "slow");
    setup.say(r#"{"id":0,"result":1}"#).await;
    assert_eq!(setup.seen(1).await, ["StrayReply"]);
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_in_their_own_order() {
    let setup = connect(None, 4096);
    let order = Arc::new(Mutex::new(Vec::new()));
    for (name, seconds) in [("late", 9), ("soon", 1), ("middle", 4)] {
        let order = order.clone();
        let complete = Completion::new(move |result| {
            order.lock().unwrap().push((name, result.unwrap_err().code()));
        });
        setup.client.call(name, "{}", Some(Duration::from_secs(seconds)), complete);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let names: Vec<_> = order.lock().unwrap().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["soon", "middle", "late"]);
}

#[tokio::test]
async fn the_end_of_the_stream_fails_everything_pending_and_everything_later() {
    let mut setup = connect(None, 4096);
    let client = setup.client.clone();
    let pending = ground::task::spawn(async move { client.request("a", "{}", None).await });
    setup.read_frame().await;
    drop(setup.peer);
    assert_eq!(pending.await.unwrap().unwrap_err().code(), ErrorCode::ConnectionLost);
    setup.client.ended().await;
    assert_eq!(setup.client.request("b", "{}", None).await.unwrap_err().code(), ErrorCode::ConnectionLost);
    assert_eq!(setup.client.pending(), 0);
}

#[tokio::test]
async fn a_reply_before_the_end_still_counts() {
    let mut setup = connect(None, 4096);
    let client = setup.client.clone();
    let pending = ground::task::spawn(async move { client.request("a", "{}", None).await });
    setup.read_frame().await;
    setup.say(r#"{"id":0,"result":1}"#).await;
    drop(setup.peer);
    assert_eq!(pending.await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn endless_noise_ends_the_connection() {
    let mut setup = connect(None, 1 << 16);
    let client = setup.client.clone();
    let pending = ground::task::spawn(async move { client.request("a", "{}", None).await });
    setup.read_frame().await;
    let noise = vec![b'x'; 1 << 16];
    for _ in 0..20 {
        // Writing fails when the limit is passed, because the reader has stopped.
        if setup.peer.write_all(&noise).await.is_err() {
            break;
        }
    }
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectionLost);
    assert!(error.message().contains("not messages"), "{error}");
}

#[tokio::test]
async fn cancelling_tells_the_peer_and_leaves_whole_frames_alone() {
    let mut setup = connect(None, 64);
    // The message is longer than the pipe, so it is half written when its future is dropped.
    let long = format!("\"{}\"", "x".repeat(1000));
    let client = setup.client.clone();
    let request = ground::task::spawn(async move { client.request("long", &long, None).await });
    let mut head = [0; 30];
    setup.peer.read_exact(&mut head).await.unwrap();
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    let mut rest = vec![0; 1000];
    setup.peer.read_exact(&mut rest).await.unwrap();
    let mut decoder = Wire::HEADERS.decoder();
    decoder.push(&head);
    decoder.push(&rest);
    let mut frames = Vec::new();
    while frames.len() < 2 {
        match decoder.next_found().unwrap() {
            Some(Found::Garbage(bytes)) => panic!("{bytes} bytes between"),
            Some(Found::Body(frame) | Found::Line(frame)) => {
                frames.push(String::from_utf8(frame.to_vec()).unwrap())
            }
            None => decoder.push(&[setup.peer.read_u8().await.unwrap()]),
        }
    }
    assert!(frames[0].contains("\"long\"") && frames[0].ends_with("\"}"), "{}", frames[0]);
    assert_eq!(frames[1], r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":0}}"#);
}

#[tokio::test]
async fn a_handler_without_room_slows_the_peer() {
    let gate = Arc::new(Notify::new());
    let mut setup = connect(Some(gate.clone()), 256);
    let body = format!(r#"{{"method":"n","params":"{}"}}"#, "x".repeat(200));
    // The pipe and one read take some frames; then the writer waits.
    let mut written = 0;
    let frame = Wire::HEADERS.encode(&body);
    while tokio::time::timeout(Duration::from_millis(200), setup.peer.write_all(&frame)).await.is_ok() {
        written += 1;
        assert!(written < 100, "the pipe never filled");
    }
    assert!(setup.seen.lock().unwrap().is_empty());
    for _ in 0..written {
        gate.notify_one();
        setup.heard.notified().await;
    }
    assert!(setup.seen.lock().unwrap().len() >= written);
}

#[tokio::test]
async fn dropping_every_client_closes_the_pipe() {
    let Setup { client, mut peer, .. } = connect(None, 4096);
    drop(client);
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_json_text_a_line_is_a_wire_and_other_lines_are_handed_out() {
    let mut setup = connect_by(Wire::LINES, None, 4096);
    let client = setup.client.clone();
    let request =
        ground::task::spawn(async move { client.request("initialize", "{\n  \"v\": 2\n}", None).await });
    assert_eq!(
        setup.read_frame().await,
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{   "v": 2 }}"#
    );
    setup.peer.write_all(b"Loaded 3 tools\r\n\n{\"id\":0,\"result\":[1]}\n{broken\n").await.unwrap();
    assert_eq!(request.await.unwrap().unwrap(), "[1]");
    assert_eq!(setup.seen(2).await, ["Line(\"Loaded 3 tools\")", "Line(\"{broken\")"]);
    setup.client.notify("session/cancel", "{}");
    let given_up = setup.client.call("slow", "{}", None, Completion::new(|_| {}));
    setup.client.cancel(given_up, Error::new(ErrorCode::ConnectionLost, "given up"));
    for line in [
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#,
    ] {
        assert_eq!(setup.read_frame().await, line);
    }
}

#[tokio::test]
async fn a_line_that_never_ends_ends_the_connection() {
    let wire = Wire { max_body: 1000, ..Wire::LINES };
    let mut setup = connect_by(wire, None, 4096);
    setup.peer.write_all(&[b'x'; 2000]).await.unwrap();
    setup.client.ended().await;
    let error = setup.client.closed().unwrap();
    assert!(error.message().contains("a line of more than 1000 bytes"), "{error}");
}

/// A handler that panics at the first notification.
struct Panicking;

impl Handler for Panicking {
    fn on_notification(&mut self, _: &str, _: &str) {
        panic!("a handler's mistake");
    }
    fn on_request(&mut self, _: &str, _: &str, _: &str) {}
    fn on_noise(&mut self, _: Noise<'_>) {}
    async fn ready(&mut self) {}
    async fn on_end(&mut self, cause: Error) -> Error {
        cause
    }
}

#[tokio::test]
async fn a_panic_of_the_reader_fails_what_is_pending_and_what_comes_later() {
    let (ours, mut peer) = duplex(4096);
    let (read, write) = split(ours);
    let client = Client::start(StreamSource::new(read), StreamSink(write), Wire::HEADERS, Panicking);
    let waiting = client.clone();
    let pending = ground::task::spawn(async move { waiting.request("a", "{}", None).await });
    peer.read_u8().await.unwrap();
    peer.write_all(&Wire::HEADERS.encode(r#"{"method":"n"}"#)).await.unwrap();
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(
        (error.code(), &error.facts()["fault"]),
        (ErrorCode::AddonFault, &"a handler's mistake".into())
    );
    assert_eq!(client.request("b", "{}", None).await.unwrap_err().code(), ErrorCode::AddonFault);
}

/// A source of notifications, as many as requested; then the end.
struct Talker {
    left: usize,
    every: Duration,
}

impl ByteSource for Talker {
    async fn next(&mut self) -> std::io::Result<Option<bytes::Bytes>> {
        tokio::time::sleep(self.every).await;
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        Ok(Some(Wire::LINES.encode(r#"{"jsonrpc":"2.0","method":"said","params":{}}"#)))
    }
}

struct RefusingSink;

impl wires::jsonrpc::ByteSink for RefusingSink {
    async fn write(&mut self, _: bytes::Bytes) -> std::io::Result<()> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
}

/// A handler that takes this long for each message.
struct Slow(Seen, Duration);

impl Handler for Slow {
    fn on_notification(&mut self, method: &str, _: &str) {
        self.0.lock().unwrap().push(method.to_owned());
    }
    fn on_request(&mut self, _: &str, _: &str, _: &str) {}
    fn on_noise(&mut self, _: Noise<'_>) {}
    async fn ready(&mut self) {
        tokio::time::sleep(self.1).await;
    }
    async fn on_end(&mut self, cause: Error) -> Error {
        cause
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_words_of_a_peer_that_takes_nothing_reach_a_slow_listener() {
    for (left, every, takes, is_whole) in [
        (200, Duration::ZERO, Duration::from_millis(100), true),
        (8, Duration::from_millis(400), Duration::ZERO, true),
        // A peer that never ends is not read for ever, and neither is one that falls silent.
        (usize::MAX, Duration::from_millis(1), Duration::from_millis(1), false),
        (1, Duration::from_millis(600), Duration::ZERO, false),
        // A handler that gets no room until the connection ends is not waited for either.
        (2, Duration::ZERO, Duration::MAX, false),
    ] {
        let seen = Seen::default();
        let client =
            Client::start(Talker { left, every }, RefusingSink, Wire::LINES, Slow(seen.clone(), takes));
        let error = client.request("a", "{}", None).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConnectionLost);
        assert_eq!(error.message().contains("closed"), is_whole, "{error}");
        assert_eq!(seen.lock().unwrap().len() == left, is_whole, "{left} every {every:?}");
    }
}

struct SilentSource;

impl ByteSource for SilentSource {
    async fn next(&mut self) -> std::io::Result<Option<bytes::Bytes>> {
        std::future::pending().await
    }
}

struct PanickingSink;

impl wires::jsonrpc::ByteSink for PanickingSink {
    async fn write(&mut self, _: bytes::Bytes) -> std::io::Result<()> {
        panic!("a sink's mistake");
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_fails_what_is_pending() {
    let client = Client::start(SilentSource, PanickingSink, Wire::HEADERS, Panicking);
    let error = client.request("a", "{}", None).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectionLost);
    assert!(error.message().contains("writer"), "{error}");
}

#[test]
fn an_executor_that_goes_away_fails_what_is_pending() {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    let complete = Completion::new(move |result| told.send(result.unwrap_err().code()).unwrap());
    let (client, _peer) = executor.block_on(async {
        let Setup { client, peer, .. } = connect(None, 4096);
        client.call("a", "{}", Some(Duration::from_secs(5)), complete);
        (client, peer)
    });
    drop(executor);
    assert_eq!(heard.recv().unwrap(), ErrorCode::ConnectionLost);
    assert!(client.closed().is_some());
}
