//! Reads JSON as JavaScript writes it. PURE.

use serde_json::Value;

/// Parses like `serde_json::from_str`, but half of a surrogate pair becomes U+FFFD instead of an error. `JSON.stringify` writes
/// such halves whenever a program cut a text in the middle of an emoji.
pub fn parse_json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match replace_halves(text) {
        Some(whole) => serde_json::from_str(&whole),
        None => Err(error),
    })
}

/// The text with `\ufffd` for each escape that is half of a surrogate pair; `None` when there is none.
fn replace_halves(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(slash) = text[at..].find('\\').map(|offset| at + offset) {
        at = match unit_at(text, slash) {
            Some(0xd800..0xdc00) if matches!(unit_at(text, slash + 6), Some(0xdc00..0xe000)) => slash + 12,
            Some(0xd800..0xe000) => {
                out.push_str(&text[kept..slash]);
                out.push_str("\\ufffd");
                kept = slash + 6;
                kept
            }
            // The escaped character may be a backslash, may be missing, or may be longer than a byte.
            _ => {
                text[slash + 1..].chars().next().map_or(text.len(), |escaped| slash + 1 + escaped.len_utf8())
            }
        };
    }
    if kept == 0 {
        return None;
    }
    out.push_str(&text[kept..]);
    Some(out)
}

/// The code unit of the escape `\uXXXX` at this position.
fn unit_at(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(json: &str) -> Option<String> {
        parse_json(json).ok()?.as_str().map(str::to_owned)
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
            assert!(parse_json(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_whole_json_is_read_as_ever(text in r#"(\\|u|d83d|de00|"|é|[0-9a-f]|n){0,30}"#) {
            let quoted = format!("\"{text}\"");
            if let Ok(value) = serde_json::from_str::<Value>(&quoted) {
                prop_assert_eq!(parse_json(&quoted).unwrap(), value);
            } else {
                let _ = parse_json(&quoted);
            }
            let _ = replace_halves(&text);
        }

        #[test]
        fn every_number_is_read_exactly(number in any::<f64>().prop_filter("JSON has no others", |number| number.is_finite())) {
            prop_assert_eq!(parse_json(&format!("{number:?}")).unwrap().as_f64(), Some(number));
        }

        #[test]
        fn every_string_of_javascript_is_read(units in prop::collection::vec(prop_oneof![0xd7f0u16..0xe010, any::<u16>()], 0..20)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(text(&format!("\"{escaped}\"")).unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
