//! Parses a frame, PURE and borrowed: the parts of a message are slices of the frame's bytes, and no value is built.

use ground::error::{Error, ErrorCode};
use ground::json;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write;

/// One message, its parts still in their JSON text.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    /// `id` is JSON text: a number or a string.
    Request {
        id: &'a str,
        method: Cow<'a, str>,
        params: &'a str,
    },
    Reply {
        id: &'a str,
        result: Result<&'a str, Refusal>,
    },
}

/// The error of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i64,
    pub message: String,
    /// Further data as JSON text.
    pub data: Option<String>,
}

impl Refusal {
    /// The error `RPC_ERROR` with its facts.
    pub(crate) fn into_error(self, method: &str) -> Error {
        let error =
            Error::new(ErrorCode::RpcError, self.message).with("rpcCode", self.code).with("method", method);
        match self.data.and_then(|data| json::read::<serde_json::Value>(&data).ok()) {
            Some(data) => error.with("data", data),
            None => error,
        }
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(default)]
    code: f64,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// The id of an error whose sender could not read the id of the request.
pub(super) const NO_ID: &str = "null";

/// Parses a frame; `None` when it is not a JSON-RPC message.
pub fn parse(frame: &[u8]) -> Option<Message<'_>> {
    let head: Head<'_> = json::read_borrowed(frame).ok()?;
    let params = head.params.map_or("null", RawValue::get);
    match (head.method.is_empty(), head.id) {
        (false, None) => Some(Message::Notification { method: head.method, params }),
        (false, Some(id)) => Some(Message::Request { id: id.get(), method: head.method, params }),
        (true, id) => {
            let result = match (head.error, id) {
                (Some(error), _) => Err(refusal(error)),
                (None, Some(_)) => Ok(head.result.map_or("null", RawValue::get)),
                (None, None) => return None,
            };
            Some(Message::Reply { id: id.map_or(NO_ID, RawValue::get), result })
        }
    }
}

fn refusal(error: &RawValue) -> Refusal {
    match json::read_borrowed::<ErrorBody<'_>>(error.get()) {
        Ok(body) => Refusal {
            code: body.code as i64,
            message: body.message.map(|message| text_of(message.get())).unwrap_or_default(),
            data: body.data.map(|data| data.get().to_owned()),
        },
        // The error does not have the usual form, so its whole text becomes the message.
        Err(_) => Refusal { code: 0, message: error.get().to_owned(), data: None },
    }
}

/// The text of a JSON value: a string without its quotes, any other value as JSON.
fn text_of(value: &str) -> String {
    json::read(value).unwrap_or_else(|_| value.to_owned())
}

/// Encodes a text as a JSON string literal.
pub fn quote(text: &str) -> String {
    // Serialising a string can't fail.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

pub fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quote(method))
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, quote(method))
}

/// Builds a reply. `id` and `result` are JSON text.
pub fn reply(id: &str, result: Result<&str, &Refusal>) -> String {
    match result {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(refusal) => {
            let mut text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":{}"#,
                refusal.code,
                quote(&refusal.message)
            );
            if let Some(data) = &refusal.data {
                let _ = write!(text, r#","data":{data}"#);
            }
            text.push_str("}}");
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_kinds_of_messages_apart() {
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","method":"a.b","params":{"x":[1]}}"#),
            Some(Message::Notification { method: "a.b".into(), params: r#"{"x":[1]}"# })
        );
        assert_eq!(
            parse(br#"{"id":"s","method":"m"}"#),
            Some(Message::Request { id: "\"s\"", method: "m".into(), params: "null" })
        );
        assert_eq!(parse(br#"{"id":7,"result":null}"#), Some(Message::Reply { id: "7", result: Ok("null") }));
        assert_eq!(parse(br#"{"id":7}"#), Some(Message::Reply { id: "7", result: Ok("null") }));
        let refused = Refusal { code: -32603, message: "no".into(), data: Some("{\"k\":1}".into()) };
        assert_eq!(
            parse(br#"{"id":7,"error":{"code":-32603,"message":"no","data":{"k":1}}}"#),
            Some(Message::Reply { id: "7", result: Err(refused) })
        );
    }

    #[test]
    fn an_error_of_an_unusual_form_still_fails_the_request() {
        for error in [r#""boom""#, "{}", r#"{"code":1.5,"message":"x"}"#, "[]"] {
            let frame = format!(r#"{{"id":1,"error":{error}}}"#);
            assert!(
                matches!(parse(frame.as_bytes()), Some(Message::Reply { result: Err(_), .. })),
                "{error}"
            );
        }
    }

    #[test]
    fn half_a_character_does_not_hide_the_rest_of_a_text() {
        let half = r#"{"id":1,"error":{"code":-32603,"message":"cut \ud83d"}}"#;
        let refused = Refusal { code: -32603, message: "cut \u{fffd}".into(), data: None };
        assert_eq!(parse(half.as_bytes()), Some(Message::Reply { id: "1", result: Err(refused) }));
    }

    #[test]
    fn an_error_without_an_id_is_an_error() {
        for frame in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"error":{"code":-32700,"message":"Parse error"}}"#,
        ] {
            let refused = Refusal { code: -32700, message: "Parse error".into(), data: None };
            assert_eq!(parse(frame.as_bytes()), Some(Message::Reply { id: NO_ID, result: Err(refused) }));
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        for frame in ["", "nonsense", "[]", "{}", "\"text\"", "{\"id\":1", "{\"method\":1}", "null"] {
            assert_eq!(parse(frame.as_bytes()), None, "{frame}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = request(3, "se\"nd", r#"{"a":"\u0000"}"#);
        assert_eq!(
            parse(text.as_bytes()),
            Some(Message::Request { id: "3", method: "se\"nd".into(), params: r#"{"a":"\u0000"}"# })
        );
        let refused = Refusal { code: -32601, message: "line\nbreak".into(), data: None };
        assert_eq!(
            parse(reply("\"x\"", Err(&refused)).as_bytes()),
            Some(Message::Reply { id: "\"x\"", result: Err(refused) })
        );
    }
}
