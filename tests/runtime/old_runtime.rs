//! Our client and runtimes that know no hello.

use super::asking::{query, until_ended};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use sheepdog::error::ErrorCode;
use sheepdog::runtime::client::{ClientOptions, ClientRequest, RuntimeClient};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// A runtime that knows no hello: it answers requests by a script.
async fn old_runtime(script: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut script = script.iter();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
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
    let number = client.request(query("two")).await.unwrap();
    assert_eq!(until_ended(&client, number).await.1, Err(ErrorCode::RuntimeFailed));
    assert!(client.end_session().await.confirmed);
}

#[tokio::test]
async fn a_stopped_request_is_drained_so_that_the_next_one_reads_its_own_answer() {
    // The first request is not answered; its cancel is, and late.
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
