//! PURE: schemas of answers that a CLI takes as an argument.

use crate::harness::launch::Wanted;
use crate::model::taken_schema::Taker;
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
    fits_an_argument(schema) && Taker::Claude.takes(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_of_the_dialect_is_left_out() {
        let schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object" });
        assert!(claude_takes(&schema));
        assert_eq!(without_dialect(&schema), r#"{"type":"object"}"#);
        let long = json!({ "type": "object", "description": "x".repeat(Wanted::MAX_ARGUMENT_BYTES) });
        assert!(!claude_takes(&long));
    }
}
