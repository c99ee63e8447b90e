//! PURE: one message on the wire. It is read whole, and written anew: what passes is what was read.

use ground::error::{Error, ErrorCode};
use ground::json::{self, object::put};
use serde_json::{Value, json};

/// The three shapes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A method and an id.
    Request,
    /// A method without an id.
    Notice,
    /// An id, with a result or an error.
    Answer,
}

/// A message with all its members.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) shape: Shape,
    /// Bytes of its line; 0 for one of our own.
    pub(super) size: usize,
    /// A large message as it is written, without its id and its closing brace; `value` lacks what is long or deep then.
    whole: Option<Vec<u8>>,
    value: Value,
}

/// A longer line is not built as values, which take up to 45 times its length.
const LARGE: usize = 1 << 20;
/// A longer line with something that has to be replaced is not read.
const MOST_REPLACED: usize = 8 << 20;

/// A line that is no message.
#[derive(Debug)]
pub(super) struct Unread {
    /// The id that the sender waits for; null if there is none.
    pub(super) id: Value,
    code: i64,
    words: &'static str,
}

impl Unread {
    const NOT_JSON: Unread = Unread { id: Value::Null, code: -32_700, words: "Parse error" };

    pub(super) fn answer(&self) -> Value {
        let error = json!({ "code": self.code, "message": self.words });
        json!({ "jsonrpc": "2.0", "id": self.id, "error": error })
    }
}

impl Message {
    /// # Errors
    /// The line is not JSON, or no single message: a list is none.
    pub(super) fn read(line: &[u8]) -> Result<Message, Unread> {
        let whole = (line.len() > LARGE).then(|| json::rewritten(line, &["jsonrpc", "id"])).flatten();
        let value: Value = match &whole {
            Some(_) => json::pruned(line).ok_or(Unread::NOT_JSON)?,
            None if line.len() > MOST_REPLACED => return Err(Unread::NOT_JSON),
            None => json::read(line).map_err(|_| Unread::NOT_JSON)?,
        };
        let Value::Object(fields) = &value else { return Err(Unread::NOT_JSON) };
        let has_both = fields.contains_key("result") && fields.contains_key("error");
        if whole.is_some() && has_both {
            return Err(Unread { id: Value::Null, code: -32_600, words: "Invalid request" });
        }
        let has_outcome = fields.contains_key("result") || fields.contains_key("error");
        let id = fields.get("id");
        let is_id = id.is_some_and(|id| id.is_string() || id.is_number());
        let shape = match (fields.get("method"), id) {
            (Some(Value::String(_)), None) if !has_outcome => Shape::Notice,
            (Some(Value::String(_)), Some(_)) if is_id && !has_outcome => Shape::Request,
            // JavaScript leaves out a result that is undefined.
            (None, Some(_)) if is_id && (whole.is_none() || has_outcome) => Shape::Answer,
            (method, _) => {
                let id = id.filter(|_| is_id && method.is_some()).cloned().unwrap_or_default();
                return Err(Unread { id, code: -32_600, words: "Invalid request" });
            }
        };
        Ok(Message { shape, size: line.len(), whole, value })
    }

    /// A notification that is written already, but for its closing brace.
    pub(super) fn written(whole: Vec<u8>, size: usize) -> Message {
        Message { shape: Shape::Notice, size, whole: Some(whole), value: Value::Null }
    }

    fn own(shape: Shape, value: Value) -> Message {
        Message { shape, size: 0, whole: None, value }
    }

