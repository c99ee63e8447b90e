//! PURE: reads one line of JSON without building it.
//!
//! An agent's line may repeat a whole message to carry one word (pi does, with every delta), so the line is walked once: the
//! walk checks the grammar, notes where the wanted fields lie, and copies nothing. A [`Json`] is such a place. It is asked
//! for a text, a number or further fields, and a value of another type than expected counts as absent: no type of a
//! recorded line is trusted. Depth is bounded, recursion there is none.

use memchr::memchr2;
use std::borrow::Cow;

/// Deepest nesting that is accepted; no agent comes near it.
const MAX_DEPTH: usize = 1024;

/// One whole JSON value inside a line; empty when absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<'a>(&'a [u8]);

/// The wanted top-level fields of a line that is one JSON object, in the order of `names`. `None`: it is no JSON object.
pub fn object<'a, const N: usize>(line: &'a [u8], names: [&str; N]) -> Option<[Json<'a>; N]> {
    let mut found = [Json::default(); N];
    let mut at = blank(line, 0);
    if line.get(at) != Some(&b'{') {
        return None;
    }
    at = blank(line, at + 1);
    if line.get(at) == Some(&b'}') {
        return (blank(line, at + 1) == line.len()).then_some(found);
    }
    loop {
        let key_end = string(line, at)?;
        let key = &line[at + 1..key_end - 1];
        at = colon(line, key_end)?;
        at = blank(line, at);
        let end = value(line, at)?;
        if let Some(index) = names.iter().position(|name| is_key(key, name)) {
            found[index] = Json(&line[at..end]);
        }
        at = blank(line, end);
        match line.get(at)? {
            b',' => at = blank(line, at + 1),
            b'}' => return (blank(line, at + 1) == line.len()).then_some(found),
            _ => return None,
        }
    }
}

impl<'a> Json<'a> {
    pub fn is_present(self) -> bool {
        !self.0.is_empty() && self.0 != b"null"
    }

    /// The fields of this object; all absent when it is none.
    pub fn fields<const N: usize>(self, names: [&str; N]) -> [Json<'a>; N] {
        object(self.0, names).unwrap_or([Json::default(); N])
    }

    pub fn field(self, name: &str) -> Json<'a> {
        let [field] = self.fields([name]);
        field
    }

    pub fn is_object(self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// The string, unescaped; borrowed when there is nothing to unescape. Half a surrogate pair becomes U+FFFD.
    pub fn text(self) -> Option<Cow<'a, str>> {
        (self.0.first() == Some(&b'"')).then(|| unescape(&self.0[1..self.0.len() - 1]))
    }

    /// Whether this is the string `expected`, which holds nothing that JSON escapes.
    pub fn is(self, expected: &str) -> bool {
        self.0.len() == expected.len() + 2
            && self.0[0] == b'"'
            && &self.0[1..self.0.len() - 1] == expected.as_bytes()
    }

    /// The string as it stands between its quotes, for a `match` over names that need no escape.
    pub fn word(self) -> &'a [u8] {
        if self.0.first() == Some(&b'"') { &self.0[1..self.0.len() - 1] } else { b"" }
    }

    pub fn number(self) -> Option<f64> {
        let first = self.0.first()?;
        if !(first.is_ascii_digit() || *first == b'-') {
            return None;
        }
        std::str::from_utf8(self.0).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// A count: a number that is not negative.
    pub fn count(self) -> Option<u64> {
        self.number().filter(|number| *number >= 0.0).map(|number| number as u64)
    }

    /// A whole number, such as an exit code or a status.
    pub fn whole(self) -> Option<i64> {
        self.number().filter(|number| number.fract() == 0.0).map(|number| number as i64)
    }

    pub fn flag(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The items of this array; none when it is no array.
    pub fn items(self) -> Items<'a> {
        let is_array = self.0.first() == Some(&b'[');
        Items { array: if is_array { self.0 } else { b"" }, at: 1 }
    }

    /// The values of this object, whatever their names; none when it is no object.
    pub fn values(self) -> Values<'a> {
        let is_object = self.0.first() == Some(&b'{');
        Values { object: if is_object { self.0 } else { b"" }, at: 1 }
    }

    /// The value as it stands, as text.
    pub fn raw(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// Builds the value. What serde_json can't hold (too deep, half a surrogate pair) comes as its text.
    pub fn build(self) -> serde_json::Value {
        if self.0.is_empty() {
            return serde_json::Value::Null;
        }
        serde_json::from_slice(self.0).unwrap_or_else(|_| serde_json::Value::String(self.raw().into_owned()))
    }
}

