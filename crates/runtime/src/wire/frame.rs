//! PURE: the envelope of a message in its frame, at both ends.

use super::client_message::{ClientMessage, MAX_ID_BYTES};
use super::fitting::head_and_tail;
use super::json;
use super::runtime_message::{RuntimeMessage, ends_a_request};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest part of a problem's description that is kept: it may quote the peer's frame.
const MAX_PROBLEM_BYTES: usize = 1024;

/// A frame of a client, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientFrame {
    pub message: ClientMessage,
    /// Position in the client's stream. Clients that do not know resume send none.
    pub seq: Option<u64>,
    /// Number of the server's last frame that the client has read.
    pub ack: Option<u64>,
    /// Length of the frame.
    pub bytes: usize,
}

/// The reason why a frame is refused, worded for the peer. It contains no path and no stack of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub problem: String,
    pub request_id: Option<String>,
    pub seq: Option<u64>,
    /// Length of the frame.
    pub bytes: usize,
}

/// A frame of a runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeFrame {
    /// The message; [`RuntimeMessage::Unknown`] when it can't be read.
    pub message: RuntimeMessage,
    /// The reason why the message can't be read, when its type is one that ends a request.
    pub problem: Option<String>,
    pub seq: Option<u64>,
    pub request_id: Option<String>,
    /// Length of the frame.
    pub bytes: usize,
}

/// The fields by which a frame is classified. A field of the wrong type counts as absent.
#[derive(Default, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    message_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    seq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ack: Option<&'a RawValue>,
}

fn number(value: Option<&RawValue>) -> Option<u64> {
    ground::json::read(value?.get()).ok()
}

fn string(value: Option<&RawValue>) -> Option<String> {
    json::read(value?.get()).ok()
}

fn is_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
}

/// Parses a client's frame. `Ok(None)`: valid JSON that is not a known message; it is ignored.
pub fn parse_client_frame(text: &str) -> Result<Option<ClientFrame>, Malformed> {
    let bytes = text.len();
    let refused = |problem: String| Malformed { problem, request_id: None, seq: None, bytes };
    let no_json = |error: serde_json::Error| {
        let what = if error.is_data() { "the frame is malformed" } else { "the frame is not valid JSON" };
        refused(format!("{what}: {error}"))
    };
    if !is_object(text) {
        ground::json::read_borrowed::<IgnoredAny>(text).map_err(no_json)?;
        return match text.trim() {
            "null" => Err(refused("expected a JSON object, got null".to_owned())),
            _ => Ok(None),
        };
    }
    let envelope: Envelope<'_> = ground::json::read_borrowed(text).map_err(no_json)?;
    let (seq, ack) = (number(envelope.seq), number(envelope.ack));
    let tag = string(envelope.message_type).unwrap_or_default();
    let read = ClientMessage::read(&tag, text).and_then(|message| match message.problem() {
        Some(problem) => Err(problem),
        None => Ok(message),
    });
    match read {
        Ok(message) => Ok(Some(ClientFrame { message, seq, ack, bytes })),
        Err(problem) => {
            // Both are the peer's own words, of any length.
            let (problem, _) = head_and_tail(&format!("{tag}: {problem}"), MAX_PROBLEM_BYTES);
            let request_id = string(envelope.request_id).filter(|id| id.len() <= MAX_ID_BYTES);
            Err(Malformed { problem, request_id, seq, bytes })
        }
    }
}

/// Parses a runtime's frame; `None` when it is not a JSON object. Unreadable messages are ignored, except those that end a
/// request.
pub fn parse_runtime_frame(text: &str) -> Option<RuntimeFrame> {
    let envelope: Envelope<'_> = is_object(text).then(|| ground::json::read_borrowed(text).ok())??;
    let tag = string(envelope.message_type).unwrap_or_default();
    let (message, problem) = match RuntimeMessage::read(&tag, text) {
        Ok(message) => (message, None),
        Err(problem) if ends_a_request(&tag) => (RuntimeMessage::Unknown, Some(format!("{tag}: {problem}"))),
        // The session is over, whatever else the message contains.
        Err(_) if tag == "end_session_confirm_message" => (RuntimeMessage::Confirm(Default::default()), None),
        Err(_) => (RuntimeMessage::Unknown, None),
    };
    let (seq, request_id) = (number(envelope.seq), string(envelope.request_id));
    Some(RuntimeFrame { message, problem, seq, request_id, bytes: text.len() })
}

/// A message without its envelope: a JSON object, serialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(pub(super) String);

impl Body {
    /// Serialises a message without a check of its length. For messages that are short, or whose text is fixed.
    pub fn of(message: &impl Serialize) -> Body {
        // The keys of a message are strings, so serialising can't fail.
        Body(serde_json::to_string(message).unwrap_or_else(|_| "{}".to_owned()))
    }

    /// The frame: the message with its place in the stream and its request.
    pub fn into_frame(self, request_id: Option<&str>, seq: u64) -> String {
        let mut frame = self.0;
        frame.pop();
        if let Some(id) = request_id {
            frame.push_str(",\"request_id\":");
            frame.push_str(&serde_json::Value::from(id).to_string());
        }
        frame.push_str(&format!(",\"seq\":{seq}}}"));
        frame
    }

    /// The frame of a message that belongs to the socket and not to the stream.
    pub fn into_bare_frame(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_nobody_knows_may_be_anything() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        for odd in [deep.as_str(), "1e999", r#""\ud83d""#, r#"{"a":["\ude00"]}"#] {
            let text = format!(r#"{{"message_type":"cancel_message","seq":3,"odd":{odd}}}"#);
            let frame = parse_client_frame(&text).unwrap().unwrap();
            assert_eq!((frame.message, frame.seq), (ClientMessage::Cancel, Some(3)));
            let text = format!(r#"{{"message_type":"ack_message","ack":3,"odd":{odd}}}"#);
            assert!(parse_runtime_frame(&text).is_some_and(|frame| frame.message != RuntimeMessage::Unknown));
            let text = format!(r#"{{"message_type":{odd}}}"#);
            assert_eq!(parse_client_frame(&text).unwrap().unwrap().message, ClientMessage::Unknown);
        }
    }

    #[test]
    fn a_message_that_can_not_be_read_still_has_its_place() {
        let text = r#"{"message_type":"command_execution_message","commands":5,"seq":4,"request_id":"mine"}"#;
        let malformed = parse_client_frame(text).unwrap_err();
        assert_eq!(
            (malformed.seq, malformed.request_id.as_deref(), malformed.bytes),
            (Some(4), Some("mine"), text.len())
        );
    }

    #[test]
    fn rule_16_every_frame_names_its_place_and_its_request() {
        let frame =
            Body::of(&RuntimeMessage::Acknowledge(super::super::client_message::Acknowledge { ack: 5 }));
        let frame: serde_json::Value =
            ground::json::read(frame.into_frame(Some("request \"1\""), 7)).unwrap();
        assert_eq!(frame["seq"], 7);
        assert_eq!(frame["request_id"], "request \"1\"");
        assert_eq!((&frame["message_type"], &frame["ack"]), (&"ack_message".into(), &5.into()));
    }
}
