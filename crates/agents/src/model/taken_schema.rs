//! PURE: the schemas that a service or a CLI takes. One that is not known to be taken fails a whole request, so it goes into the
//! prompt instead.
//!
//! | taker | what it asks for besides known keywords and formats |
//! |---|---|
//! | [`Taker::Strict`], OpenAI's strict answers | every object is closed, every property required; the root is an object |
//! | [`Taker::Claude`], the validator of claude-code 2.1.330, and Anthropic's API behind it | no choice at the top, names of properties there `[a-zA-Z0-9_.-]{1,64}` |

use serde_json::{Map, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    Strict,
    Claude,
}
use Taker::{Claude, Strict};

/// Words that both know, and words that claude-code knows besides: draft 7.
type Known = [&'static str; 2];

/// Keywords whose value is no schema.
const PLAIN: Known = [
    "$schema $ref title description type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum pattern \
     maxItems minItems required",
    "$id $comment default examples readOnly writeOnly deprecated maxLength minLength uniqueItems maxProperties \
     minProperties contentEncoding contentMediaType",
];
/// Keywords whose value is a schema, or a list of them.
const SCHEMA: Known = [
    "items additionalProperties anyOf",
    "additionalItems contains propertyNames if then else not allOf oneOf",
];
/// Keywords whose value is schemas by names.
const NAMED: Known = ["properties definitions $defs", "patternProperties"];
/// Values of `format`.
const FORMATS: Known =
    ["date-time date time duration email hostname ipv4 ipv6 uuid", "uri uri-reference regex"];

impl Taker {
    /// Whether it takes the schema of an answer. Its root has to be an object.
    pub(crate) fn takes(self, schema: &Value) -> bool {
        schema["type"] == "object" && (self == Strict || is_input_of_a_tool(schema)) && self.knows(schema)
    }

    fn knows(self, schema: &Value) -> bool {
        match schema {
            Value::Object(fields) => {
                (self != Strict || is_held(fields))
                    && fields.iter().all(|(name, value)| self.knows_keyword(name, value))
            }
            // Anything at all, or nothing.
            _ => self != Strict,
        }
    }

    fn knows_keyword(self, name: &str, value: &Value) -> bool {
        match value {
            Value::String(format) if name == "format" => self.has(FORMATS, format),
            // Its objects were found to be closed.
            _ if name == "additionalProperties" && self == Strict => *value == false,
            _ if self.has(PLAIN, name) => true,
            Value::Array(schemas) if self.has(SCHEMA, name) => {
                schemas.iter().all(|schema| self.knows(schema))
            }
            schema if self.has(SCHEMA, name) => self.knows(schema),
            Value::Object(schemas) if self.has(NAMED, name) => {
                schemas.values().all(|schema| self.knows(schema))
            }
            _ => false,
        }
    }

    fn has(self, [both, claude]: Known, word: &str) -> bool {
        both.split(' ').any(|known| known == word)
            || (self == Claude && claude.split(' ').any(|known| known == word))
    }
}

/// The schema becomes the input of a tool, which Anthropic's API takes without a choice at its top, and with such names there.
fn is_input_of_a_tool(schema: &Value) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_name = |name: &String| (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    ["oneOf", "anyOf", "allOf"].iter().all(|word| schema.get(word).is_none())
        && schema["properties"].as_object().is_none_or(|properties| properties.keys().all(is_name))
}

/// Whether it says something, and leaves nothing open.
fn is_held(fields: &Map<String, Value>) -> bool {
    let says = ["type", "$ref", "anyOf", "enum", "const"].iter().any(|word| fields.contains_key(*word));
    says && (!is_object(fields) || is_closed(fields))
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
            assert!(Strict.takes(&of(taken.clone())), "{taken}");
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
            assert!(!Strict.takes(&of(refused.clone())), "{refused}");
        }
        assert!(!Strict.takes(&json!({ "type": "array", "items": { "type": "string" } })));
    }

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
            assert!(Claude.takes(&of(known.clone())), "{known}");
        }
        for unknown in [
            json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
            json!({ "items": { "unevaluatedProperties": false } }),
            json!({ "type": "string", "format": "cuid" }),
            json!({ "anyOf": [{ "x-note": "ours" }] }),
            json!({ "properties": [] }),
        ] {
            assert!(!Claude.takes(&of(unknown.clone())), "{unknown}");
        }
        assert!(!Claude.takes(&json!({ "type": "array" })));
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
            assert!(!Claude.takes(&schema), "{schema}");
        }
        let within =
            json!({"type":"object","properties":{"a":{"anyOf":[{"type":"string"},named("first name")]}}});
        for schema in [named("first_name.2-b"), named(&"a".repeat(64)), within] {
            assert!(Claude.takes(&schema), "{schema}");
        }
    }
}