/// See [`Json::items`].
pub struct Items<'a> {
    array: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let start = blank(self.array, self.at);
        if matches!(self.array.get(start), None | Some(b']')) {
            return None;
        }
        let end = value(self.array, start)?;
        let next = blank(self.array, end);
        self.at = if self.array.get(next) == Some(&b',') { next + 1 } else { next };
        Some(Json(&self.array[start..end]))
    }
}

/// See [`Json::values`].
pub struct Values<'a> {
    object: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Values<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let key_end = string(self.object, blank(self.object, self.at))?;
        let start = blank(self.object, colon(self.object, key_end)?);
        let end = value(self.object, start)?;
        let next = blank(self.object, end);
        self.at = if self.object.get(next) == Some(&b',') { next + 1 } else { next };
        Some(Json(&self.object[start..end]))
    }
}

fn is_key(key: &[u8], name: &str) -> bool {
    key == name.as_bytes() || (key.contains(&b'\\') && unescape(key) == name)
}

/// The first place from `at` on that is not JSON's white space.
#[inline]
fn blank(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Past the colon that must come next.
#[inline]
fn colon(text: &[u8], at: usize) -> Option<usize> {
    let at = blank(text, at);
    (text.get(at) == Some(&b':')).then_some(at + 1)
}

/// Past the string that must begin at `at`.
#[inline]
fn string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    // Names and short words end within a few bytes: a plain loop finds that sooner than a call would.
    let near = text.len().min(at + 24);
    while at < near {
        match text[at] {
            b'"' => return Some(at + 1),
            b'\\' => break,
            _ => at += 1,
        }
    }
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Past the number that begins at `at`, by JSON's grammar.
#[inline]
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let mut to = from;
        while text.get(to).is_some_and(u8::is_ascii_digit) {
            to += 1;
        }
        to
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    let whole = at;
    at = digits(at);
    if at == whole || (text[whole] == b'0' && at > whole + 1) {
        return None;
    }
    if text.get(at) == Some(&b'.') {
        let fraction = at + 1;
        at = digits(fraction);
        if at == fraction {
            return None;
        }
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = at;
        at = digits(exponent);
        if at == exponent {
            return None;
        }
    }
    Some(at)
}

/// Past the value that begins at `at`; `None` when there is none that is whole.
fn value(text: &[u8], mut at: usize) -> Option<usize> {
    // One bit a level: set for an object, clear for an array.
    let mut levels = [0u64; MAX_DEPTH / 64];
    let mut depth = 0usize;
    'value: loop {
        at = blank(text, at);
        match *text.get(at)? {
            b'"' => at = string(text, at)?,
            open @ (b'{' | b'[') => {
                if depth == MAX_DEPTH {
                    return None;
                }
                let is_object = open == b'{';
                let bit = 1u64 << (depth % 64);
                if is_object {
                    levels[depth / 64] |= bit;
                } else {
                    levels[depth / 64] &= !bit;
                }
                depth += 1;
                at = blank(text, at + 1);
                if text.get(at) == Some(if is_object { &b'}' } else { &b']' }) {
                    depth -= 1;
                    at += 1;
                } else {
                    if is_object {
                        at = colon(text, string(text, at)?)?;
                    }
                    continue 'value;
                }
            }
            b't' if text[at..].starts_with(b"true") => at += 4,
            b'f' if text[at..].starts_with(b"false") => at += 5,
            b'n' if text[at..].starts_with(b"null") => at += 4,
            _ => at = number(text, at)?,
        }
        // A value has ended: close what ends with it.
        loop {
            if depth == 0 {
                return Some(at);
            }
            at = blank(text, at);
            let is_object = levels[(depth - 1) / 64] >> ((depth - 1) % 64) & 1 == 1;
            match (*text.get(at)?, is_object) {
                (b',', true) => {
                    at = blank(text, at + 1);
                    at = colon(text, string(text, at)?)?;
                    continue 'value;
                }
                (b',', false) => {
                    at += 1;
                    continue 'value;
                }
                (b'}', true) | (b']', false) => {
                    at += 1;
                    depth -= 1;
                }
                _ => return None,
            }
        }
    }
}

