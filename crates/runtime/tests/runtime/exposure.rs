//! Access control and the limits for strangers: the hostile peers of docs/internals/runtime.md.

use super::sink::Sink;
use super::support::{Peer, invocation, server, server_with};
use futures_util::{SinkExt, StreamExt};
use ground::error::ErrorCode;
use runtime::server::{RuntimeServer, ServerOptions, serve};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

async fn get(server: &RuntimeServer, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn upgrade(server: &RuntimeServer, path: &str, header: Option<(&'static str, &str)>) -> u16 {
    let mut request = format!("{}{path}", server.url()).into_client_request().unwrap();
    if let Some((name, value)) = header {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    match tokio_tungstenite::connect_async(request).await {
        Ok((_, response)) => response.status().as_u16(),
        Err(WsError::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn rule_12_other_addresses_need_a_token_and_port_0_is_reported_as_it_is() {
    for host in ["0.0.0.0", "::", "192.0.2.1", "example.org"] {
        let options = super::support::options();
        let refused = serve(ServerOptions { host: host.into(), ..options }).await.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::InvalidOption);
        assert!(refused.message().starts_with("host: "), "{}", refused.message());
    }
    let server = server_with(|options| {
        options.host = "0.0.0.0".into();
        options.token = Some("t".into());
    })
    .await;
    assert_ne!(server.port(), 0);
    let taken = server_with(|_| ()).await;
    let options = ServerOptions { port: taken.port(), ..super::support::options() };
    let refused = serve(options).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::RuntimePortInUse);
    assert!(refused.message().starts_with("port: ") && refused.facts()["port"] == taken.port());
    for token in ["", " ", " t", "t\n"] {
        let refused = serve(ServerOptions { token: Some(token.into()), ..super::support::options() })
            .await
            .err()
            .unwrap();
        assert!(refused.message().starts_with("token: "), "{token:?}");
    }
}

#[tokio::test]
async fn rule_12_health_answers_and_plain_http_is_told_to_upgrade() {
    let server = server_with(|options| options.token = Some("t".into())).await;
    assert!(get(&server, "GET /health HTTP/1.1\r\nHost: h\r\n\r\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(
        get(&server, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 426 Upgrade Required\r\n")
    );
    for nonsense in ["nonsense\r\n\r\n", "\x16\x03\x01 as TLS begins\r\n\r\n"] {
        assert!(get(&server, nonsense).await.starts_with("HTTP/1.1 400 "), "{nonsense:?}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(16 << 10));
    assert!(get(&server, &long).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_client_gets_its_answer_though_it_still_sends_or_sends_no_more() {
    let server = server_with(|_| ()).await;
    for is_late in [false, true] {
        let (mut reader, mut writer) =
            TcpStream::connect(("127.0.0.1", server.port())).await.unwrap().into_split();
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n";
        writer.write_all(head).await.unwrap();
        let mut answer = [0; 12];
        if is_late {
            reader.read_exact(&mut answer).await.unwrap();
        }
        for _ in 0..4 {
            writer.write_all(&[b'x'; 10_000]).await.unwrap();
        }
        if !is_late {
            reader.read_exact(&mut answer).await.unwrap();
        }
        assert_eq!(&answer, b"HTTP/1.1 426");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
    }
    let mut closed = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    closed.write_all(b"GET /health?token=a#b HTTP/1.0\r\n\r\n").await.unwrap();
    closed.shutdown().await.unwrap();
    let mut answer = String::new();
    closed.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn a_socket_that_says_nothing_whole_is_closed() {
    let server = server_with(|_| ()).await;
    let (silent, torn, split) =
        tokio::join!(get(&server, ""), get(&server, "GET /health HTTP/1.1\r\nHos"), async {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
            for byte in b"GET /health HTTP/1.1\r\n\r\n" {
                stream.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        });
    assert_eq!((silent.as_str(), torn.as_str()), ("", ""));
    assert!(split.starts_with("HTTP/1.1 200 OK\r\n") && split.ends_with("{\"status\":\"ok\"}"), "{split}");
}

#[tokio::test]
async fn rule_12_tokens_and_origins_decide_who_gets_in() {
    let server = server_with(|options| {
        options.token = Some("right".into());
        options.allowed_origins = vec!["https://good.example".into()];
    })
    .await;
    assert_eq!(upgrade(&server, "/", None).await, 401);
    assert_eq!(upgrade(&server, "/", Some(("authorization", "Bearer wrong"))).await, 401);
    assert_eq!(upgrade(&server, "/", Some(("authorization", "Bearer right"))).await, 101);
    assert_eq!(upgrade(&server, "/any?token=right", None).await, 101);
    assert_eq!(upgrade(&server, "/?token=right", Some(("origin", "https://evil.example"))).await, 403);
    assert_eq!(upgrade(&server, "/?token=right", Some(("origin", "https://good.example"))).await, 101);
}

#[tokio::test]
async fn a_frame_of_more_than_100_mib_closes_its_socket_with_1009_and_disturbs_nobody() {
    let server = server().await;
    let mut other = Peer::connect(&server).await;
    other.query("wait").await;
    other.next_of("assistant_message").await;
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let (socket, _) =
        tokio_tungstenite::connect_async_with_config(server.url(), Some(config), false).await.unwrap();
    let (mut sink, mut stream) = socket.split();
    let sending = ground::task::spawn(async move {
        // Sending fails part way: the server stops reading.
        let _ = sink.send(Message::text("x".repeat((100 << 20) + 1))).await;
    });
    let close = loop {
        match stream.next().await {
            Some(Ok(Message::Close(frame))) => break frame,
            Some(Ok(_)) => {}
            // The close frame may be lost to a reset, because bytes are still on their way.
            Some(Err(_)) | None => break None,
        }
    };
    if let Some(frame) = close {
        assert_eq!(u16::from(frame.code), 1009);
    }
    sending.abort();
    other.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(other.terminal().await["error"], "Request cancelled");
}

#[tokio::test]
async fn a_message_of_many_megabytes_is_taken_as_ever() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query(&format!("env {}", "x".repeat(20 << 20))).await;
    assert_eq!(peer.terminal().await["data"]["text"], "");
}

#[tokio::test]
async fn rule_14_large_messages_at_once_are_bounded_and_the_surplus_is_told_to_come_again() {
    let server = server_with(|options| options.intake_bytes = 8 << 20).await;
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let open = || tokio_tungstenite::connect_async_with_config(server.url(), Some(config), false);
    // Each socket sends half a message and stops. While the first holds its share of the budget, none is left for the second.
    let begin = |length: u64| {
        let mut bytes = vec![0x81, 0x80 | 127];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.resize(bytes.len() + 6 * (1 << 20), b' ');
        bytes
    };
    let (mut first, mut second) = (open().await.unwrap().0, open().await.unwrap().0);
    first.get_mut().write_all(&begin(20 << 20)).await.unwrap();
    let _ = second.get_mut().write_all(&begin(20 << 20)).await;
    let mut told = Vec::new();
    let (one, two) = (async { first.next().await }, async { second.next().await });
    tokio::select! {
        message = one => told.push(message),
        message = two => told.push(message),
    }
    // The close frame may be lost to a reset, because bytes are still on their way.
    if let Some(Some(Ok(Message::Close(Some(frame))))) = told.pop() {
        assert_eq!(u16::from(frame.code), 1013);
    }
    let mut other = Peer::connect(&server).await;
    other.query("say alive").await;
    assert_eq!(other.terminal().await["data"]["text"], "alive");
}

#[tokio::test]
async fn many_tiny_frames_are_borne() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    for number in 0..20_000 {
        let junk =
            ["{}", "[]", "{\"message_type\":\"cancel_message\"}", "{\"message_type\":\"what\"}"][number % 4];
        peer.socket.feed(Message::text(junk)).await.unwrap();
    }
    peer.query("say alive").await;
    assert_eq!(peer.terminal().await["data"]["text"], "alive");
}

#[tokio::test]
async fn rule_14_a_peer_that_provokes_errors_and_reads_none_is_not_read_any_more() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let mut sent = 0_u64;
    let flood = async {
        loop {
            peer.socket.send(Message::text("{broken".repeat(50))).await.unwrap();
            sent += 1;
            if sent > 2_000_000 {
                panic!("the server reads without end");
            }
        }
    };
    // The server must have stopped reading with the sockets' buffers full. Otherwise the flood would have gone on.
    let stopped = tokio::time::timeout(Duration::from_millis(1500), flood).await;
    assert!(stopped.is_err());
    let mut other = Peer::connect(&server).await;
    other.query("say alive").await;
    assert_eq!(other.terminal().await["data"]["text"], "alive");
}

#[tokio::test]
async fn rule_14_a_client_that_does_not_read_pauses_the_command() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let mut peer = Peer::connect(&server).await;
    let mark = directory.path().join("mark");
    let command = format!(
        "for n in $(seq 5000); do head -c 100000 /dev/zero | tr '\\0' x; echo $n > {0}.new; mv {0}.new {0}; done",
        mark.display()
    );
    peer.send(json!({"message_type": "command_execution_message", "commands": [{"command": command}]})).await;
    peer.next_of("command_output_message").await;
    // Wait until the output has stopped: it first fills the sockets' buffers and the server's.
    let printed = || std::fs::read_to_string(&mark).map_or(0, |text| text.trim().parse::<u32>().unwrap());
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = printed();
        assert!(now < 300, "{now} times 100 KB went somewhere");
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled", "a cancel is heard all the same");
}

#[tokio::test]
async fn rule_15_a_half_open_client_is_dropped_and_its_request_ended() {
    let server = server_with(|options| options.ping_interval = Duration::from_millis(100)).await;
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("alive");
    let mut peer = Peer::connect(&server).await;
    let command = format!("mkfifo {0}; exec 3<>{0}; echo up; sleep 60", fifo.display());
    peer.send(json!({"message_type": "command_execution_message", "commands": [{"command": command}]})).await;
    peer.next_of("command_output_message").await;
    let reader = tokio::task::spawn_blocking(move || std::fs::read(fifo).unwrap());
    // The peer is alive but never answers a ping, because it does not read.
    tokio::time::timeout(Duration::from_secs(10), reader)
        .await
        .expect("the request should have ended")
        .unwrap();
    drop(peer);
}

#[tokio::test]
async fn rule_15_a_client_that_answers_pings_stays() {
    let server = server_with(|options| options.ping_interval = Duration::from_millis(50)).await;
    let mut peer = Peer::connect(&server).await;
    peer.query("wait").await;
    peer.next_of("assistant_message").await;
    let mut pings = 0;
    while pings < 8 {
        if let Message::Ping(_) = peer.socket.next().await.unwrap().unwrap() {
            pings += 1;
        }
        peer.socket.flush().await.unwrap();
    }
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled");
}

#[tokio::test]
async fn rule_15_a_server_without_work_closes_at_once() {
    let server = server().await;
    let mut idle = Peer::connect(&server).await;
    idle.query("say x").await;
    idle.terminal().await;
    let _silent = Peer::connect(&server).await;
    let started = Instant::now();
    tokio::join!(server.close(), async { assert_eq!(idle.next().await, None) });
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    tokio_tungstenite::connect_async(server.url()).await.unwrap_err();
}

#[tokio::test]
async fn rule_15_a_server_with_work_ends_it_and_closes_within_10_seconds() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut uploading = Peer::connect(&server).await;
    uploading
        .send(json!({"message_type": "command_execution_message", "artifacts_dirs": [directory.path()],
            "commands": [{"command": "echo x > file", "cwd": directory.path()}]}))
        .await;
    let request = uploading.next_of("artifact_upload_request_message").await;
    uploading.send(super::sink::upload_response(&request, &sink, "slow/")).await;
    uploading.terminal().await;
    let mut running = Peer::connect(&server).await;
    running.query("wait").await;
    running.next_of("assistant_message").await;
    let started = Instant::now();
    tokio::join!(server.close(), async {
        assert_eq!(running.terminal().await["error"], "Request cancelled");
    });
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(sink.bodies("slow/file"), [b"x\n"], "the open upload was finished");
}

#[tokio::test]
async fn too_many_sessions_are_refused() {
    let server = server_with(|options| options.max_sessions = 2).await;
    let _first = Peer::connect(&server).await;
    let second = Peer::connect(&server).await;
    assert_eq!(upgrade(&server, "/", None).await, 503);
    drop(second);
    let started = Instant::now();
    while upgrade(&server, "/", None).await != 101 {
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test]
async fn rule_13_downloads_land_under_their_own_name_or_fail() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    let download = |url: String| {
        let mut message = invocation("say done");
        message["pre_agent_downloadables"] =
            json!([{"download_url": url, "working_dir": directory.path().join("in")}]);
        message
    };
    peer.send(download(sink.url("a/b%20c.txt?sig=1"))).await;
    assert_eq!(peer.terminal().await["data"]["text"], "done");
    assert!(directory.path().join("in/b c.txt").exists());
    peer.send(download("data:text/plain;base64,aGVsbG8=".to_owned())).await;
    assert_eq!(peer.terminal().await["data"]["text"], "done");
    let named = directory.path().join("in/plain;base64,aGVsbG8=");
    assert_eq!(std::fs::read(&named).unwrap(), b"hello");
    std::fs::remove_file(named).unwrap();
    for (url, problem) in [
        (sink.url("deny/x"), "Download failed: 403 Forbidden"),
        (sink.url("a/%2e%2e%2fevil"), "leaves its directory"),
        (sink.url("a.zip"), "not a zip archive"),
        ("file:///etc/passwd".to_owned(), "Download failed"),
        ("http://127.0.0.1:1/x".to_owned(), "Download failed"),
    ] {
        peer.send(download(url.clone())).await;
        let error = peer.terminal().await["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("Download failed: ") && error.contains(problem), "{url}: {error}");
    }
    let names: Vec<_> = std::fs::read_dir(directory.path().join("in"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["b c.txt"], "nothing half is left behind");
}

#[tokio::test]
async fn rule_10_a_cancel_ends_a_download() {
    let (server, directory) = (server().await, tempfile::tempdir().unwrap());
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", mute.local_addr().unwrap());
    let mut peer = Peer::connect(&server).await;
    let mut message = invocation("say never");
    message["pre_agent_downloadables"] = json!([{"download_url": url, "working_dir": directory.path()}]);
    peer.send(message).await;
    let _held = mute.accept().await.unwrap();
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled");
}
