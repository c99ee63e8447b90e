//! The client with runtimes that do not know hello, and with runtimes that answer it late.

use super::asking::{query, until_ended};
use futures_util::{SinkExt, StreamExt};
use ground::error::ErrorCode;
use runtime::client::{ClientOptions, ClientRequest, RuntimeClient};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// A runtime that does not know hello: it answers requests by a script.
async fn old_runtime(script: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    ground::task::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut script = script.iter();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let message: Value = ground::json::read_own(&text).unwrap();
            match message["message_type"].as_str().unwrap() {
                "hello_message" => {}
                "end_session_message" => {
                    socket
                        .send(Message::text(r#"{"message_type":"end_session_confirm_message"}"#))
                        .await
                        .unwrap();
                    socket.close(None).await.unwrap();
                }
                _ => {
                    for line in script.next().unwrap_or(&"").split('\n').filter(|line| !line.is_empty()) {
                        socket.send(Message::text(line)).await.unwrap();
                    }
                }
            }
        }
    });
    url
}

#[tokio::test]
async fn rule_16_our_client_falls_back_with_a_runtime_that_knows_no_hello() {
    let url = old_runtime(&[
        "{\"message_type\":\"new\"}\nnonsense\n[1]\n{\"message_type\":\"assistant_message\",\"text_blocks\":[\"hi\"]}\n{\"message_type\":\"result_message\",\"metadata\":{},\"data\":{\"type\":\"text\",\"text\":\"x\"}}",
        "{\"message_type\":\"error_message\",\"error\":\"broken\",\"metadata\":{\"a\":1}}",
    ])
    .await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    let number = client.request(query("one")).await.unwrap();
    let (said, outcome) = until_ended(&client, number).await;
    assert_eq!((said, outcome.unwrap()["data"]["text"].clone()), (vec!["hi".to_owned()], json!("x")));
    assert_eq!(client.resumes(), Some(false), "falling back is visible");
    let number = client.request(query("two")).await.unwrap();
    assert_eq!(until_ended(&client, number).await.1, Err(ErrorCode::RuntimeFailed));
    assert!(client.end_session().await.confirmed);
}

/// A runtime that announces nothing and answers hello only after the client has sent its first request, on a socket that it
/// breaks at once. It continues on the next socket, from the client's first unacknowledged frame.
async fn late_runtime(says_hello_first: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    ground::task::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let request = loop {
            let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
            let message: Value = ground::json::read_own(&text).unwrap();
            if message["message_type"] != "hello_message" {
                break message;
            }
        };
        let id = &request["request_id"];
        let said = |seq: u64, text: &str| {
            json!({"message_type": "assistant_message", "text_blocks": [text], "seq": seq, "request_id": id})
                .to_string()
        };
        if says_hello_first {
            socket.send(Message::text(json!({"message_type": "hello_message"}).to_string())).await.unwrap();
        }
        for line in [said(1, "one"), said(1, "one"), said(3, "three"), said(2, "two")] {
            socket.send(Message::text(line)).await.unwrap();
        }
        // The client acknowledges what it has read; only then the connection breaks.
        loop {
            let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
            let message: Value = ground::json::read_own(&text).unwrap();
            if message["ack"] == 3 {
                break;
            }
        }
        drop(socket);
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!("no hello") };
        let hello: Value = ground::json::read_own(&text).unwrap();
        assert_eq!((&hello["message_type"], &hello["received"]), (&json!("hello_message"), &json!(3)));
        let hello = json!({"message_type": "hello_message", "resumed": true, "received": 1});
        let result = json!({"message_type": "result_message", "metadata": {}, "data": {"type": "text", "text": "done"},
            "seq": 5, "request_id": id});
        for line in [hello.to_string(), said(4, "four"), result.to_string()] {
            socket.send(Message::text(line)).await.unwrap();
        }
        while let Some(Ok(_)) = socket.next().await {}
    });
    url
}

#[tokio::test]
async fn rule_16_a_runtime_that_answers_hello_late_is_resumed_all_the_same() {
    for says_hello_first in [true, false] {
        let url = late_runtime(says_hello_first).await;
        let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
        assert_eq!(client.resumes(), None, "the runtime has said nothing yet");
        let number = client.request(query("one")).await.unwrap();
        let (said, outcome) = until_ended(&client, number).await;
        assert_eq!(said, ["one", "two", "three", "four"]);
        assert_eq!(outcome.unwrap()["data"]["text"], "done");
        assert_eq!(client.resumes(), Some(true));
    }
}

#[tokio::test]
async fn a_stopped_request_is_drained_so_that_the_next_one_reads_its_own_answer() {
    // The first request is not answered. Its cancel is answered late.
    let url = old_runtime(&[
        "",
        "{\"message_type\":\"assistant_message\",\"text_blocks\":[\"stale\"]}\n{\"message_type\":\"error_message\",\"error\":\"Request cancelled\",\"metadata\":{}}",
        "{\"message_type\":\"result_message\",\"metadata\":{},\"data\":{\"type\":\"text\",\"text\":\"fresh\"}}",
    ])
    .await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    let slow = ClientRequest { timeout: Some(Duration::from_millis(50)), ..query("slow") };
    let number = client.request(slow).await.unwrap();
    assert_eq!(client.request(query("busy")).await.unwrap_err().code(), ErrorCode::RuntimeBusy);
    assert_eq!(until_ended(&client, number).await, (vec![], Err(ErrorCode::RuntimeTimedOut)));
    let number = client.request(query("next")).await.unwrap();
    assert_eq!(until_ended(&client, number).await.1.unwrap()["data"]["text"], "fresh");
}
