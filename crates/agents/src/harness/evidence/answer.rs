//! PURE: puts the agent's answer together from pieces of a message, whole messages, or parts of one. Its length is bounded.

use crate::harness::clip::head;
use ground::json::Pieces;
use serde_json::Value;
use std::borrow::Cow;

/// Longest answer that is put together of pieces; what is beyond is left out.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The warning of it.
pub(crate) const LEFT_OUT: &str = "the answer is longer than 16 MiB: the rest of it was left out";

#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    /// The message that `text` belongs to.
    key: Option<String>,
    /// The message that is being streamed.
    partial: String,
    /// Start of the last message in `text`, where messages join.
    message_at: usize,
    /// Start of the last piece there.
    piece_at: usize,
    is_cut: bool,
    is_cut_told: bool,
    pieces: Pieces,
    /// The answer that the CLI's own schema flag produced.
    pub(crate) structured: Option<Value>,
}

impl Answer {
    /// Discards the streamed text of a message that never ended, so that it does not become part of the next message.
    pub(crate) fn message_begins(&mut self) {
        self.partial.clear();
    }

    /// A piece of the message. Returns it with half a character that came before.
    pub(crate) fn delta<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let text = self.pieces.push(text);
        append(&mut self.partial, &text, &mut self.is_cut);
        text
    }

    /// A whole message, or a whole part of the message `key`. Returns whether its words were streamed before.
    pub(crate) fn whole(&mut self, key: Option<&str>, text: &str) -> bool {
        let is_streamed = self.partial == text;
        self.partial.clear();
        if text.is_empty() {
            return is_streamed;
        }
        if key.is_none() || self.key.as_deref() != key {
            self.text.clear();
            self.key = key.map(str::to_owned);
        }
        if self.text.is_empty() {
            // One line holds it, and lines are bounded.
            self.text.push_str(text);
        } else {
            append(&mut self.text, text, &mut self.is_cut);
        }
        is_streamed
    }

    /// The streamed message has ended, and no whole one comes.
    pub(crate) fn message_ends(&mut self) {
        if !self.partial.is_empty() {
            self.text = std::mem::take(&mut self.partial);
            self.key = None;
        }
    }

    /// Words of the message `key`, a piece or all of them, where messages join as paragraphs. Returns what is new.
    pub(crate) fn join<'a>(&mut self, key: Option<&str>, text: &'a str, whole: bool) -> Option<Cow<'a, str>> {
        let text = self.pieces.push(text);
        if text.is_empty() {
            return None;
        }
        let is_same = self.key.as_deref() == key;
        let is_known = is_same && key.is_some() && !self.text.is_empty();
        self.key = key.map(str::to_owned);
        if !is_same && !self.text.is_empty() {
            append(&mut self.text, "\n\n", &mut self.is_cut);
            self.message_at = self.text.len();
        }
        if whole && is_known {
            let is_told = self.text[self.message_at..] == *text;
            self.text.truncate(self.message_at);
            append(&mut self.text, &text, &mut self.is_cut);
            return (!is_told).then_some(text);
        }
        self.piece_at = self.text.len();
        append(&mut self.text, &text, &mut self.is_cut);
        Some(text)
    }

    /// The words so far are no part of the answer.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        (self.message_at, self.piece_at, self.key) = (0, 0, None);
    }

    pub(crate) fn last_piece(&self) -> &str {
        self.text.get(self.piece_at..).unwrap_or_default()
    }

    /// The end of the pieces: half a character is replaced.
    pub(crate) fn pieces_end(&mut self) {
        self.text.push_str(self.pieces.end());
    }

    /// While a message is being streamed, what there is of it.
    pub(crate) fn text(&self) -> &str {
        if self.partial.is_empty() { &self.text } else { &self.partial }
    }

    pub(crate) fn take_text(&mut self) -> String {
        std::mem::take(if self.partial.is_empty() { &mut self.text } else { &mut self.partial })
    }

    /// Whether something was left out and nobody was told yet.
    pub(crate) fn take_cut(&mut self) -> bool {
        self.is_cut && !std::mem::replace(&mut self.is_cut_told, self.is_cut)
    }
}

/// Appends to a text that stays within [`MAX_ANSWER_BYTES`]. Sets `is_cut` when something was left out.
pub(crate) fn append(text: &mut String, more: &str, is_cut: &mut bool) {
    let room = MAX_ANSWER_BYTES.saturating_sub(text.len());
    if more.len() <= room {
        text.push_str(more);
    } else {
        *is_cut = true;
        text.push_str(head(more, room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_message_join_and_the_next_message_replaces_them() {
        let mut answer = Answer::default();
        answer.whole(Some("1"), "a");
        answer.whole(Some("1"), "b");
        assert_eq!(answer.text(), "ab");
        answer.whole(Some("2"), "c");
        assert_eq!(answer.text(), "c");
    }

    #[test]
    fn an_answer_without_end_is_kept_within_bounds() {
        let mut answer = Answer::default();
        let piece = "\u{e9}".repeat(1 << 20);
        for _ in 0..20 {
            answer.delta(&piece);
        }
        assert!(answer.text().len() <= MAX_ANSWER_BYTES);
        assert!(answer.take_cut() && !answer.take_cut());
    }
}