    /// A request or a notification of our own.
    pub(super) fn new(shape: Shape, method: &str, params: Value) -> Message {
        Message::own(shape, json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    pub(super) fn answer(result: Value) -> Message {
        Message::own(Shape::Answer, json!({ "jsonrpc": "2.0", "result": result }))
    }

    pub(super) fn refusal(error: &Error) -> Message {
        Message::own(Shape::Answer, json!({ "jsonrpc": "2.0", "error": fault_of(error) }))
    }

    /// The end of a turn of version 2 that has failed.
    pub(super) fn failed_turn(session: &str, error: &Error) -> Message {
        let update = json!({
            "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": fault_of(error),
        });
        Message::new(Shape::Notice, "session/update", json!({ "sessionId": session, "update": update }))
    }

    pub(super) fn fault(code: i64, words: &str) -> Message {
        let error = json!({ "code": code, "message": words });
        Message::own(Shape::Answer, json!({ "jsonrpc": "2.0", "error": error }))
    }

    pub(super) fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    pub(super) fn id(&self) -> &Value {
        &self.value["id"]
    }

    pub(super) fn params(&self) -> &Value {
        &self.value["params"]
    }

    /// The params, unless the message is large: then they pass as they are.
    pub(super) fn params_mut(&mut self) -> Option<&mut Value> {
        self.value.get_mut("params").filter(|_| self.whole.is_none())
    }

    /// Whether parts of it can't be looked at.
    pub(super) fn is_large(&self) -> bool {
        self.whole.is_some()
    }

    /// The session that is named. `Err`: it is named by something other than a text.
    pub(super) fn session(&self) -> Result<Option<&str>, ()> {
        match self.params().get("sessionId") {
            None => Ok(None),
            Some(Value::String(session)) => Ok(Some(session)),
            Some(_) => Err(()),
        }
    }

    /// The result of an answer, or its error.
    pub(super) fn outcome(&self) -> Result<&Value, &Value> {
        match self.value.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(error),
            None => Ok(&self.value["result"]),
        }
    }

    pub(super) fn result_mut(&mut self) -> Option<&mut Value> {
        self.value.get_mut("result")
    }

    /// An answer has one outcome: an error, or a result.
    pub(super) fn settle(mut self) -> Message {
        let has_error = self.outcome().is_err();
        if let Value::Object(fields) = &mut self.value {
            fields.shift_remove(if has_error { "result" } else { "error" });
            if !has_error {
                fields.entry("result").or_insert(Value::Null);
            }
        }
        self
    }

    /// Writes the message as a line, with an id of the reader's.
    pub(super) fn write(mut self, id: Option<Value>, lines: &mut Vec<u8>) {
        if let Some(mut whole) = self.whole {
            whole.extend_from_slice(br#","jsonrpc":"2.0""#);
            if let Some(id) = id {
                whole.extend_from_slice(format!(r#","id":{id}"#).as_bytes());
            }
            whole.extend_from_slice(b"}\n");
            escape_separators(&mut whole, 0);
            match lines.is_empty() {
                true => *lines = whole,
                false => lines.append(&mut whole),
            }
            return;
        }
        put(&mut self.value, "jsonrpc", "2.0");
        if let Some(id) = id {
            put(&mut self.value, "id", id);
        }
        write_line(&self.value, lines);
    }
}

pub(super) fn write_line(value: &Value, lines: &mut Vec<u8>) {
    let start = lines.len();
    // Writing a value into memory does not fail.
    let _ = serde_json::to_writer(&mut *lines, value);
    escape_separators(lines, start);
    lines.push(b'\n');
}

/// Writes U+2028 and U+2029 as escapes: some readers, `node:readline` among them, end a line there.
fn escape_separators(lines: &mut Vec<u8>, start: usize) {
    let Some(mut at) = separator(lines, start) else { return };
    let (mut escaped, mut copied) = (Vec::with_capacity(lines.len() - start + 64), start);
    loop {
        escaped.extend_from_slice(&lines[copied..at]);
        escaped.extend_from_slice(if lines[at + 2] == 0xa8 { br"\u2028" } else { br"\u2029" });
        copied = at + 3;
        match separator(lines, copied) {
            Some(found) => at = found,
            None => break,
        }
    }
    escaped.extend_from_slice(&lines[copied..]);
    lines.truncate(start);
    lines.append(&mut escaped);
}

fn separator(text: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr::memchr(0xe2, text.get(from..)?)?;
        if matches!(text.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// An error of Sheepdog as a JSON-RPC error; its own code is in `data`.
fn fault_of(error: &Error) -> Value {
    let code = if error.code() == ErrorCode::InvalidOption { -32_602 } else { -32_603 };
    let words = format!("{}: {}", error.code().as_str(), error.message());
    json!({ "code": code, "message": words, "data": { "code": error.code().as_str() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_of_three_shapes() {
        for (line, expected) in [
            (r#"{"id":1,"method":"x"}"#, Ok(Shape::Request)),
            (r#"{"id":"a","method":"x","params":[]}"#, Ok(Shape::Request)),
            (r#"{"method":"x"}"#, Ok(Shape::Notice)),
            (r#"{"id":1,"result":null}"#, Ok(Shape::Answer)),
            (r#"{"id":1,"error":{}}"#, Ok(Shape::Answer)),
            (r#"{"id":1}"#, Ok(Shape::Answer)),
            (r#"{"id":1,"method":7}"#, Err((-32_600, json!(1)))),
            (r#"{"id":1,"method":"x","result":1}"#, Err((-32_600, json!(1)))),
            (r#"{"id":null,"method":"x"}"#, Err((-32_600, json!(null)))),
            (r#"{"id":[1],"method":"x"}"#, Err((-32_600, json!(null)))),
            (r#"{"id":{},"result":1}"#, Err((-32_600, json!(null)))),
            (r#"{"result":1}"#, Err((-32_600, json!(null)))),
            ("{}", Err((-32_600, json!(null)))),
            (r#"[{"id":1,"method":"x"}]"#, Err((-32_700, json!(null)))),
            ("7", Err((-32_700, json!(null)))),
            ("no message", Err((-32_700, json!(null)))),
            (r#"{"id":1,"method":"\q"}"#, Err((-32_700, json!(null)))),
        ] {
            let read = Message::read(line.as_bytes());
            let told = read.map(|message| message.shape).map_err(|unread| (unread.code, unread.id));
            assert_eq!(told, expected, "{line}");
        }
    }

    #[test]
    fn a_message_is_one_line_for_every_reader() {
        for fill in [0, 2 * LARGE] {
            let text =
                format!("a\u{2028}{{}}\u{2029}\u{2027}\u{2014}\r\nb\u{85}{}\u{2028}", "x".repeat(fill));
            let line = json!({ "method": "m", "params": [text] }).to_string();
            let mut lines = b"before\xe2\x80\n".to_vec();
            Message::read(line.as_bytes()).unwrap().write(None, &mut lines);
            let written = &lines[9..];
            let written_text = std::str::from_utf8(written).unwrap();
            let ends = ['\n', '\r', '\u{2028}', '\u{2029}'];
            assert_eq!(written_text.find(ends), Some(written.len() - 1));
            assert!(json::read::<Value>(written).unwrap()["params"][0] == *text);
        }
    }

    #[test]
    fn a_large_message_is_written_with_all_its_members_and_looked_at_without_its_long_ones() {
        let text = "x".repeat(2 * LARGE);
        let line =
            format!(r#"{{"id":7,"method":"m","params":{{"long":"{text}","list":[1,{{"a":2}}]}},"more":1}}"#);
        let message = Message::read(line.as_bytes()).unwrap();
        assert_eq!(*message.params(), json!({ "long": null, "list": [1, { "a": 2 }] }));
        let mut lines = b"{}\n".to_vec();
        message.write(Some(json!("b")), &mut lines);
        let written: Value = json::read(&lines[3..]).unwrap();
        let expected = json!({ "jsonrpc": "2.0", "id": "b", "method": "m", "params": { "long": text, "list": [1, { "a": 2 }] }, "more": 1 });
        assert!(written == expected);
        let halved =
            |length: usize| format!(r#"{{"id":7,"method":"m","params":["{}\ud800"]}}"#, "x".repeat(length));
        assert!(Message::read(halved(2 * LARGE).as_bytes()).is_ok());
        assert!(Message::read(halved(MOST_REPLACED).as_bytes()).is_err());
        for members in [r#""result":1,"error":null,"#, ""] {
            let odd = format!(r#"{{"id":7,{members}"x":"{text}"}}"#);
            assert!(Message::read(odd.as_bytes()).is_err(), "{members}");
        }
    }

    #[test]
    fn an_answer_is_written_with_one_outcome_and_every_other_member() {
        for (line, expected) in [
            (r#"{"id":7,"x":[1.5,{"y":null}]}"#, json!({"x":[1.5,{"y":null}],"result":null})),
            (r#"{"id":7,"result":1,"error":{"code":1}}"#, json!({"error":{"code":1}})),
            (r#"{"id":7,"result":1,"error":null}"#, json!({"result":1})),
        ] {
            let mut lines = Vec::new();
            Message::read(line.as_bytes()).unwrap().settle().write(Some(json!("own")), &mut lines);
            let mut expected = expected;
            put(&mut expected, "jsonrpc", "2.0");
            put(&mut expected, "id", "own");
            assert_eq!(json::read::<Value>(&lines).unwrap(), expected, "{line}");
        }
    }
}
