//! PURE: joins a character of which two pieces of the agent's text have a half each: it comes whole with the second piece.

use super::message::Message;
use super::piece::{self, Piece};
use ground::json::{self, Index, Pieces, object::put};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Most halves that wait. Behind them each half is replaced, as in a text that is no piece.
const MAX_WAITING: usize = 1024;

/// The place of the text in an update that is a piece: of a message, and of a tool's output.
const PLACES: [&[&str]; 2] = [&["content"], &["content", "content"]];

/// The halves that wait for the rest of their text.
#[derive(Default)]
pub(super) struct Halves {
    /// By session, and by what the text is of.
    waiting: HashMap<String, Vec<(String, Pieces)>>,
    /// Reused for each line that may be a piece.
    index: Index,
}

impl Halves {
    /// `line`: the message as the agent wrote it.
    pub(super) fn join(&mut self, session: &str, message: &mut Message, line: &[u8]) {
        let marked: Option<Value> = match json::keep_halves(line) {
            Cow::Owned(kept) => json::read(kept).ok(),
            Cow::Borrowed(_) if !self.waiting.contains_key(session) => return,
            Cow::Borrowed(_) => None,
        };
        let Some(update) = message.params_mut().and_then(|params| params.get_mut("update")) else { return };
        let Some(kind) = update["sessionUpdate"].as_str().filter(|kind| kind.ends_with("_chunk")) else {
            return;
        };
        let text_of = format!("{kind} {}", update["toolCallId"].as_str().unwrap_or_default());
        for place in PLACES {
            let found = place.iter().try_fold(&mut *update, |value, name| value.get_mut(*name));
            let Some(content) = found.filter(|content| content["text"].is_string()) else { continue };
            let marked = marked.as_ref().map(|marked| {
                &place.iter().fold(&marked["params"]["update"], |value, name| &value[*name])["text"]
            });
            let text = marked.unwrap_or(&content["text"]).as_str().unwrap_or_default();
            if let Some(whole) = self.push(session, &text_of, text) {
                put(content, "text", whole);
            }
        }
    }

    fn push(&mut self, session: &str, text_of: &str, piece: &str) -> Option<String> {
        let count: usize = self.waiting.values().map(Vec::len).sum();
        let waiting = self.waiting.entry(session.to_owned()).or_default();
        let known = waiting.iter().position(|(known, _)| known == text_of);
        let mut pieces = known.map(|index| waiting.remove(index).1).unwrap_or_default();
        let mut whole = match pieces.push(piece) {
            Cow::Owned(whole) => Some(whole),
            Cow::Borrowed(_) => None,
        };
        match &mut whole {
            Some(whole) if count >= MAX_WAITING => whole.push_str(pieces.end()),
            _ if pieces.is_open() => waiting.push((text_of.to_owned(), pieces)),
            _ => {}
        }
        if waiting.is_empty() {
            self.waiting.remove(session);
        }
        whole
    }

    /// Reads a piece that no half waits for.
    pub(super) fn whole_piece(&mut self, line: &[u8]) -> Option<Piece> {
        if self.waiting.is_empty() { piece::read(&mut self.index, line) } else { None }
    }

    /// The texts of the session have ended.
    pub(super) fn end(&mut self, session: &str) {
        self.waiting.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_many_values_is_no_piece_and_takes_no_memory() {
        let mut halves = Halves::default();
        let line = format!(r#"{{"jsonrpc":"2.0","x":[{}]}}"#, vec!["[]"; 1 << 20].join(","));
        assert!(halves.whole_piece(line.as_bytes()).is_none());
        assert!(format!("{:?}", halves.index).len() < line.len() / 10);
    }
}
