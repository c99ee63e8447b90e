//! The model's answer. PURE.

use ground::json::{self, Pieces};
use ground::tokens::{self, CachedInput, Tokens};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A complete answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    pub text: String,
    /// The value that fits the schema, when the request had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    pub tool_calls: Vec<ToolCall>,
    /// Sum over all attempts whose server reported a usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// The server's reason for the end of the answer: `stop`, `length`, `tool_calls`, ...
    pub finish_reason: String,
    /// Number of requests, the successful one included.
    pub attempts: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// The parsed arguments, or their text when they are not valid JSON.
    pub arguments: Value,
}

/// Longest part of a server's words that an error contains.
pub(super) const MAX_TOLD_CHARACTERS: usize = 4000;

/// An error that the server sent in place of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    pub status: Option<u16>,
    pub codes: Vec<String>,
    pub message: String,
}

/// The reason why a body is not a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The form is not that of a completion. The text says what is wrong.
    Wrong(String),
    Error(ServerError),
}

fn wrong<T>(problem: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed::Wrong(problem.into()))
}

/// A text that comes in pieces. Half a pair at the end of one waits for the other half.
#[derive(Debug, Default)]
struct Said {
    whole: String,
    pieces: Pieces,
}

impl Said {
    fn push(&mut self, piece: &str) {
        self.whole.push_str(&self.pieces.push(piece));
    }

