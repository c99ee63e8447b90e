//! Attacks by hostile peers, programs and servers: one test for each finding that no smaller test covers.

use super::sink::{Sink, upload_response};
use super::support::{Peer, invocation, server, server_with};
use futures_util::{SinkExt, StreamExt};
use ground::error::ErrorCode;
use runtime::client::{ClientEvent, ClientOptions, ClientRequest, RequestMessage, RuntimeClient};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

fn commands(command: &str, directory: &Path) -> Value {
    json!({"message_type": "command_execution_message", "commands": [{"command": command, "cwd": directory}],
           "artifacts_dirs": [directory.join("out")]})
}

/// Answers upload requests until the confirm. Returns the confirm and the results of the uploads.
async fn end_answering(peer: &mut Peer, sink: &Sink, prefix: &str) -> (Value, Vec<Value>) {
    peer.send(json!({"message_type": "end_session_message"})).await;
    let mut fates = Vec::new();
    loop {
        let message = peer.next().await.unwrap();
        match message["message_type"].as_str().unwrap() {
            "artifact_upload_request_message" => peer.send(upload_response(&message, sink, prefix)).await,
            "artifact_upload_result_message" => fates.push(message),
            "end_session_confirm_message" => return (message, fates),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_fifo_and_a_file_without_end_in_place_of_the_rules_hold_nothing_up() {
    for place in [
        "mkfifo out/.artifactignore",
        "truncate -s 20G out/.artifactignore",
        "ln -s /dev/zero out/.artifactignore",
    ] {
        let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
        let mut peer = Peer::connect(&server).await;
        let started = Instant::now();
        peer.send(commands("true", directory.path())).await;
        peer.terminal().await;
        peer.send(commands(&format!("{place}; echo late > out/late"), directory.path())).await;
        loop {
            let message = peer.next().await.unwrap();
            if message["message_type"] == "artifact_upload_request_message" {
                peer.send(upload_response(&message, &sink, "")).await;
            } else if message["message_type"] == "command_execution_result_message" {
                break;
            }
        }
        let (confirm, _) = end_answering(&mut peer, &sink, "").await;
        assert_eq!(sink.bodies("late"), [b"late\n"], "{place}: {confirm}");
        assert!(started.elapsed() < Duration::from_secs(15), "{place}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn unfinished_heads_of_strangers_keep_nobody_out() {
    let server = server_with(|options| {
        options.max_sessions = 2;
        options.token = Some("t".into());
    })
    .await;
    let mut strangers = Vec::new();
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nX-Never: ").await.unwrap();
        strangers.push(stranger);
    }
    let options = ClientOptions { token: Some("t".into()), ..ClientOptions::default() };
    RuntimeClient::connect(server.url(), options).await.unwrap().close().await;
}

#[tokio::test]
async fn strangers_are_bounded_and_give_way_to_clients() {
    let server = server_with(|options| options.token = Some("t".into())).await;
    let mut strangers = Vec::new();
    for _ in 0..150 {
        let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nX-Never: ").await.unwrap();
        strangers.push(stranger);
    }
    let options = ClientOptions { token: Some("t".into()), connect_timeout: Some(Duration::from_secs(9)) };
    RuntimeClient::connect(server.url(), options).await.unwrap().close().await;
    // The first ones gave way, long before the time that they have otherwise.
    let gone = tokio::time::timeout(Duration::from_secs(2), strangers[0].read(&mut [0; 9])).await.unwrap();
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
}

#[tokio::test]
async fn another_content_of_the_same_size_and_time_comes_home() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("printf one > out/a; touch -d @1000000 out/a", directory.path())).await;
    loop {
        let message = peer.next().await.unwrap();
        if message["message_type"] == "artifact_upload_request_message" {
            peer.send(upload_response(&message, &sink, "")).await;
        } else if message["message_type"] == "command_execution_result_message" {
            break;
        }
    }
    sink.until(|sink| !sink.bodies("a").is_empty()).await;
    peer.send(commands("printf two > new; touch -d @1000000 new; mv new out/a", directory.path())).await;
    loop {
        let message = peer.next().await.unwrap();
        if message["message_type"] == "artifact_upload_request_message" {
            peer.send(upload_response(&message, &sink, "")).await;
        } else if message["message_type"] == "command_execution_result_message" {
            break;
        }
    }
    end_answering(&mut peer, &sink, "").await;
    assert_eq!(sink.bodies("a").last().unwrap(), b"two");
}

#[tokio::test]
async fn redirects_of_an_upload_are_followed_where_the_file_may_go_and_303_is_a_failure() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    for (status, ok) in [(301, true), (302, true), (307, true), (308, true), (303, false)] {
        let mut peer = Peer::connect_for_fates(&server).await;
        peer.send(commands(&format!("printf {status} > out/{status}"), directory.path())).await;
        let request = loop {
            let request = peer.next_of("artifact_upload_request_message").await;
            if request["filename"].as_str() == Some(status.to_string().as_str()) {
                break request;
            }
        };
        peer.send(upload_response(&request, &sink, &format!("redirect-{status}/"))).await;
        let fate = peer.next_of("artifact_upload_result_message").await;
        assert_eq!(fate["status"], if ok { "uploaded" } else { "failed" }, "{fate}");
        let home: Vec<Vec<u8>> = if ok { vec![status.to_string().into_bytes()] } else { vec![] };
        assert_eq!(sink.bodies(&format!("home/{status}")), home);
        if !ok {
            assert!(fate["error"].as_str().unwrap().contains("303"), "{fate}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_file_was_read_is_no_success() {
    let (server, directory) = (server().await, tempfile::tempdir().unwrap());
    let hasty = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", hasty.local_addr().unwrap());
    ground::task::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = hasty.accept().await {
            let mut head = [0; 512];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            kept.push(stream);
        }
    });
    let mut peer = Peer::connect_for_fates(&server).await;
    peer.send(commands("truncate -s 64M out/large", directory.path())).await;
    let request = peer.next_of("artifact_upload_request_message").await;
    peer.send(json!({"message_type": "artifact_upload_response_message", "filename": request["filename"],
        "filepath": request["filepath"], "presigned_url": url, "content_type": "x/y"}))
        .await;
    let fate = peer.next_of("artifact_upload_result_message").await;
    assert_eq!((&fate["status"], &fate["attempts"]), (&json!("failed"), &json!(5)), "{fate}");
}

#[tokio::test]
async fn who_did_not_announce_it_is_not_told_how_uploads_went() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("printf x > out/a", directory.path())).await;
    let request = peer.next_of("artifact_upload_request_message").await;
    peer.send(upload_response(&request, &sink, "")).await;
    peer.terminal().await;
    let (confirm, fates) = end_answering(&mut peer, &sink, "").await;
    assert_eq!((&confirm["uploaded"], fates.len()), (&json!(1), 0));
}

