//! The client and the server over a wire that cuts, delays, doubles and reorders frames: no frame is lost and none is handed on
//! twice.

use super::asking::{query, request, until_ended};
use super::sink::Sink;
use super::support::{Peer, server, server_with};
use futures_util::{SinkExt, StreamExt};
use ground::error::ErrorCode;
use runtime::client::{ClientEvent, ClientOptions, ClientRequest, RuntimeClient};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// A small random number generator with a fixed seed: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Passes messages on and disturbs them: after one message in `cut`, both sockets are cut without a close frame.
struct BadWire {
    url: String,
    cuts: Arc<AtomicU64>,
}

impl BadWire {
    async fn start(target: String, seed: u64, cut: u64) -> BadWire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = BadWire { url: format!("ws://{}", listener.local_addr().unwrap()), cuts: Arc::default() };
        let cuts = wire.cuts.clone();
        ground::task::spawn(async move {
            let mut seed = seed;
            while let Ok((stream, _)) = listener.accept().await {
                seed += 1;
                let (target, cuts) = (target.clone(), cuts.clone());
                ground::task::spawn(async move {
                    let Ok(client) = tokio_tungstenite::accept_async(stream).await else { return };
                    let Ok((server, _)) = tokio_tungstenite::connect_async(target).await else { return };
                    let (to_client, from_client) = client.split();
                    let (to_server, from_server) = server.split();
                    tokio::select! {
                        () = pass(from_client, to_server, Dice(seed * 7), cut) => {}
                        () = pass(from_server, to_client, Dice(seed * 11), cut) => {}
                    }
                    cuts.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        wire
    }
}

async fn pass(
    mut from: impl StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin,
    mut to: impl SinkExt<Message> + Unpin,
    mut dice: Dice,
    cut: u64,
) {
    let mut kept: Option<Message> = None;
    loop {
        let next = if kept.is_some() {
            // The message comes out of order but is not lost: it is passed on when no other message comes.
            tokio::time::timeout(Duration::from_millis(10), from.next()).await
        } else {
            Ok(from.next().await)
        };
        let message = match next {
            Ok(Some(Ok(message))) => message,
            Ok(_) => return,
            Err(_) => {
                if let Some(kept) = kept.take()
                    && to.send(kept).await.is_err()
                {
                    return;
                }
                continue;
            }
        };
        if dice.roll(cut) == 0 {
            return;
        }
        if dice.roll(10) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(5))).await;
        }
        let twice = dice.roll(8) == 0;
        // The message is held back until the next one has passed.
        let swapped = message.is_text() && kept.is_none() && dice.roll(6) == 0;
        if swapped {
            kept = Some(message.clone());
        } else if to.send(message.clone()).await.is_err() {
            return;
        }
        if twice && to.send(message).await.is_err() {
            return;
        }
        if !swapped
            && let Some(kept) = kept.take()
            && to.send(kept).await.is_err()
        {
            return;
        }
    }
}

#[tokio::test]
async fn rule_16_nothing_is_lost_or_doubled_over_200_random_cuts() {
    let server = server().await;
    let mut cuts = 0;
    let mut seed = 1;
    while cuts < 200 {
        seed += 1000;
        let wire = BadWire::start(server.url().to_owned(), seed, 60).await;
        // The first hello may be cut off as well. Then the caller has to connect again.
        let client = loop {
            if let Ok(client) = RuntimeClient::connect(&wire.url, ClientOptions::default()).await {
                break client;
            }
        };
        let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
        for _ in 0..4 {
            let number = client.request(query("many 300")).await.unwrap();
            let (said, outcome) = until_ended(&client, number).await;
            assert_eq!(said, expected, "seed {seed}");
            assert_eq!(outcome.unwrap()["data"]["text"], "done");
        }
        cuts += wire.cuts.load(Ordering::Relaxed);
    }
}

#[tokio::test]
async fn rule_16_a_command_runs_once_though_its_socket_breaks() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let wire = BadWire::start(server.url().to_owned(), 5, 12).await;
    let client = loop {
        if let Ok(client) = RuntimeClient::connect(&wire.url, ClientOptions::default()).await {
            break client;
        }
    };
    for round in 0..20 {
        let message = json!({"message_type": "command_execution_message",
            "commands": [{"command": format!("echo {round} >> {}; echo said {round}", log.display())}]});
        let number = client.request(request(message)).await.unwrap();
        let (said, outcome) = until_ended(&client, number).await;
        assert_eq!(said.concat(), format!("said {round}\n"));
        assert_eq!(outcome.unwrap()["results"][0]["exit_code"], 0);
    }
    let expected: String = (0..20).map(|round| format!("{round}\n")).collect();
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
    let end = client.end_session().await;
    assert!(end.confirmed);
    assert!(wire.cuts.load(Ordering::Relaxed) > 3);
}

#[tokio::test]
async fn rule_16_a_session_ends_when_its_client_stays_away() {
    let server = server_with(|options| options.grace = Duration::from_secs(2)).await;
    let id = "0123456789abcdef0123";
    let mut peer = Peer::connect(&server).await;
    peer.send(json!({"message_type": "hello_message", "version": 1, "session_id": id})).await;
    let hello = peer.next().await.unwrap();
    assert_eq!(hello["version"], 1);
    assert!(hello["capabilities"].as_array().unwrap().contains(&json!("resume")));
    peer.query("say one").await;
    peer.terminal().await;
    drop(peer);
    let mut back = Peer::connect(&server).await;
    back.send(json!({"message_type": "hello_message", "session_id": id, "received": 1})).await;
    assert_eq!(back.next().await.unwrap()["resumed"], true);
    assert_eq!(back.next().await.unwrap()["seq"], 2, "what was not acknowledged comes again");
    drop(back);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut late = Peer::connect(&server).await;
    late.send(json!({"message_type": "hello_message", "session_id": id, "received": 2})).await;
    assert_eq!(late.next().await.unwrap()["resumed"], false);
    assert_eq!(late.next().await, None);
}