    /// Content is a string, or a list of parts with text.
    fn push_content(&mut self, content: &Value) {
        match content {
            Value::String(piece) => self.push(piece),
            Value::Array(parts) => {
                for part in parts {
                    self.push(part["text"].as_str().unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    fn end(mut self) -> String {
        self.whole.push_str(self.pieces.end());
        self.whole
    }
}

/// The answer so far, built from chunks or from one whole completion.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: Said,
    refusal: Said,
    calls: Vec<CallParts>,
    /// The newest call of each index.
    places: HashMap<u64, usize>,
    usage: Option<Tokens>,
    finish_reason: Option<String>,
    has_choice: bool,
}

#[derive(Debug, Default)]
struct CallParts {
    id: String,
    name: String,
    text: Said,
    /// The arguments as JSON: some servers do not send them as text.
    value: Option<Value>,
}

impl Assembly {
    /// Adds one event of the stream. Unknown fields are ignored, because servers add their own.
    pub(crate) fn on_chunk(&mut self, chunk: &Value) -> Result<(), Malformed> {
        self.on_object(chunk, "delta")
    }

    /// Adds a completion that came in one piece.
    pub(crate) fn on_whole(&mut self, completion: &Value) -> Result<(), Malformed> {
        self.on_object(completion, "message")?;
        if choice(completion).is_none() {
            return wrong("the completion has no choices");
        }
        self.finish_reason.get_or_insert_with(|| "stop".to_owned());
        Ok(())
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text.whole
    }

    /// Whether the server said why the answer ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Whether any part of an answer came. A mere reason for its end counts too.
    pub(crate) fn has_choice(&self) -> bool {
        self.has_choice
    }

    pub(crate) fn finish(self) -> Result<Completion, Malformed> {
        let (text, refusal) = (self.text.end(), self.refusal.end());
        let is_explained = |reason: &String| {
            !matches!(reason.as_str(), "stop" | "end_turn" | "tool_calls" | "function_call")
        };
        let is_empty = text.trim().is_empty() && refusal.is_empty() && self.calls.is_empty();
        if is_empty && !self.finish_reason.as_ref().is_some_and(is_explained) {
            return wrong("the answer is empty: the model said nothing but, at most, its thoughts");
        }
        let tool_calls: Vec<ToolCall> =
            self.calls.into_iter().enumerate().map(|(place, parts)| parts.finish(place)).collect();
        let usual = if tool_calls.is_empty() { "stop" } else { "tool_calls" };
        Ok(Completion {
            text: if text.is_empty() { refusal } else { text },
            structured: None,
            tool_calls,
            usage: self.usage,
            finish_reason: self.finish_reason.unwrap_or_else(|| usual.to_owned()),
            attempts: 0,
        })
    }

    fn on_object(&mut self, object: &Value, part: &str) -> Result<(), Malformed> {
        let Some(fields) = object.as_object() else { return wrong("expected a JSON object") };
        if let Some(error) = ServerError::within(fields) {
            return Err(Malformed::Error(error));
        }
        if !fields.contains_key("choices") && fields.get("message").is_some_and(Value::is_string) {
            return Err(Malformed::Error(ServerError::of(object)));
        }
        if let Some(usage) = fields.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage_of(usage));
        }
        if let Some(choice) = choice(object) {
            let mut places =
                [Some(choice), choice.get(part)].into_iter().flatten().filter_map(Value::as_object);
            if let Some(error) = places.find_map(ServerError::within) {
                return Err(Malformed::Error(error));
            }
            if choice["finish_reason"] == "error" {
                let message = json!("the server broke the answer off (finish_reason \"error\")");
                return Err(Malformed::Error(ServerError { status: Some(502), ..ServerError::of(&message) }));
            }
            self.has_choice = true;
            if let Some(message) = choice.get(part) {
                self.text.push_content(&message["content"]);
                self.refusal.push_content(&message["refusal"]);
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    self.on_call(call);
                }
            }
            if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    /// Adds a piece of a tool call. Pieces with the same index belong together. Some servers leave the index out or send 0 for
    /// all calls, so a new id with a name begins a new call as well.
    fn on_call(&mut self, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let function = &piece["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let place = match index {
            Some(index) => self.places.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        let begins =
            |call: &CallParts| !id.is_empty() && !name.is_empty() && !call.id.is_empty() && call.id != id;
        let unmarked = index.is_none() && id.is_empty() && !name.is_empty();
        let place = place.filter(|place| !begins(&self.calls[*place]) && !unmarked);
        let call = match place {
            Some(place) => &mut self.calls[place],
            None => {
                let last = self.calls.len();
                self.calls.push(CallParts::default());
                index.map(|index| self.places.insert(index, last));
                &mut self.calls[last]
            }
        };
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // The name comes in one piece. Some servers repeat it in every piece; it must not be appended.
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        match &function["arguments"] {
            Value::String(text) => call.text.push(text),
            Value::Null => {}
            value => call.value = Some(value.clone()),
        }
    }
}

impl CallParts {
    fn finish(self, place: usize) -> ToolCall {
        let text = self.text.end();
        let arguments = match self.value {
            Some(value) => value,
            None if text.trim().is_empty() => json!({}),
            None => json::read::<Value>(&text).unwrap_or(Value::String(text)),
        };
        let id = if self.id.is_empty() { format!("call_{place}") } else { self.id };
        ToolCall { id, name: self.name, arguments }
    }
}

impl ServerError {
    /// Reads an error: `{ message, type, code }`, plain text, or any other value of the field `error`.
    pub fn of(error: &Value) -> Self {
        let word = |name: &str| error[name].as_str().map(told);
        let number = ["status", "code", "status_code"].iter().find_map(|name| {
            let status = error[name].as_u64().or_else(|| error[name].as_str()?.parse().ok())?;
            u16::try_from(status).ok().filter(|status| (400..600).contains(status))
        });
        let message =
            word("message").or_else(|| error.as_str().map(told)).unwrap_or_else(|| told(&error.to_string()));
        ServerError {
            status: number,
            codes: ["code", "type", "status"].iter().filter_map(|name| word(name)).collect(),
            message,
        }
    }

    /// The error in the field `error` of an object. Some servers always send the field, with empty values if there is no error.
    fn within(object: &Map<String, Value>) -> Option<Self> {
        object.get("error").filter(|error| !is_empty(error)).map(Self::of)
    }

    /// Reads the body of an error status: `{ error: ... }`, `{ message, ... }`, or any other text.
    pub fn of_body(body: &str) -> Self {
        match json::read::<Value>(body) {
            Ok(Value::Object(object)) => {
                Self::within(&object).unwrap_or_else(|| Self::of(&Value::Object(object)))
            }
            _ => ServerError { message: told(body.trim()), ..ServerError::default() },
        }
    }
}

/// The beginning of a server's words: they are searched many times, and shown.
fn told(text: &str) -> String {
    text.chars().take(MAX_TOLD_CHARACTERS).collect()
}

/// Whether a value says nothing: null, false, 0, or a text, list or object with nothing else in it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.iter().all(is_empty),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// The first choice. Requests ask for one choice only.
fn choice(object: &Value) -> Option<&Value> {
    let choices = object["choices"].as_array()?;
    choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

fn usage_of(usage: &Value) -> Tokens {
    let count = |path: &str| path.split('.').try_fold(usage, |inner, name| inner.get(name))?.as_u64();
    tokens::told(count, Some(CachedInput::Within)).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests/completion.rs"]
mod tests;
