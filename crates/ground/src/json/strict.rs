//! PURE: the readers of `serde_json`, which take what Rust can hold and refuse the rest.

use serde::Deserialize;
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
    serde_json::from_slice(text)
}
