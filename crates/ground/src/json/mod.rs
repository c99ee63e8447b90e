//! PURE: the one reader of JSON. Clippy forbids the readers of `serde_json` everywhere else.
//!
//! Other programs write JSON that `serde_json` refuses. [`read`] takes it, so that a message is never lost for a part of it:
//!
//! | input | result |
//! |---|---|
//! | half of a surrogate pair (`"\ud83d"`: `JSON.stringify` writes it where a text was cut inside an emoji) | U+FFFD |
//! | bytes that are not UTF-8 | U+FFFD |
//! | a number that no float can hold (`1e999`) | the largest float of its sign |
//! | a part that is nested deeper than [`MAX_DEPTH`] | its JSON text |
//!
//! [`read_own`] reads what Sheepdog itself wrote. [`Index`] looks at single fields of a line without building values.

mod escape;
mod grammar;
mod line;
pub mod object;
mod pieces;
mod rewritten;
mod strict;
mod token;

pub use line::{Index, Items, Json, Line, MAX_DEPTH};
pub use pieces::{Pieces, keep_halves};
pub use rewritten::{pruned, rewritten};
pub use strict::read_first;
use strict::strict;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Result, Value};

/// Reads a value that another program wrote.
///
/// # Errors
/// The text is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> Result<T> {
    let text = text.as_ref();
    strict(text).or_else(|error| match build(text) {
        Some(value) => typed(value),
        None => Err(error),
    })
}

/// Reads a value whose parts are borrowed from its text. Where [`read`] would replace something, try again with [`well_formed`].
///
/// # Errors
/// The text is not JSON as `serde_json` knows it, or not of this type.
pub fn read_borrowed<'a, T: Deserialize<'a>>(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Result<T> {
    strict(text.as_ref())
}

/// Reads what Sheepdog itself wrote.
///
/// # Errors
/// The text is damaged, or from a version that wrote another form.
pub fn read_own<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> Result<T> {
    strict(text.as_ref())
}

/// The value as this type.
///
/// # Errors
/// The value has another shape.
#[expect(clippy::disallowed_methods, reason = "this is the one place that does it")]
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
}

/// The text written anew, with the replacements of [`read`]; `None` when it is not JSON.
pub fn well_formed(text: &[u8]) -> Option<String> {
    build(text).map(|value| value.to_string())
}

/// How deep the value is nested; `None` when the text is not JSON.
pub fn depth(text: &[u8]) -> Option<usize> {
    Some(Index::default().value(text)?.depth())
}

fn build(text: &[u8]) -> Option<Value> {
    let mut index = Index::default();
    let value = index.value(text)?;
    value.is_strict().then(|| value.build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(json: &str) -> Option<String> {
        read::<Value>(json).ok()?.as_str().map(str::to_owned)
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_kept() {
        for (json, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00\ud83d\ude00\ud83dx""#, "\u{fffd}😀\u{fffd}x"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\ud83d\n\ud83d\u0041""#, "\u{fffd}\n\u{fffd}A"),
        ] {
            assert_eq!(text(json).as_deref(), Some(expected), "{json}");
            assert_eq!(read::<[String; 1]>(format!("[{json}]")).unwrap(), [expected]);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(
            read::<Value>(b"{\"a\":\"x\xff\", \"b\\ud800\": 1}").unwrap(),
            json!({ "a": "x\u{fffd}", "b\u{fffd}": 1 })
        );
        assert_eq!(read::<String>(b"\"\xe2\x82\"").unwrap(), "\u{fffd}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_value() {
        assert_eq!(read::<Value>("\u{feff}{\"a\":1}").unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn a_number_beyond_every_float_becomes_the_largest() {
        for (json, expected) in [("1e999", f64::MAX), ("-1E+4000", -f64::MAX), ("[1e-999]", 0.0)] {
            let value = read::<Value>(json).unwrap();
            assert_eq!(value.get(0).unwrap_or(&value).as_f64(), Some(expected), "{json}");
        }
        assert_eq!(read::<Value>("[18446744073709551615,1e999]").unwrap()[0], json!(u64::MAX));
    }

    #[test]
    fn every_depth_is_read_and_what_is_too_deep_comes_as_its_text() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for levels in [1, 127, 128, 129, MAX_DEPTH] {
            assert_eq!(read::<Value>(nested(levels)).unwrap().to_string(), nested(levels));
        }
        for levels in [MAX_DEPTH + 1, 100_000] {
            let message: Value = read(format!(r#"{{"deep":{},"text":"kept"}}"#, nested(levels))).unwrap();
            assert_eq!(message["text"], "kept");
            let mut inner = &message["deep"];
            while let Some(item) = inner.get(0) {
                inner = item;
            }
            assert_eq!(inner.as_str().unwrap(), nested(levels - MAX_DEPTH + 1));
        }
        assert_eq!(depth(nested(100_000).as_bytes()), Some(100_000));
        assert_eq!(
            (depth(b"{\"a\":[1,[]],\"b\":\"[[[[\"}"), depth(b"7"), depth(b"[")),
            (Some(3), Some(0), None)
        );
    }

    #[test]
    fn a_type_with_raw_parts_is_read_too() {
        #[derive(serde::Deserialize)]
        struct Raw {
            name: String,
            raw: Box<serde_json::value::RawValue>,
        }
        let Raw { name, raw } = read(r#"{"name":"a\ud800","raw":{"b":[1e999]}}"#).unwrap();
        assert_eq!((name.as_str(), raw.get()), ("a\u{fffd}", r#"{"b":[1.7976931348623157e+308]}"#));
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for wrong in [
            "",
            "{",
            r#""\ud83d"#,
            r#""\ud8""#,
            r#""\"#,
            "\\é",
            r#"{"a":\ud83d}"#,
            r#"["\q\ud800"]"#,
            "[\"a\nb\\ud800\"]",
            "[1e999]]",
            "1e999 2",
            "\"\\ud800\" x",
            "\"\\ud800\"\"a\"",
            "[1e]",
            "NaN",
            "+1e999",
            "[\"\\ud800\",]",
        ] {
            assert!(read::<Value>(wrong).is_err(), "{wrong}");
            assert_eq!(well_formed(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_serde_takes_is_built_the_same(text in r#"(\\|u|d83d|de00|"|é|[0-9a-f]|n|\[|\]|\{|\}|:|,| |\."|e|true){0,30}"#) {
            if let Ok(value) = strict::<Value>(text.as_bytes()) {
                prop_assert_eq!(build(text.as_bytes()), Some(value));
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (read::<Value>(&bytes), well_formed(&bytes), depth(&bytes));
        }

        #[test]
        fn every_number_is_read_exactly(number in any::<f64>().prop_filter("JSON has no others", |number| number.is_finite())) {
            prop_assert_eq!(read::<Value>(format!("{number:?}")).unwrap().as_f64(), Some(number));
        }

        #[test]
        fn every_string_of_javascript_is_read(units in prop::collection::vec(prop_oneof![0xd7f0u16..0xe010, any::<u16>()], 0..20)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(text(&format!("\"{escaped}\"")).unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
