//! PURE: reads JSON from other programs, so that nothing is lost without an error.
//!
//! | input | result |
//! |---|---|
//! | half of a surrogate pair (`"\ud83d"`: JavaScript writes them) | U+FFFD in text that is decoded; unchanged in [`JsonText`] |
//! | nesting of any depth, numbers like `1e999` | unchanged in [`JsonText`], skipped in unknown fields; otherwise refused |
//!
//! Unknown fields are skipped without being stored, and without recursion.

use ground::json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Reads a value. The error says why it can't be read, worded for the program that wrote it.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    match json::read_borrowed(text) {
        Ok(value) => Ok(value),
        Err(error) if error.to_string().starts_with("recursion limit") => {
            Err("is nested deeper than 128 levels".to_owned())
        }
        Err(_) => json::read(text).map_err(|error| error.to_string()),
    }
}

/// A JSON value that is passed on without being decoded: its text, of any depth.
#[derive(Clone, Debug)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The text of a value that we made.
    pub fn of(value: &impl Serialize) -> JsonText {
        // The keys of the value are strings, so serialising can't fail.
        JsonText(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// The same as for [`read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        read(self.text())
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &JsonText) -> bool {
        self.text() == other.text()
    }
}

impl Default for JsonText {
    fn default() -> JsonText {
        JsonText::of(&serde_json::Map::new())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<JsonText, D::Error> {
        Box::<RawValue>::deserialize(from).map(JsonText)
    }
}

/// Reads `null` as the default value, whatever the field's type.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn halves_of_surrogate_pairs_become_u_fffd_and_whole_pairs_stay() {
        for (text, read_as) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""a\ud83d\ude00\ud83d b""#, "a😀\u{fffd} b"),
            (r#""\\ud83d\ud83d\\""#, "\\ud83d\u{fffd}\\"),
            (r#""\uD83D\u0041""#, "\u{fffd}A"),
        ] {
            assert_eq!(read::<String>(text).as_deref(), Ok(read_as), "{text}");
        }
    }

    #[test]
    fn what_is_only_passed_on_keeps_its_depth_and_its_halves() {
        let deep = format!("{}1e999{}", "[".repeat(100_000), "]".repeat(100_000));
        let kept: JsonText = read(&deep).unwrap();
        assert_eq!(kept.text(), deep);
        assert_eq!(read::<JsonText>(r#"{"a":"\ud83d"}"#).unwrap().text(), r#"{"a":"\ud83d"}"#);
        assert_eq!(kept.read::<Value>().unwrap_err(), "is nested deeper than 128 levels");
    }

    proptest! {
        #[test]
        fn any_sequence_of_units_can_be_read_as_javascript_would_encode_it(units in prop::collection::vec(0xd7fe_u16..0xe002, 0..12)) {
            let text = format!("\"{}\"", units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>());
            prop_assert_eq!(read::<String>(&text).unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