fn unescape(inner: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inner) else {
        return String::from_utf8_lossy(inner);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_fields_wherever_they_stand_and_skips_the_rest() {
        let line =
            br#" {"a": {"type":"inner"}, "type" : "outer" ,"n":-1.5e2,"list":[1,"]",{"x":[]}],"ok":true} "#;
        let [kind, number, list, ok, none] = object(line, ["type", "n", "list", "ok", "none"]).unwrap();
        assert_eq!(kind.text().unwrap(), "outer");
        assert_eq!(number.number(), Some(-150.0));
        assert_eq!(list.items().count(), 3);
        let [object] = super::object(br#"{"o":{"a":1, "b":[2]}}"#, ["o"]).unwrap();
        assert_eq!(object.values().map(|value| value.raw().into_owned()).collect::<Vec<_>>(), ["1", "[2]"]);
        assert_eq!(ok.flag(), Some(true));
        assert!(!none.is_present());
    }

    #[test]
    fn what_is_no_whole_object_is_none() {
        for line in [
            "",
            "123",
            "null",
            "[[[[",
            "[]",
            "{",
            "{}x",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":"b"#,
            r#"{"a":"\"#,
            r#"{"a":[1}}"#,
        ] {
            assert!(object(line.as_bytes(), ["a"]).is_none(), "{line}");
        }
        assert!(object(format!("{{\"a\":{}", "[".repeat(200_000)).as_bytes(), ["a"]).is_none());
    }

    #[test]
    fn values_of_another_type_count_as_absent() {
        let [value] = object(br#"{"a":5}"#, ["a"]).unwrap();
        assert_eq!(value.text(), None);
        assert_eq!(value.items().count(), 0);
        assert!(!value.field("b").is_present());
        assert_eq!(object(br#"{"a":"5"}"#, ["a"]).unwrap()[0].count(), None);
    }

    #[test]
    fn unescapes_pairs_and_tolerates_halves() {
        let [value] = object(br#"{"a":"x\n\"\u00e9\ud83d\ude00\ud83d!\u12"}"#, ["a"]).unwrap();
        assert_eq!(value.text().unwrap(), "x\n\"\u{e9}\u{1F600}\u{FFFD}!\u{FFFD}12");
    }

    #[test]
    fn the_last_of_two_fields_with_one_name_counts_and_an_escaped_name_is_found() {
        let [value] = object(br#"{"a":1,"\u0061":2}"#, ["a"]).unwrap();
        assert_eq!(value.count(), Some(2));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
                proptest::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_wrote(value in json(), pretty in any::<bool>()) {
            let whole = serde_json::json!({ "before": 1, "wanted": value, "after": [] });
            let line = if pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
            let [wanted, after] = object(line.as_bytes(), ["wanted", "after"]).unwrap();
            prop_assert!(after.is_present());
            if let Some(text) = value.as_str() {
                prop_assert_eq!(wanted.text().unwrap(), text);
            }
            prop_assert_eq!(wanted.build().to_string(), value.to_string());
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut line = b"{\"a\":".to_vec();
            line.extend_from_slice(&bytes);
            line.push(b'}');
            if let Some([value]) = object(&line, ["a"]) {
                let _ = (value.text(), value.number(), value.items().count(), value.build());
            }
        }

        #[test]
        fn a_cut_line_is_never_an_object(value in json(), cut in 0.0f64..1.0) {
            let line = serde_json::json!({ "type": "x", "value": value }).to_string();
            let mut length = (line.len() as f64 * cut) as usize;
            while !line.is_char_boundary(length) { length -= 1; }
            prop_assert!(object(&line.as_bytes()[..length], ["type"]).is_none());
        }
    }
}
