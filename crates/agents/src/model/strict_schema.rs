//! PURE: schemas that strict services take, which hold models to them. OpenAI's rules: every object is closed, every property
//! required, and only these keywords and formats are known. One that is not known fails the whole request.

use serde_json::{Map, Value};

const PLAIN: [&str; 16] = [
    "$schema",
    "$ref",
    "title",
    "description",
    "type",
    "enum",
    "const",
    "required",
    "pattern",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "minItems",
    "maxItems",
];
const BY_NAME: [&str; 3] = ["properties", "$defs", "definitions"];
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Whether a strict service takes the schema. Its root has to be an object.
pub(crate) fn is_strict_object(schema: &Value) -> bool {
    schema["type"] == "object" && is_strict(schema)
}

fn is_strict(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    let says = ["type", "$ref", "anyOf", "enum", "const"].iter().any(|word| fields.contains_key(*word));
    says && (!is_object(fields) || is_closed(fields))
        && fields.iter().all(|(name, value)| is_known(name, value))
}

fn is_known(name: &str, value: &Value) -> bool {
    match name {
        "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
        "items" => is_strict(value),
        "additionalProperties" => *value == false,
        "anyOf" => value.as_array().is_some_and(|all| all.iter().all(is_strict)),
        name if BY_NAME.contains(&name) => value.as_object().is_some_and(|all| all.values().all(is_strict)),
        name => PLAIN.contains(&name),
    }
}

fn is_object(fields: &Map<String, Value>) -> bool {
    let is_named = match fields.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "object"),
        name => name.is_some_and(|name| name == "object"),
    };
    is_named || fields.contains_key("properties")
}

fn is_closed(fields: &Map<String, Value>) -> bool {
    let required: Vec<&str> = match fields.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let names = fields.get("properties").and_then(Value::as_object);
    fields.get("additionalProperties").is_some_and(|other| *other == false)
        && names.is_none_or(|names| names.keys().all(|name| required.contains(&name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_is_not_strict() {
        let of = |property: Value| json!({ "type": "object", "properties": { "a": property }, "required": ["a"], "additionalProperties": false });
        for taken in [
            json!({ "type": "string", "format": "date" }),
            json!({ "type": "array", "items": { "type": "integer", "minimum": 1 }, "maxItems": 3 }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "x" }),
            json!({ "$ref": "#" }),
        ] {
            assert!(is_strict_object(&of(taken.clone())), "{taken}");
        }
        for refused in [
            json!({ "type": "string", "format": "uri" }),
            json!({ "type": "string", "format": 7 }),
            json!({ "type": "string", "minLength": 1 }),
            json!({ "type": "string", "default": "x" }),
            json!({ "type": "array", "items": true }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
            json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
            json!({ "type": "object", "properties": {} }),
            json!({ "type": ["object", "null"], "properties": {} }),
            json!({ "oneOf": [{ "type": "string" }] }),
            json!({}),
        ] {
            assert!(!is_strict_object(&of(refused.clone())), "{refused}");
        }
        assert!(!is_strict_object(&json!({ "type": "array", "items": { "type": "string" } })));
    }
}
