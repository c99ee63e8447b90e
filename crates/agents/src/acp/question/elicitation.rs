//! PURE: input that the agent asks of the user, in one shape for both versions: fields of a form, or a page to visit.

use crate::acp::wire::update::owned;
use serde::Serialize;
use serde_json::{Value, json};

/// The request to a handler; the shape is that of `ElicitationRequest` in lib/harness/session/elicitation.ts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Elicitation {
    pub id: String,
    pub message: String,
    /// `form` or `url`.
    pub mode: &'static str,
    /// JSON Schema of the form's fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// The user's reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    /// The fields of the form, or none where a page is visited.
    Accept(Option<Value>),
    Decline,
    Cancel,
}

impl Elicitation {
    /// Reads the params of `elicitation/create`. `None`: a mode that is not known, or one that lacks its schema or URL.
    pub(crate) fn read(id: &str, params: &Value) -> Option<Elicitation> {
        let schema = Some(&params["requestedSchema"]).filter(|schema| schema.is_object()).cloned();
        let url = owned(&params["url"]);
        let mode = match params["mode"].as_str() {
            Some("form") if schema.is_some() => "form",
            Some("url") if url.is_some() => "url",
            _ => return None,
        };
        Some(Elicitation {
            id: id.to_owned(),
            message: owned(&params["message"]).unwrap_or_default(),
            mode,
            schema: schema.filter(|_| mode == "form"),
            url: url.filter(|_| mode == "url"),
            tool_call_id: owned(&params["toolCallId"]),
        })
    }
}

impl Elicited {
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Elicited::Accept(_) => "accept",
            Elicited::Decline => "decline",
            Elicited::Cancel => "cancel",
        }
    }

    /// The answer on the wire.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Elicited::Accept(Some(content)) => json!({ "action": "accept", "content": content }),
            _ => json!({ "action": self.action() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_and_a_page_are_read_and_other_modes_are_not() {
        let schema = json!({"type":"object","properties":{"name":{"type":"string"}}});
        let form =
            json!({"mode":"form","message":"Who?","requestedSchema":schema,"sessionId":"s","toolCallId":"t"});
        let read = Elicitation::read("1", &form).unwrap();
        assert_eq!((read.mode, read.message.as_str(), &read.schema), ("form", "Who?", &Some(schema)));
        assert_eq!(read.tool_call_id.as_deref(), Some("t"));
        let page = json!({"mode":"url","message":"Sign in","url":"https://example.com","elicitationId":"e"});
        assert_eq!(
            json!(Elicitation::read("2", &page).unwrap()),
            json!({"id":"2","message":"Sign in","mode":"url","url":"https://example.com"})
        );
        for odd in [json!({"mode":"form"}), json!({"mode":"url"}), json!({"mode":"voice"}), json!("x")] {
            assert_eq!(Elicitation::read("3", &odd), None, "{odd}");
        }
    }

    #[test]
    fn a_reply_has_content_only_where_there_is_some() {
        assert_eq!(
            Elicited::Accept(Some(json!({"a":1}))).to_json(),
            json!({"action":"accept","content":{"a":1}})
        );
        assert_eq!(Elicited::Accept(None).to_json(), json!({"action":"accept"}));
        assert_eq!(Elicited::Decline.to_json(), json!({"action":"decline"}));
        assert_eq!(Elicited::Cancel.to_json(), json!({"action":"cancel"}));
    }
}
