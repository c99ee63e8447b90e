//! PURE: fields put into JSON objects. Writing by index (`value["name"] = ...`) panics when the value is no object, so it is not
//! used anywhere (tests/layers).

use serde_json::Value;

/// Sets a field. A value that is no object stays as it is.
pub fn put(object: &mut Value, name: &str, field: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), field.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_is_set_in_an_object_and_nothing_else_is_touched() {
        let mut object = json!({ "a": 1 });
        put(&mut object, "a", 2);
        put(&mut object, "b", "x");
        assert_eq!(object, json!({ "a": 2, "b": "x" }));
        for other in [json!(null), json!("x"), json!([1]), json!(7)] {
            let mut same = other.clone();
            put(&mut same, "a", 1);
            assert_eq!(same, other);
        }
    }
}
