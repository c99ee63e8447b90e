//! A runtime that skips a message: the client replaces the socket, and the missing one comes by the next.

use super::asking::{query, until_ended};
use futures_util::{SinkExt, StreamExt};
use runtime::client::{ClientOptions, RuntimeClient};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// How long the client waits for a missing frame.
const GAP: Duration = Duration::from_secs(2);

async fn next(socket: &mut WebSocketStream<TcpStream>) -> Option<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Some(ground::json::read_own(&text).unwrap()),
            Some(Ok(_)) => {}
            _ => return None,
        }
    }
}

/// Answers the hello, which is the first message on each socket, and returns it.
async fn greeted(listener: &TcpListener, resumed: bool) -> (WebSocketStream<TcpStream>, Value) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let hello = next(&mut socket).await.unwrap();
    let answer = json!({"message_type": "hello_message", "version": 1, "resumed": resumed, "received": u64::from(resumed)});
    socket.send(Message::text(answer.to_string())).await.unwrap();
    (socket, hello)
}

/// A runtime that skips the second of its five messages on the first socket. On the next socket it sends that message, but after
/// the fourth. Returns the number of sockets.
async fn skipping_runtime() -> (String, JoinHandle<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let serving = ground::task::spawn(async move {
        let (mut first, _) = greeted(&listener, false).await;
        let asked = loop {
            let message = next(&mut first).await.unwrap();
            if message["message_type"] == "invocation_message" {
                break message;
            }
        };
        let said = |seq: u64| {
            let mut message = json!({"message_type": "assistant_message", "text_blocks": [seq.to_string()]});
            if seq == 5 {
                message = json!({"message_type": "result_message", "metadata": {}, "data": {"type": "text", "text": "done"}});
            }
            message["seq"] = seq.into();
            message["request_id"] = asked["request_id"].clone();
            Message::text(message.to_string())
        };
        first.send(said(1)).await.unwrap();
        first.send(said(3)).await.unwrap();
        while next(&mut first).await.is_some() {}
        let (mut second, hello) = greeted(&listener, true).await;
        assert_eq!(hello["received"], 1, "from the first one that is missing");
        // This socket has a gap too, but not for long enough to be replaced.
        for seq in [4, 2, 5] {
            second.send(said(seq)).await.unwrap();
        }
        let mut sockets = 2;
        tokio::select! {
            () = async { while next(&mut second).await.is_some_and(|said| said["message_type"] != "end_session_message") {} } => {}
            _ = listener.accept() => sockets += 1,
        }
        let confirm = json!({"message_type": "end_session_confirm_message", "seq": 6});
        second.send(Message::text(confirm.to_string())).await.unwrap();
        while next(&mut second).await.is_some() {}
        sockets
    });
    (url, serving)
}

#[tokio::test]
async fn a_message_that_does_not_come_is_fetched_by_one_more_socket() {
    let (url, serving) = skipping_runtime().await;
    let client = RuntimeClient::connect(&url, ClientOptions::default()).await.unwrap();
    let began = Instant::now();
    let number = client.request(query("count")).await.unwrap();
    let (said, outcome) = until_ended(&client, number).await;
    assert_eq!(said, ["1", "2", "3", "4"]);
    assert_eq!(outcome.unwrap()["data"]["text"], "done");
    assert!(began.elapsed() >= GAP, "it may only have been late");
    client.close().await;
    assert_eq!(serving.await.unwrap(), 2);
}
