//! PURE: the readers of `serde_json`, which take what Rust can hold and refuse the rest.

use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::Result;

/// Reads the value at the beginning of a text like [`read_borrowed`](super::read_borrowed). Returns it with its length.
#[expect(clippy::disallowed_methods, reason = "this module is the reader")]
pub fn read_first<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

#[expect(clippy::disallowed_methods, reason = "this module is the reader")]
pub(super) fn strict<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T> {
    match str::from_utf8(text) {
        // One look at all bytes takes less time than one at each string.
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(text),
    }
}

/// Hands the one value of a text to this seed; `None` if the text is not JSON as `serde_json` knows it, or the seed refuses it.
#[expect(clippy::disallowed_methods, reason = "this module is the reader")]
pub(super) fn deserialize_whole<'a, S: DeserializeSeed<'a>>(text: &'a [u8], seed: S) -> Option<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = seed.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok().map(|()| value)
}
