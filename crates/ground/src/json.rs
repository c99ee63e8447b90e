//! PURE: reads JSON as other programs write it.
//!
//! `JSON.stringify` writes half of a surrogate pair (`"\ud83d"`) whenever a program cut a text in the middle of an emoji. Rust
//! strings cannot hold such halves, and `serde_json` refuses them. They are read as U+FFFD here, as JavaScript's own decoders
//! do. `agents::harness::json` is the other reader of JSON from outside: it reads whole lines without building values.

use serde::de::DeserializeOwned;

/// Reads a value like `serde_json::from_str`, but half of a surrogate pair becomes U+FFFD instead of an error.
///
/// # Errors
/// The text is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match without_half_pairs(text) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// The text with U+FFFD for each escape that is half of a surrogate pair; `None` when there is none.
pub fn without_half_pairs(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        // Digits are text.
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended: Option<String> = None;
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        let is_low = |unit: Option<u16>| matches!(unit, Some(0xdc00..=0xdfff));
        match unit(at) {
            Some(0xd800..=0xdbff) if is_low(unit(at + 6)) => at += 12,
            Some(0xd800..=0xdfff) => {
                let mended = mended.get_or_insert_with(|| String::with_capacity(text.len()));
                mended.push_str(&text[kept..at]);
                mended.push_str("\\ufffd");
                at += 6;
                kept = at;
            }
            // The character after the backslash may be a backslash itself.
            _ => at = (at + 2).min(bytes.len()),
        }
    }
    if let Some(mended) = &mut mended {
        mended.push_str(&text[kept..]);
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn text(json: &str) -> Option<String> {
        read::<Value>(json).ok()?.as_str().map(str::to_owned)
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_kept() {
        assert_eq!(text(r#""a\ud83d""#).unwrap(), "a\u{fffd}");
        assert_eq!(text(r#""\ude00\ud83d\ude00\ud83dx""#).unwrap(), "\u{fffd}😀\u{fffd}x");
        assert_eq!(text(r#""\ud83d\ud83d\ude00""#).unwrap(), "\u{fffd}😀");
    }

    #[test]
    fn an_escaped_backslash_begins_no_escape() {
        assert_eq!(text(r#""\\ud83d \ud83d""#).unwrap(), "\\ud83d \u{fffd}");
        assert_eq!(text(r#""\\ud83d""#).unwrap(), "\\ud83d");
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for wrong in ["{", r#""\ud83d"#, r#""\ud8"#, r#""\"#, "\\é", r#"{"a":\ud83d}"#] {
            assert!(read::<Value>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_text_without_halves_is_left_alone() {
        assert_eq!(without_half_pairs(r#""plain \u00e9 \ud83d\ude00 \\ud83d""#), None);
    }

    #[test]
    fn halves_between_whole_pairs_and_escapes_are_found() {
        for (json, text) in [
            (
                r#"["\ude00\ud83d\ude00\ud83d x\\ud83d\n\ud83d\u0041"]"#,
                "\u{fffd}\u{1f600}\u{fffd} x\\ud83d\n\u{fffd}A",
            ),
            (r#"["plain"]"#, "plain"),
        ] {
            assert_eq!(read::<[String; 1]>(json).unwrap(), [text]);
        }
        for broken in ["", "\\", r"\u", r"\ud8", r"\ud83d\", "\\\u{e4}", "\\u\u{e4}\u{e4}"] {
            let _ = without_half_pairs(broken);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_whole_json_is_read_as_ever(text in r#"(\\|u|d83d|de00|"|é|[0-9a-f]|n){0,30}"#) {
            let quoted = format!("\"{text}\"");
            if let Ok(value) = serde_json::from_str::<Value>(&quoted) {
                prop_assert_eq!(read::<Value>(&quoted).unwrap(), value);
            } else {
                let _ = read::<Value>(&quoted);
            }
            let _ = without_half_pairs(&text);
        }

        #[test]
        fn any_text_of_escapes_is_taken(text in "[\\\\ud8ca\"é0-9]{0,40}") {
            let _ = without_half_pairs(&text);
        }

        #[test]
        fn every_number_is_read_exactly(number in any::<f64>().prop_filter("JSON has no others", |number| number.is_finite())) {
            prop_assert_eq!(read::<Value>(&format!("{number:?}")).unwrap().as_f64(), Some(number));
        }

        #[test]
        fn every_string_of_javascript_is_read(units in prop::collection::vec(prop_oneof![0xd7f0u16..0xe010, any::<u16>()], 0..20)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(text(&format!("\"{escaped}\"")).unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
