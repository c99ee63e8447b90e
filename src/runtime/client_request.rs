//! PURE wire words of our client: what it asks, and what the runtime's messages mean to it.

use super::client::{ArtifactWanted, SessionEnd};
use crate::error::{Error, ErrorCode, Result};
use serde_json::{Map, Value, json};

/// A message of the runtime, understood. What is not understood is passed over.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeMessage {
    Hello {
        resumed: bool,
        received: u64,
    },
    Acknowledge(u64),
    Assistant(Vec<String>),
    Output {
        stream: String,
        text: String,
        command: String,
    },
    Heartbeat,
    Wanted(ArtifactWanted),
    /// The end of a request, whole: `result_message`, `command_execution_result_message` or `error_message`.
    Terminal(Map<String, Value>),
    Confirm(Map<String, Value>),
    /// Something that newer or other runtimes say.
    Other,
}

/// A frame of the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeFrame {
    pub message: RuntimeMessage,
    pub seq: Option<u64>,
    pub request_id: Option<String>,
    /// Of the frame.
    pub bytes: usize,
}

/// A frame's meaning; `None` when it is no JSON object.
pub fn parse_runtime_frame(text: &str) -> Option<RuntimeFrame> {
    let Ok(Value::Object(mut object)) = serde_json::from_str::<Value>(text) else { return None };
    let seq = object.get("seq").and_then(Value::as_u64);
    let request_id = object.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let kind = match object.get("message_type") {
        Some(Value::String(kind)) => kind.clone(),
        _ => String::new(),
    };
    let mut text_of = |name: &str| match object.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let message = match kind.as_str() {
        "command_output_message" => RuntimeMessage::Output {
            stream: text_of("stream"),
            text: text_of("text"),
            command: text_of("command"),
        },
        "assistant_message" => RuntimeMessage::Assistant(strings(object.remove("text_blocks"))),
        "heartbeat_message" => RuntimeMessage::Heartbeat,
        "artifact_upload_request_message" => {
            let (filename, filepath) = (text_of("filename"), text_of("filepath"));
            let upload_id = object.remove("upload_id").and_then(|id| id.as_str().map(str::to_owned));
            RuntimeMessage::Wanted(ArtifactWanted { filename, filepath, upload_id })
        }
        "result_message" | "command_execution_result_message" | "error_message" => {
            RuntimeMessage::Terminal(object)
        }
        "end_session_confirm_message" => RuntimeMessage::Confirm(object),
        "hello_message" => RuntimeMessage::Hello {
            resumed: object.get("resumed").and_then(Value::as_bool).unwrap_or(false),
            received: object.get("received").and_then(Value::as_u64).unwrap_or(0),
        },
        "ack_message" => match object.get("ack").and_then(Value::as_u64) {
            Some(ack) => RuntimeMessage::Acknowledge(ack),
            None => RuntimeMessage::Other,
        },
        _ => RuntimeMessage::Other,
    };
    Some(RuntimeFrame { message, seq, request_id, bytes: text.len() })
}

fn strings(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => {
            items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

pub fn hello(session_id: &str, received: u64) -> Value {
    json!({"message_type": "hello_message", "version": 1, "capabilities": ["resume", "artifact_upload_result", "artifact_upload_decline"],
           "session_id": session_id, "received": received})
}

pub fn upload_response(wanted: &ArtifactWanted, presigned_url: &str, content_type: &str) -> Value {
    let mut message = json!({"message_type": "artifact_upload_response_message", "filename": wanted.filename,
        "filepath": wanted.filepath, "presigned_url": presigned_url, "content_type": content_type});
    if let Some(id) = &wanted.upload_id {
        message["upload_id"] = id.as_str().into();
    }
    message
}

pub fn upload_decline(wanted: &ArtifactWanted, reason: &str) -> Value {
    let mut message = json!({"message_type": "artifact_upload_decline_message", "filepath": wanted.filepath, "reason": reason});
    if let Some(id) = &wanted.upload_id {
        message["upload_id"] = id.as_str().into();
    }
    message
}

/// A terminal as what its caller gets.
pub fn outcome_of(terminal: Map<String, Value>) -> Result<Map<String, Value>> {
    if terminal.get("message_type").and_then(Value::as_str) != Some("error_message") {
        return Ok(terminal);
    }
    let text = terminal
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or("the runtime reported an error without words");
    let metadata = terminal.get("metadata").cloned().unwrap_or_else(|| json!({}));
    Err(Error::new(ErrorCode::RuntimeFailed, text).with("metadata", metadata))
}

/// What a confirm says.
pub fn end_of(confirm: &Map<String, Value>) -> SessionEnd {
    let text =
        |file: &Value, name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    SessionEnd {
        confirmed: true,
        uploaded: confirm.get("uploaded").and_then(Value::as_u64).unwrap_or(0),
        undelivered: confirm
            .get("undelivered")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|file| (text(file, "path"), text(file, "reason")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_1_what_a_runtime_says_wrongly_is_passed_over() {
        for nonsense in ["", "[]", "5", "null", "{broken"] {
            assert_eq!(parse_runtime_frame(nonsense), None);
        }
        for other in [
            r#"{}"#,
            r#"{"message_type":5}"#,
            r#"{"message_type":"new"}"#,
            r#"{"message_type":"ack_message"}"#,
        ] {
            assert_eq!(parse_runtime_frame(other).unwrap().message, RuntimeMessage::Other);
        }
        let frame =
            parse_runtime_frame(r#"{"message_type":"assistant_message","text_blocks":["a",5,null,"b"]}"#);
        assert_eq!(frame.unwrap().message, RuntimeMessage::Assistant(vec!["a".into(), "b".into()]));
    }
}
