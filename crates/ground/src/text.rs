//! PURE. A block of lines in the encoding that JavaScript strings use. It is decoded here, so that JavaScript's thread only
//! copies it.

use memchr::memchr;
use std::borrow::Cow;

/// A name as text. Two names that aren't text stay two: each byte of them that is none is told by its number, behind U+FFFD.
pub fn told(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        text.push_str(part.valid());
        for byte in part.invalid() {
            text.push_str(&format!("\u{FFFD}{byte:02x}"));
        }
    }
    text
}

/// Lines joined by `\n`, without a final line end; or unchanged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Text without characters beyond U+00FF: one byte each.
    Latin1(Vec<u8>),
    Utf16(Vec<u16>),
    /// Bytes that are not decoded.
    Raw(Vec<u8>),
}

impl Text {
    /// Decodes whole lines; `\r\n` counts as `\n`, invalid UTF-8 is replaced.
    pub fn of_block(mut block: Vec<u8>) -> Text {
        if block.last() == Some(&b'\n') {
            block.pop();
        }
        if memchr(b'\r', &block).is_some() {
            block = without_carriage_returns(&block);
        }
        if block.is_ascii() {
            return Text::Latin1(block);
        }
        let text = decode(&block);
        // In valid UTF-8 these bytes begin exactly the characters from U+0100 on.
        if text.bytes().any(|byte| byte >= 0xC4) {
            Text::Utf16(text.encode_utf16().collect())
        } else {
            Text::Latin1(text.chars().map(|character| character as u8).collect())
        }
    }
}

/// Lines that are text already.
impl From<String> for Text {
    fn from(lines: String) -> Text {
        Text::of_block(lines.into_bytes())
    }
}

/// Decodes text and replaces each invalid sequence. It checks first, because the replacing decoder reads even valid text byte by
/// byte.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn without_carriage_returns(block: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(block.len());
    for (index, line) in crate::line::inner_lines(block).enumerate() {
        if index > 0 {
            joined.push(b'\n');
        }
        joined.extend_from_slice(line);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &Text) -> String {
        match text {
            Text::Latin1(bytes) => bytes.iter().map(|&byte| char::from(byte)).collect(),
            Text::Utf16(units) => String::from_utf16(units).expect("text"),
            Text::Raw(bytes) => panic!("not decoded: {bytes:?}"),
        }
    }

    fn of(block: &[u8]) -> String {
        decoded(&Text::of_block(block.to_vec()))
    }

    #[test]
    fn names_that_are_no_text_stay_apart() {
        assert_eq!(told("nachtigäll".as_bytes()), "nachtigäll");
        assert_eq!(told(b"a\xff"), "a\u{FFFD}ff");
        assert_eq!(told(b"a\xfe\xc3b"), "a\u{FFFD}fe\u{FFFD}c3b");
    }

    #[test]
    fn has_plain_line_ends() {
        assert_eq!(of(b"a\r\nb\n\nc\n"), "a\nb\n\nc");
        assert_eq!(of(b"a\r\n"), "a");
        assert_eq!(of(b"\n"), "");
        assert_eq!(of(b"\n\n"), "\n");
        assert_eq!(of(b"a\rb\r"), "a\rb", "a `\\r` inside a line is text");
    }

    #[test]
    fn takes_one_byte_a_character_where_that_is_enough() {
        assert_eq!(Text::of_block(b"plain\n".to_vec()), Text::Latin1(b"plain".to_vec()));
        assert_eq!(Text::of_block("h\u{e4}\u{ff}\n".into()), Text::Latin1(b"h\xe4\xff".to_vec()));
        assert_eq!(Text::of_block("\u{100}\n".into()), Text::Utf16(vec![0x100]));
        assert_eq!(Text::of_block("😀".into()), Text::Utf16(vec![0xD83D, 0xDE00]));
        assert_eq!(of(b"a\xff\n"), "a\u{fffd}");
    }

    proptest! {
        #[test]
        fn says_what_the_bytes_say(text in "[a-z\n\u{e4}\u{ff}\u{100}\u{2028}😀]{0,40}") {
            prop_assert_eq!(of(text.as_bytes()), text.strip_suffix('\n').unwrap_or(&text));
        }
    }
}