async fn close_code(peer: &mut Peer) -> Option<u16> {
    loop {
        match peer.socket.next().await {
            Some(Ok(Message::Close(Some(frame)))) => return Some(frame.code.into()),
            Some(Ok(_)) => {}
            _ => return None,
        }
    }
}

#[tokio::test]
async fn what_is_no_frame_and_what_is_no_text_ends_with_words() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    // A masked frame with an undefined opcode.
    peer.socket.get_mut().write_all(&[0x83, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(close_code(&mut peer).await, Some(1002));
    let mut peer = Peer::connect(&server).await;
    peer.socket.get_mut().write_all(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff]).await.unwrap();
    assert_eq!(close_code(&mut peer).await, Some(1007));
}

#[tokio::test]
async fn pings_between_the_parts_of_a_message_do_not_hide_its_length() {
    let server = server_with(|options| options.intake_bytes = 4 << 20).await;
    let mut peer = Peer::connect(&server).await;
    let part = |opcode| {
        let header = FrameHeader { is_final: false, opcode: OpCode::Data(opcode), ..FrameHeader::default() };
        Message::Frame(Frame::from_payload(header, vec![b' '; 1 << 20].into()))
    };
    let flood = async {
        peer.socket.send(part(Data::Text)).await?;
        for _ in 0..40 {
            peer.socket.send(Message::Ping(Vec::new().into())).await?;
            peer.socket.send(part(Data::Continue)).await?;
        }
        Ok::<(), tokio_tungstenite::tungstenite::Error>(())
    };
    // The flood fails part way, or all of it fits into the buffers in between.
    let _ = tokio::time::timeout(Duration::from_secs(10), flood).await;
    // The close frame may be lost to a reset, because bytes are still on their way.
    assert!(matches!(close_code(&mut peer).await, Some(1013) | None));
    let mut other = Peer::connect(&server).await;
    other.query("say alive").await;
    assert_eq!(other.terminal().await["data"]["text"], "alive");
}

