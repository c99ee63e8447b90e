//! PURE: a piece of an agent's text, read and written anew without building its values. Agents send a hundred thousand of them.

use super::message::Message;
use crate::acp::wire::update::Update;
use ground::json::{self, Index, Json};
use std::borrow::Cow;

/// Most tokens of a line that is a piece; one with each member has 58.
const MOST_TOKENS: usize = 64;

/// A `session/update` with a piece of text and nothing else.
pub(super) struct Piece {
    pub(super) session: String,
    pub(super) update: Update,
    pub(super) message: Message,
}

/// `None`: the line is something else, or has more members than these.
pub(super) fn read(index: &mut Index, line: &[u8]) -> Option<Piece> {
    // A half waits for the next piece: see `halves`.
    if matches!(json::keep_halves(line), Cow::Owned(_)) {
        return None;
    }
    let size = line.len();
    let line = index.read_few(line, MOST_TOKENS).filter(|line| line.is_strict())?;
    let [version, method, params] = members(line.json(), ["jsonrpc", "method", "params"])?;
    let [session, update] = members(params, ["sessionId", "update"])?;
    let [kind, content, told] = match members(update, ["sessionUpdate", "content", "messageId"]) {
        Some(all) => all,
        None => {
            let [kind, content] = members(update, ["sessionUpdate", "content"])?;
            [kind, content, Json::default()]
        }
    };
    let [form, text] = members(content, ["type", "text"])?;
    if !(version.is("2.0") && method.is("session/update") && form.is("text")) {
        return None;
    }
    let message = told.text();
    if message.is_none() && !told.is_absent() {
        return None;
    }
    let (session, text) = (session.text()?.into_owned(), text.text()?);
    let is_thought = kind.is("agent_thought_chunk");
    if !is_thought && !kind.is("agent_message_chunk") {
        return None;
    }
    let mut whole = Vec::with_capacity(size + 16);
    whole.extend_from_slice(br#"{"method":"session/update","params":{"sessionId":"#);
    put(&mut whole, &session);
    whole.extend_from_slice(br#","update":{"sessionUpdate":""#);
    whole.extend_from_slice(kind.word());
    whole.extend_from_slice(br#"","content":{"type":"text","text":"#);
    put(&mut whole, &text);
    whole.push(b'}');
    if let Some(message) = &message {
        whole.extend_from_slice(br#","messageId":"#);
        put(&mut whole, message);
    }
    whole.extend_from_slice(b"}}");
    let text = text.into_owned();
    let update = match is_thought {
        true => Update::Thought { text },
        false => {
            let message = message.filter(|message| !message.is_empty()).map(Cow::into_owned);
            Update::Text { text, message, whole: false, usage: None }
        }
    };
    Some(Piece { session, update, message: Message::written(whole, size) })
}

/// The members, if the object has each of them once and no others.
fn members<'a, const N: usize>(object: Json<'a>, names: [&str; N]) -> Option<[Json<'a>; N]> {
    let found = object.fields(names);
    (object.values().count() == N && found.iter().all(|member| !member.is_absent())).then_some(found)
}

fn put(line: &mut Vec<u8>, text: &str) {
    // Writing a text into memory does not fail.
    let _ = serde_json::to_writer(line, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read_both(line: &str) -> (Option<Piece>, Option<Message>) {
        (read(&mut Index::default(), line.as_bytes()), Message::read(line.as_bytes()).ok())
    }

    fn written(message: Message) -> Value {
        let mut lines = Vec::new();
        message.write(None, &mut lines);
        json::read(lines).unwrap()
    }

    /// Whether it is read as a piece, and then as it is by its values.
    fn is_piece(line: &str) -> bool {
        let (piece, message) = read_both(line);
        let Some(piece) = piece else { return false };
        let message = message.expect("a message");
        assert_eq!(message.session(), Ok(Some(piece.session.as_str())), "{line}");
        assert_eq!(Update::read(&message.params()["update"]), piece.update, "{line}");
        assert_eq!(written(piece.message), written(message), "{line}");
        true
    }

    fn line_of(update: &str, beside: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}{beside}}}"#
        )
    }

    #[test]
    fn a_piece_is_read_and_written_as_by_its_values() {
        for (update, beside, expected) in [
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a \u00e9 \n\" \u2028 \ud83d\ude00"}}"#,
                "",
                true,
            ),
            (
                r#"{ "content" : {"text":"","type":"text"}, "messageId":"m", "sessionUpdate":"agent_thought_chunk"}"#,
                "",
                true,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":""}"#,
                "",
                true,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":null}"#,
                "",
                false,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":7}"#,
                "",
                false,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#,
                "",
                false,
            ),
            (r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\q"}}"#, "", false),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","text":"b"}}"#,
                "",
                false,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"_meta":{}}"#,
                "",
                false,
            ),
            (r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","text":"a"}}"#, "", false),
            (r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"}}"#, "", false),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#,
                r#","id":1"#,
                false,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#,
                r#","method":"x""#,
                false,
            ),
        ] {
            assert_eq!(is_piece(&line_of(update, beside)), expected, "{update}{beside}");
        }
        assert!(!is_piece("[]") && !is_piece("") && !is_piece("{}"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_written_as_by_its_values(session in ".*", text in ".*", message in prop::option::of(".*")) {
            let mut update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
            if let Some(message) = message {
                json::object::put(&mut update, "messageId", message);
            }
            let params = json!({ "sessionId": session, "update": update });
            is_piece(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string());
        }
    }
}
