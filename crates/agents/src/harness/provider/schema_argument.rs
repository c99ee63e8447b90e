//! PURE. Schemas of answers that a CLI takes as an argument.
//!
//! The validator of claude-code (2.1.330) knows JSON Schema of draft 7 and some formats. At anything else that CLI ends.

use crate::harness::program::launch::Wanted;
use serde_json::Value;

/// The schema itself is an argument, which the system allows only so long.
pub(super) fn fits_an_argument(schema: &Value) -> bool {
    schema["type"] == "object" && schema.to_string().len() <= Wanted::MAX_ARGUMENT_BYTES
}

/// The schema without the name of its dialect: claude-code refuses that of draft 2020-12.
pub(super) fn without_dialect(schema: &Value) -> String {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
    }
    schema.to_string()
}

/// Whether claude-code takes the schema. Else the prompt asks for the answer.
pub(super) fn claude_takes(schema: &Value) -> bool {
    fits_an_argument(schema) && is_known(schema) && is_input_of_a_tool(schema)
}

/// The schema becomes the input of a tool, which Anthropic's API takes without a choice at its top, and with such names there.
fn is_input_of_a_tool(schema: &Value) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_name = |name: &String| (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    ["oneOf", "anyOf", "allOf"].iter().all(|word| schema.get(word).is_none())
        && schema["properties"].as_object().is_none_or(|properties| properties.keys().all(is_name))
}

/// Keywords of draft 7 whose value is no schema.
const PLAIN: [&str; 30] = [
    "$schema",
    "$id",
    "$ref",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "readOnly",
    "writeOnly",
    "deprecated",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "contentEncoding",
    "contentMediaType",
];
/// Keywords whose value is a schema, or a list of them.
const WITHIN: [&str; 12] = [
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "if",
    "then",
    "else",
    "not",
    "allOf",
    "anyOf",
    "oneOf",
];
/// Keywords whose value holds schemas by names.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "definitions", "$defs"];
const FORMATS: [&str; 12] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uuid",
    "regex",
];

fn is_known(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(keyword, value)| match keyword.as_str() {
            "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
            keyword if WITHIN.contains(&keyword) => is_known(value),
            keyword if BY_NAME.contains(&keyword) => {
                value.as_object().is_some_and(|schemas| schemas.values().all(is_known))
            }
            keyword => PLAIN.contains(&keyword),
        }),
        Value::Array(schemas) => schemas.iter().all(is_known),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claude_is_given_only_a_schema_that_its_validator_knows() {
        let of = |pair: Value| json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": { "pair": pair } });
        for known in [
            json!({ "type": "array", "items": { "$ref": "#/$defs/a" } }),
            json!({ "type": "object", "properties": { "prefixItems": { "type": "string" } } }),
            json!({ "enum": [{ "prefixItems": 1 }], "default": { "x": 1 } }),
            json!({ "type": "string", "format": "email" }),
            json!({ "anyOf": [true, { "type": "null" }] }),
        ] {
            assert!(claude_takes(&of(known.clone())), "{known}");
            assert!(!without_dialect(&of(known)).contains("$schema"));
        }
        for unknown in [
            json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
            json!({ "items": { "unevaluatedProperties": false } }),
            json!({ "type": "string", "format": "cuid" }),
            json!({ "anyOf": [{ "x-note": "ours" }] }),
            json!({ "properties": [] }),
        ] {
            assert!(!claude_takes(&of(unknown.clone())), "{unknown}");
        }
        assert!(!claude_takes(&json!({ "type": "array" })));
    }

    #[test]
    fn what_the_api_refuses_as_the_input_of_a_tool_is_asked_for_in_the_prompt() {
        let named = |name: &str| json!({"type":"object","properties":{name:{"type":"string"}}});
        for schema in [
            json!({"type":"object","oneOf":[{"required":["a"]}]}),
            json!({"type":"object","anyOf":[]}),
            json!({"type":"object","allOf":[]}),
            named("first name"),
            named("größe"),
            named(""),
            named(&"a".repeat(65)),
        ] {
            assert!(!claude_takes(&schema), "{schema}");
        }
        let within =
            json!({"type":"object","properties":{"a":{"anyOf":[{"type":"string"},named("first name")]}}});
        for schema in [named("first_name.2-b"), named(&"a".repeat(64)), within] {
            assert!(claude_takes(&schema), "{schema}");
        }
    }
}
