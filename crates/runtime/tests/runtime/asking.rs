//! Requests of the client under test, and their outcomes.

use super::support::invocation;
use ground::error::ErrorCode;
use runtime::client::{ClientEvent, ClientRequest, RequestMessage, RequestResult, RuntimeClient};
use runtime::wire::client_message::ClientMessage;
use runtime::wire::frame::parse_client_frame;
use serde_json::Value;
use std::time::Duration;

/// A prompt.
pub(crate) fn query(prompt: &str) -> ClientRequest {
    request(invocation(prompt))
}

/// A request with this message and without limits.
pub(crate) fn request(message: Value) -> ClientRequest {
    let message = match parse_client_frame(&message.to_string()).unwrap().unwrap().message {
        ClientMessage::Invocation(invocation) => RequestMessage::Invocation(invocation),
        ClientMessage::CommandExecution(execution) => RequestMessage::CommandExecution(execution),
        other => panic!("{other:?}"),
    };
    ClientRequest { message, timeout: None, idle_timeout: None }
}

/// All text until the request ended, and the request's outcome.
pub(crate) async fn until_ended(
    client: &RuntimeClient,
    number: u64,
) -> (Vec<String>, Result<Value, ErrorCode>) {
    let mut said = Vec::new();
    loop {
        let events =
            tokio::time::timeout(Duration::from_secs(60), client.next_events()).await.expect("events");
        assert!(!events.is_empty(), "over before the end; said {}", said.len());
        for event in events {
            match event {
                ClientEvent::Assistant { request, text_blocks } if request == number => {
                    said.extend(text_blocks)
                }
                ClientEvent::Output { request, text, .. } if request == number => said.push(text),
                ClientEvent::Ended { request, outcome } if request == number => {
                    let outcome = outcome.map(|result| match result {
                        RequestResult::Agent(result) => serde_json::to_value(result).unwrap(),
                        RequestResult::Commands(results) => serde_json::to_value(results).unwrap(),
                    });
                    return (said, outcome.map_err(|error| error.code()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
