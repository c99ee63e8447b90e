//! PURE: text that comes in pieces, each a JSON string of its own. A service may end a piece within a character: `"\ud83d"`, then
//! `"\ude00"`. What is not whole waits for the next piece.

use std::borrow::Cow;

/// A half of a pair stands as a character of private use, until the other half is there.
const FIRST: u32 = 0x10_F800;
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// The JSON text with halves of pairs that [`Pieces`] can join. Nothing else changes.
pub fn keep_halves(text: &[u8]) -> Cow<'_, [u8]> {
    let mut kept: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(offset) = memchr::memchr(b'\\', text.get(at..).unwrap_or_default()) {
        let start = at + offset;
        at = start + 2;
        let Some(unit) = unit_at(text, start) else { continue };
        at = start + 6;
        if is_high(unit) && unit_at(text, at).is_some_and(is_low) {
            at += 6;
        } else if (is_high(unit) || is_low(unit))
            && let Some(half) = char::from_u32(FIRST + unit - 0xD800)
        {
            let kept = kept.get_or_insert_default();
            kept.extend_from_slice(&text[copied..start]);
            kept.extend_from_slice(half.encode_utf8(&mut [0; 4]).as_bytes());
            copied = at;
        }
    }
    match kept {
        Some(mut kept) => {
            kept.extend_from_slice(text.get(copied..).unwrap_or_default());
            Cow::Owned(kept)
        }
        None => Cow::Borrowed(text),
    }
}

/// The number of an escape `\uXXXX` that begins there.
fn unit_at(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_high(unit: u32) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn is_low(unit: u32) -> bool {
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
        // The first byte of all halves in UTF-8.
        if self.open.is_none() && memchr::memchr(0xF4, piece.as_bytes()).is_none() {
            return Cow::Borrowed(piece);
        }
        let mut whole = String::with_capacity(piece.len() + 4);
        for letter in piece.chars() {
            let unit = u32::from(letter).checked_sub(FIRST).map(|offset| 0xD800 + offset);
            match (self.open.take(), unit) {
                (Some(high), Some(low)) if is_low(low) => {
                    let pair = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    whole.push(char::from_u32(pair).unwrap_or(REPLACEMENT));
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

    /// The rest at the end of the text.
    pub fn end(&mut self) -> &'static str {
        if self.open.take().is_some() { "\u{fffd}" } else { "" }
    }

    /// A text whose pieces were put together already.
    pub fn whole(text: &str) -> Cow<'_, str> {
        let mut pieces = Pieces::default();
        match (pieces.push(text), pieces.end()) {
            (whole, "") => whole,
            (whole, end) => Cow::Owned(whole.into_owned() + end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;
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
            (&[r#""plain é \n""#, r#""😀""#], "plain é \n😀"),
        ] {
            assert_eq!(joined(pieces), expected, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn however_a_text_is_cut_it_is_whole(
            units in prop::collection::vec(prop_oneof![0xd7f0u16..0xe010, any::<u16>()], 0..20),
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
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = keep_halves(&bytes);
        }
    }
}
