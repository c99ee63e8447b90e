//! PURE: decodes the text of a JSON string between its quotes.

use std::borrow::Cow;

/// As `from_utf8_lossy`, whose walk over what is valid is slow.
pub(super) fn tolerant(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Half a surrogate pair, and what is no UTF-8, becomes U+FFFD.
pub(super) fn unescape(inner: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inner) else {
        return tolerant(inner);
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
    let unit = |from: usize| {
        let digits = std::str::from_utf8(inner.get(from..from + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(high) = unit(at) else { return (char::REPLACEMENT_CHARACTER, at) };
    if (0xD800..0xDC00).contains(&high)
        && inner.get(at + 4..at + 6) == Some(b"\\u")
        && let Some(low) = unit(at + 6).filter(|low| (0xDC00..0xE000).contains(low))
    {
        let character = char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
        return (character.unwrap_or(char::REPLACEMENT_CHARACTER), at + 10);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), at + 4)
}