#[tokio::test]
async fn rule_16_messages_carry_request_id_and_seq_and_old_clients_are_served_as_ever() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let mut message = super::support::invocation("say x");
    message["request_id"] = "mine".into();
    message["seq"] = 77.into();
    peer.send(message).await;
    let messages = peer.until_terminal().await;
    for (at, message) in messages.iter().enumerate() {
        assert_eq!(message["request_id"], "mine");
        assert_eq!(message["seq"], at + 1);
    }
}

#[tokio::test]
async fn a_silent_runtime_is_idle_and_one_that_is_aborted_ends() {
    let server = server().await;
    let client = RuntimeClient::connect(server.url(), ClientOptions::default()).await.unwrap();
    let idle = ClientRequest { idle_timeout: Some(Duration::from_millis(100)), ..query("wait") };
    let number = client.request(idle).await.unwrap();
    assert_eq!(until_ended(&client, number).await.1, Err(ErrorCode::RuntimeIdle));
    let number = client.request(query("wait")).await.unwrap();
    client.abort(number).await;
    assert_eq!(until_ended(&client, number).await.1, Err(ErrorCode::RuntimeAborted));
    let number = client.request(query("say after")).await.unwrap();
    assert_eq!(until_ended(&client, number).await.1.unwrap()["data"]["text"], "after");
    client.close().await;
    assert_eq!(client.request(query("say over")).await.unwrap_err().code(), ErrorCode::RuntimeClosed);
    assert!(client.end_session().await.confirmed, "the same answer once more");
}

#[tokio::test]
async fn a_client_without_token_is_told_so() {
    let server = server_with(|options| options.token = Some("t".into())).await;
    let refused = RuntimeClient::connect(server.url(), ClientOptions::default()).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::RuntimeUnauthorized);
    let options = ClientOptions { token: Some("t".into()), ..ClientOptions::default() };
    RuntimeClient::connect(server.url(), options).await.unwrap().close().await;
    let nobody = RuntimeClient::connect("ws://127.0.0.1:1", ClientOptions::default()).await.err().unwrap();
    assert_eq!(nobody.code(), ErrorCode::RuntimeUnreachable);
    let secret = "ws://user:secret@127.0.0.1:1/agent?token=secret";
    let hidden = RuntimeClient::connect(secret, ClientOptions::default()).await.err().unwrap();
    assert_eq!(hidden.facts()["url"], "ws://127.0.0.1:1/agent");
    assert!(hidden.message().starts_with("ws://127.0.0.1:1/agent: ") && !hidden.message().contains("secret"));
    let wrong = RuntimeClient::connect("no url", ClientOptions::default()).await.err().unwrap();
    assert_eq!(wrong.code(), ErrorCode::InvalidOption);
}

#[tokio::test]
async fn rule_8_files_reach_home_through_our_client_also_after_the_request() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let wire = BadWire::start(server.url().to_owned(), 3, 40).await;
    let client = loop {
        if let Ok(client) = RuntimeClient::connect(&wire.url, ClientOptions::default()).await {
            break client;
        }
    };
    let message = json!({"message_type": "command_execution_message", "artifacts_dirs": [directory.path()],
        "commands": [{"command": "for n in $(seq 50); do echo $n > $n; done", "cwd": directory.path()}]});
    client.request(request(message)).await.unwrap();
    let (over, is_over) = tokio::sync::oneshot::channel();
    let answering = {
        let (client, sink) = (client.clone(), sink.clone());
        ground::task::spawn(async move {
            let mut over = Some(over);
            loop {
                let events = client.next_events().await;
                if events.is_empty() {
                    return;
                }
                for event in events {
                    match event {
                        ClientEvent::UploadRequested(request) => {
                            let url = sink.url(&request.filename);
                            client.answer(request, url, "text/plain".into()).await;
                        }
                        ClientEvent::Ended { .. } => {
                            if let Some(over) = over.take() {
                                over.send(()).unwrap();
                            }
                        }
                        _ => {}
                    }
                }
            }
        })
    };
    is_over.await.expect("the request ends");
    std::fs::write(directory.path().join("late"), "late").unwrap();
    let end = client.end_session().await;
    assert_eq!((end.confirmed, end.undelivered.len()), (true, 0), "{end:?}");
    for number in 1..=50 {
        assert_eq!(sink.bodies(&number.to_string()), [format!("{number}\n").as_bytes()]);
    }
    assert_eq!(sink.bodies("late"), [b"late"]);
    drop(client);
    answering.await.unwrap();
}

#[tokio::test]
async fn rule_16_a_runtime_that_is_gone_is_not_waited_for_as_long_as_a_broken_wire() {
    let server = server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let target = server.url().trim_start_matches("ws://").trim_end_matches('/').to_owned();
    let (cut, is_cut) = tokio::sync::oneshot::channel::<()>();
    // After the wire is cut, nothing listens at this address.
    ground::task::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
            _ = is_cut => {}
        }
    });
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    let message = json!({"message_type": "command_execution_message",
        "commands": [{"command": "echo started; sleep 30"}]});
    let number = client.request(request(message)).await.unwrap();
    let started = std::time::Instant::now();
    drop(cut);
    let (_, outcome) = until_ended(&client, number).await;
    assert_eq!(outcome.unwrap_err(), ErrorCode::RuntimeClosed);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
