//! PURE: text that comes in pieces, each a JSON string of its own. A service may end a piece within a character: `"\ud83d"`, then
//! `"\ude00"`. What is not whole waits for the next piece.

use std::borrow::Cow;

/// It is no character of any text, so that it may stand before what has a meaning of ours here: a half of a pair, until the other half
/// is there, as a character of private use; and itself, if a text has it all the same.
const MARK: char = char::MAX;
const MARK_BEGINS: u8 = 0xF4;
const HALVES: u32 = 0xE000;
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

pub(super) fn has_mark(text: &[u8]) -> bool {
    memchr::memchr(MARK_BEGINS, text).is_some()
}

/// The JSON text with halves of pairs that [`Pieces`] can join. Nothing else changes.
pub fn keep_halves(text: &[u8]) -> Cow<'_, [u8]> {
    let mut kept: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(offset) = memchr::memchr2(b'\\', MARK_BEGINS, text.get(at..).unwrap_or_default()) {
        let start = at + offset;
        let (length, marked) = read_at(text, start);
        at = start + length;
        let Some(marked) = marked else { continue };
        let kept = kept.get_or_insert_default();
        kept.extend_from_slice(&text[copied..start]);
        for letter in [MARK, marked] {
            kept.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        copied = at;
    }
    match kept {
        Some(mut kept) => {
            kept.extend_from_slice(text.get(copied..).unwrap_or_default());
            Cow::Owned(kept)
        }
        None => Cow::Borrowed(text),
    }
}

/// How long the byte, character or escape is that begins there, and what is to stand for it behind a mark.
fn read_at(text: &[u8], at: usize) -> (usize, Option<char>) {
    let mut bytes = [0; 4];
    let mark = MARK.encode_utf8(&mut bytes);
    match (unit_at(text, at), unit_at(text, at + 6)) {
        (Some(high), Some(low)) if is_high(high) && is_low(low) => {
            (12, (code_of(high, low) == u32::from(MARK)).then_some(MARK))
        }
        (Some(half), _) if is_high(half) || is_low(half) => (6, char::from_u32(HALVES + half - 0xD800)),
        (Some(_), _) => (6, None),
        (None, _) if text.get(at) == Some(&b'\\') => (2, None),
        (None, _) if text.get(at..).is_some_and(|rest| rest.starts_with(mark.as_bytes())) => (4, Some(MARK)),
        (None, _) => (1, None),
    }
}

/// The character of a pair.
pub(super) fn code_of(high: u32, low: u32) -> u32 {
    0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
}

/// The number of an escape `\uXXXX` that begins there.
pub(super) fn unit_at(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

pub(super) fn is_high(unit: u32) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

pub(super) fn is_low(unit: u32) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// Joins the pieces of one text.
#[derive(Debug, Default)]
pub struct Pieces {
    open: Option<u32>,
}

impl Pieces {
    /// The text that is whole with this piece; half a pair at its end waits.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if self.open.is_none() && !has_mark(piece.as_bytes()) {
            return Cow::Borrowed(piece);
        }
        let mut whole = String::with_capacity(piece.len() + 4);
        let mut letters = piece.chars();
        while let Some(letter) = letters.next() {
            let marked = (letter == MARK).then(|| letters.clone().next()).flatten();
            let half = marked.and_then(|marked| u32::from(marked).checked_sub(HALVES));
            let unit = half.map(|half| 0xD800 + half).filter(|unit| is_high(*unit) || is_low(*unit));
            if unit.is_some() || marked == Some(MARK) {
                letters.next();
            }
            match (self.open.take(), unit) {
                (Some(high), Some(low)) if is_low(low) => {
                    whole.push(char::from_u32(code_of(high, low)).unwrap_or(REPLACEMENT));
                    continue;
                }
                (Some(_), _) => whole.push(REPLACEMENT),
                (None, _) => {}
            }
            match unit {
                Some(unit) if is_high(unit) => self.open = Some(unit),
                Some(_) => whole.push(REPLACEMENT),
                None => whole.push(letter),
            }
        }
        Cow::Owned(whole)
    }

    /// Whether half a pair waits.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The rest at the end of the text.
    pub fn end(&mut self) -> &'static str {
        if self.open.take().is_some() { "\u{fffd}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Index, read};
    use proptest::prelude::*;

    fn joined(pieces: &[&str]) -> String {
        let mut joiner = Pieces::default();
        let mut whole = String::new();
        for piece in pieces {
            let piece: String = read(keep_halves(piece.as_bytes())).unwrap();
            whole.push_str(&joiner.push(&piece));
        }
        whole + joiner.end()
    }

    #[test]
    fn a_character_in_two_pieces_is_whole() {
        for (pieces, expected) in [
            (&[r#""a\ud83d""#, r#""\ude00b""#][..], "a😀b"),
            (&[r#""\uD83D""#, r#""""#, r#""\uDE00""#], "😀"),
            (&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b"),
            (&[r#""\ude00""#, r#""a\ud83d""#], "\u{fffd}a\u{fffd}"),
            (&[r#""\ud83d\ud83d""#, r#""\ude00""#], "\u{fffd}😀"),
            (&[r#""\\ud83d""#, r#""\\ude00""#], "\\ud83d\\ude00"),
            (&[r#""\ud83d\ude00""#], "😀"),
            (
                &["\"\u{10f800}\u{10ffff}\"", r#""\udbff\udfff\ue000""#],
                "\u{10f800}\u{10ffff}\u{10ffff}\u{e000}",
            ),
            (&[r#""plain é \n""#, r#""😀""#], "plain é \n😀"),
        ] {
            assert_eq!(joined(pieces), expected, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn however_a_text_is_cut_it_is_whole(
            units in prop::collection::vec(prop_oneof![0xd7f0u16..0xe010, 0xdbfdu16..0xdc02, any::<u16>()], 0..20),
            cuts in prop::collection::vec(0usize..20, 0..4),
        ) {
            let escaped: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let mut pieces = vec![String::new()];
            for (at, unit) in escaped.iter().enumerate() {
                if cuts.contains(&at) {
                    pieces.push(String::new());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push_str(unit);
                }
            }
            let pieces: Vec<String> = pieces.iter().map(|piece| format!("\"{piece}\"")).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(joined(&pieces), String::from_utf16_lossy(&units));
        }

        #[test]
        fn a_line_with_halves_is_known_before_they_are_looked_for(
            parts in prop::collection::vec(prop_oneof![Just("\\ud83d"), Just("\\n"), Just("\u{10f800}"), Just("\u{10ffff}"), Just("é")], 0..20),
        ) {
            let line = format!("{{\"text\":\"{}\"}}", parts.concat());
            let mut index = Index::default();
            let whole = index.read(line.as_bytes()).unwrap();
            let is_changed = matches!(keep_halves(line.as_bytes()), Cow::Owned(_));
            prop_assert!(whole.may_have_halves() || !is_changed);
            prop_assert_eq!(whole.may_have_halves(), parts.iter().any(|part| !["é", "\\n"].contains(part)));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = keep_halves(&bytes);
        }
    }
}