#[tokio::test]
async fn with_all_sessions_away_a_new_client_is_told_that_there_are_too_many() {
    let server = server_with(|options| options.max_sessions = 1).await;
    let mut first = Peer::connect(&server).await;
    first.send(json!({"message_type": "hello_message", "session_id": "0123456789abcdef"})).await;
    first.next_of("hello_message").await;
    drop(first);
    let started = Instant::now();
    loop {
        // Until the server has noticed that the first socket is gone, it answers 503.
        if let Ok((socket, _)) = tokio_tungstenite::connect_async(server.url()).await {
            let mut second = Peer { socket };
            second.send(json!({"message_type": "hello_message"})).await;
            assert_eq!(close_code(&mut second).await, Some(1013));
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn deep_fields_that_nobody_knows_and_half_surrogates_are_borne() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let deep = format!("{}1e999{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = invocation("say x").to_string().replacen("say x", "say \\ud83d", 1);
    let text = format!("{},\"odd\":{deep}}}", text.strip_suffix('}').unwrap());
    peer.send_raw(Message::text(text)).await;
    assert_eq!(peer.terminal().await["data"]["text"], "\u{fffd}");
    // Nothing is stored of 16 MiB of unknown fields.
    peer.send_raw(Message::text(format!(
        "{{\"message_type\":\"new\",\"odd\":[{}0]}}",
        "[0],".repeat(4 << 20)
    )))
    .await;
    peer.query("say alive").await;
    assert_eq!(peer.terminal().await["data"]["text"], "alive");
}

// Hostile runtimes.

/// A runtime that answers hello and then handles each socket by the script. Returns the number of sockets.
async fn runtime<F: Future<Output = ()> + Send>(
    script: impl Fn(u32, tokio_tungstenite::WebSocketStream<TcpStream>) -> F + Send + Sync + 'static,
) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let sockets = Arc::new(AtomicU32::new(0));
    let (script, counted) = (Arc::new(script), sockets.clone());
    ground::task::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let script = script.clone();
            ground::task::spawn(async move {
                // Announced as our runtime announces itself: the client waits for hello however busy the machine is.
                #[expect(clippy::result_large_err, reason = "the type is that of the library")]
                let announce = |_: &Request, mut response: Response| {
                    response.headers_mut().insert("x-sheepdog-runtime", "1".parse().unwrap());
                    Ok(response)
                };
                let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, announce).await else { return };
                script(number, socket).await;
            });
        }
    });
    (url, sockets)
}

fn hello(resumed: bool) -> Message {
    let hello = json!({"message_type": "hello_message", "version": 1, "resumed": resumed, "received": 0,
        "capabilities": ["request_id", "seq", "resume", "artifact_upload_decline"]});
    Message::text(hello.to_string())
}

fn asking() -> ClientRequest {
    ClientRequest { message: RequestMessage::Invocation(Box::default()), timeout: None, idle_timeout: None }
}

