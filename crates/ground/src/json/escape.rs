//! PURE: decodes the text of a JSON string between its quotes.

use super::pieces::{code_of, is_high, is_low, unit_at};
use crate::text::decode;
use std::borrow::Cow;

/// Half a surrogate pair, and what is no UTF-8, becomes U+FFFD.
pub(super) fn unescape(inner: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inner) else {
        return decode(inner);
    };
    let mut plain = Vec::with_capacity(inner.len());
    plain.extend_from_slice(&inner[..first]);
    let mut at = first;
    while let Some(&byte) = inner.get(at) {
        if byte != b'\\' {
            let end = memchr::memchr(b'\\', &inner[at..]).map_or(inner.len(), |offset| at + offset);
            plain.extend_from_slice(&inner[at..end]);
            at = end;
            continue;
        }
        at += 2;
        match inner.get(at - 1) {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'r') => plain.push(b'\r'),
            Some(b'b') => plain.push(8),
            Some(b'f') => plain.push(12),
            Some(b'u') => {
                let (character, next) = unicode_escape(inner, at);
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at = next;
            }
            Some(&other) => plain.push(other),
            None => {}
        }
    }
    Cow::Owned(
        String::from_utf8(plain)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// Whether a string has only the escapes of JSON, and no bare control characters.
pub(super) fn is_strict(inner: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&byte) = inner.get(at) {
        at += match (byte, inner.get(at + 1)) {
            (b'\\', Some(b'u')) => {
                if !inner.get(at + 2..at + 6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return false;
                }
                6
            }
            (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => 2,
            (b'\\', _) => return false,
            (..b' ', _) => return false,
            _ => 1,
        };
    }
    true
}

/// The character whose four hexadecimal digits begin at `at`, and the place behind it.
fn unicode_escape(inner: &[u8], at: usize) -> (char, usize) {
    let (code, next) = match (unit_at(inner, at - 2), unit_at(inner, at + 4)) {
        (Some(high), Some(low)) if is_high(high) && is_low(low) => (code_of(high, low), at + 10),
        (Some(unit), _) => (unit, at + 4),
        (None, _) => return (char::REPLACEMENT_CHARACTER, at),
    };
    (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), next)
}
