//! PURE: texts of JSON whose values would take many times their length. They are written anew, and looked at, without building
//! all of their values.

use super::strict::deserialize_whole;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::collections::HashSet;
use std::fmt;

/// Most members of one object that are written anew.
const MAX_MEMBERS: usize = 100_000;
/// A value that is looked at has no deeper parts, no longer lists and objects, and no longer texts.
const DEEPEST: usize = 8;
const LONGEST_LIST: usize = 4096;
const LONGEST_TEXT: usize = 1 << 20;

/// An object, written anew without its closing brace and without the members of these names. `None`: the text is no object, has
/// something that [`read`](super::read) would replace, or an object with two members of one name.
pub fn rewritten(text: &[u8], without: &[&str]) -> Option<Vec<u8>> {
    let mut written = Vec::with_capacity(text.len() + 64);
    deserialize_whole(text, Writer { written: &mut written, without })?;
    (written.pop() == Some(b'}')).then_some(written)
}

/// The value with null in place of what is long or deep.
pub fn pruned(text: &[u8]) -> Option<Value> {
    deserialize_whole(text, Pruner { depth: 0 })
}

struct Writer<'a> {
    written: &'a mut Vec<u8>,
    without: &'a [&'a str],
}

impl Writer<'_> {
    fn write<E: Error>(self, value: &impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(self.written, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write(&())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.written.push(b'[');
        let start = self.written.len();
        while items.next_element_seed(Writer { written: &mut *self.written, without: &[] })?.is_some() {
            self.written.push(b',');
        }
        close(self.written, start, b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.written.push(b'{');
        let start = self.written.len();
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if self.without.contains(&name.as_str()) {
                members.next_value::<IgnoredAny>()?;
            } else {
                Writer { written: &mut *self.written, without: &[] }.write::<A::Error>(&name)?;
                self.written.push(b':');
                members.next_value_seed(Writer { written: &mut *self.written, without: &[] })?;
                self.written.push(b',');
            }
            if names.len() >= MAX_MEMBERS || !names.insert(name) {
                return Err(A::Error::custom("too many members, or two of one name"));
            }
        }
        close(self.written, start, b'}');
        Ok(())
    }
}

/// Ends a list or an object whose parts have a comma behind them.
fn close(written: &mut Vec<u8>, start: usize, end: u8) {
    if written.len() > start {
        written.pop();
    }
    written.push(end);
}

struct Pruner {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Pruner {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.depth > DEEPEST {
            true => deserializer.deserialize_any(IgnoredAny).map(|_| Value::Null),
            false => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Pruner {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(if value.len() > LONGEST_TEXT { Value::Null } else { value.into() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < LONGEST_LIST {
            let Some(item) = items.next_element_seed(Pruner { depth: self.depth + 1 })? else {
                return Ok(Value::Array(kept));
            };
            kept.push(item);
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while kept.len() < LONGEST_LIST {
            let Some(name) = members.next_key::<String>()? else { return Ok(Value::Object(kept)) };
            let value = members.next_value_seed(Pruner { depth: self.depth + 1 })?;
            kept.insert(name, value);
        }
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;
    use serde_json::json;

    fn again(text: &str, without: &[&str]) -> Option<Value> {
        let mut written = rewritten(text.as_bytes(), without)?;
        written.push(b'}');
        read(written).ok()
    }

    #[test]
    fn every_value_is_written_anew_but_the_members_that_are_left_out() {
        let text = r#"{"id":7,"a":[1,-2.5,18446744073709551615,[],{}],"b":{"id":"é\n\u00e9","c":null,"d":[true,false]}}"#;
        let whole: Value = read(text).unwrap();
        assert_eq!(again(text, &[]), Some(whole.clone()));
        assert_eq!(again(text, &["id"]), Some(json!({ "a": whole["a"], "b": whole["b"] })));
        assert_eq!((again("{}", &[]), again(r#"{"id":1}"#, &["id"])), (Some(json!({})), Some(json!({}))));
    }

    #[test]
    fn what_others_may_read_in_another_way_is_not_written() {
        for text in ["[]", "7", "{", r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#, r#"{"a":{"b":1,"b":2}}"#, "{}x"] {
            assert_eq!(rewritten(text.as_bytes(), &[]), None, "{text}");
        }
    }

    #[test]
    fn what_is_long_or_deep_is_null_where_it_is_looked_at() {
        let long = "x".repeat(LONGEST_TEXT + 1);
        let list = vec![0; LONGEST_LIST + 1];
        let deep = format!("{}{}", "[".repeat(20), "]".repeat(20));
        let text = format!(r#"{{"a":{{"long":"{long}","list":{},"short":"y"}},"deep":{deep}}}"#, json!(list));
        let looked = pruned(text.as_bytes()).unwrap();
        assert_eq!(looked["a"], json!({ "long": null, "list": null, "short": "y" }));
        assert!(looked["deep"].to_string().len() < 30);
    }
}