async fn outcome(client: &RuntimeClient) -> ErrorCode {
    loop {
        let events =
            tokio::time::timeout(Duration::from_secs(40), client.next_events()).await.expect("events");
        for event in events {
            if let ClientEvent::Ended { outcome, .. } = event {
                let error = outcome.unwrap_err();
                assert!(!error.message().is_empty());
                return error.code();
            }
        }
    }
}

#[tokio::test]
async fn a_client_whose_every_socket_breaks_backs_off_and_gives_up() {
    let (url, sockets) = runtime(|number, mut socket| async move {
        socket.next().await;
        // The way a proxy behaves that rejects one frame again and again.
        let _ = socket.send(hello(number > 0)).await;
        if number == 0 {
            socket.next().await;
        }
        let frame = tokio_tungstenite::tungstenite::protocol::CloseFrame {
            code: 1012.into(),
            reason: "again".into(),
        };
        let _ = socket.close(Some(frame)).await;
    })
    .await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    client.request(asking()).await.unwrap();
    assert_eq!(outcome(&client).await, ErrorCode::RuntimeClosed);
    assert!(sockets.load(Ordering::Relaxed) < 15, "{sockets:?} sockets");
}

#[tokio::test]
async fn a_runtime_that_talks_before_it_answers_hello_is_not_listened_to_without_end() {
    let (url, _) = runtime(|_, mut socket| async move {
        loop {
            let noise = json!({"message_type": "assistant_message", "text_blocks": ["x".repeat(100_000)]});
            if socket.send(Message::text(noise.to_string())).await.is_err() {
                return;
            }
        }
    })
    .await;
    let refused = RuntimeClient::connect(&url, ClientOptions::default()).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::RuntimeUnreachable);
    assert!(refused.message().contains("too much"), "{}", refused.message());
}

#[tokio::test]
async fn a_runtime_that_wants_all_files_at_once_has_few_callbacks_called() {
    let (url, _) = runtime(|_, mut socket| async move {
        socket.next().await;
        socket.send(hello(false)).await.unwrap();
        for number in 0..5000 {
            let wanted = json!({"message_type": "artifact_upload_request_message", "seq": number + 1,
                "filename": if number == 0 { "../../evil".to_owned() } else { number.to_string() },
                "filepath": format!("/out/{number}")});
            socket.send(Message::text(wanted.to_string())).await.unwrap();
        }
        while socket.next().await.is_some() {}
    })
    .await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    let mut asked = Vec::new();
    while let Ok(events) = tokio::time::timeout(Duration::from_millis(500), client.next_events()).await {
        asked.extend(events.into_iter().filter_map(|event| match event {
            ClientEvent::UploadRequested(request) => Some(request),
            _ => None,
        }));
    }
    assert_eq!(asked.len(), 32);
    assert!(asked.iter().all(|request| request.names_a_file()));
    client.decline(asked.remove(0), "no".into()).await;
    let more = tokio::time::timeout(Duration::from_secs(5), client.next_events()).await.unwrap();
    assert_eq!(more.len(), 1, "one answered, one more");
}

#[tokio::test]
async fn the_client_s_error_says_how_the_runtime_closed() {
    let (url, _) = runtime(|_, mut socket| async move {
        socket.next().await;
        socket.send(hello(false)).await.unwrap();
        socket.next().await;
        let frame = tokio_tungstenite::tungstenite::protocol::CloseFrame {
            code: 1008.into(),
            reason: "not\u{1b}[1m you".into(),
        };
        let _ = socket.close(Some(frame)).await;
    })
    .await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    client.request(asking()).await.unwrap();
    for event in client.next_events().await {
        if let ClientEvent::Ended { outcome, .. } = event {
            let error = outcome.unwrap_err();
            assert_eq!(error.message(), "the runtime closed the connection (1008: not[1m you)");
            assert_eq!(
                (&error.facts()["closeCode"], &error.facts()["closeReason"]),
                (&json!(1008), &json!("not[1m you"))
            );
            return;
        }
    }
    panic!("no end");
}
