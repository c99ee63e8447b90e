//! PURE: a job's record as it is shown and listed.

use super::record::JobRecord;
use serde_json::{Map, Value, json};

impl JobRecord {
    /// The record for users, without the fields that only its holder needs.
    pub fn shown(&self) -> Value {
        let mut shown = json!(self);
        if let Some(fields) = shown.as_object_mut() {
            to_shown(fields);
        }
        shown
    }
}

/// Removes what only the holder of a job needs. The store has the number of attempts that a job may use as `attempts`, and the
/// attempts as `runs`.
fn to_shown(fields: &mut Map<String, Value>) {
    for name in ["token", "message", "afterTools", "sessionObject", "usageBefore"] {
        fields.remove(name);
    }
    let runs = fields.remove("runs").unwrap_or_else(|| json!([]));
    if let Some(most) = fields.insert("attempts".to_owned(), runs) {
        fields.insert("maxAttempts".to_owned(), most);
    }
}

/// A record as it is listed. A newer version may have written a state that this one does not know.
#[derive(Clone, Debug)]
pub enum Listed {
    Known(Box<JobRecord>),
    Unknown(Map<String, Value>),
}

impl Listed {
    /// `id`: what the record's subject says.
    pub fn parse(payload: &[u8], id: String) -> Listed {
        if let Ok(record) = ground::json::read_own::<JobRecord>(payload) {
            return Listed::Known(Box::new(record));
        }
        let mut fields: Map<String, Value> = ground::json::read_own(payload).unwrap_or_default();
        fields.insert("id".to_owned(), id.into());
        // Lists are sorted by these fields and show them.
        for (name, otherwise) in [
            ("state", json!("unknown")),
            ("queue", json!("")),
            ("submittedAt", json!(0)),
            ("attempt", json!(0)),
        ] {
            let is_fit = fields.get(name).is_some_and(|value| value.is_string() == otherwise.is_string());
            if !is_fit {
                fields.insert(name.to_owned(), otherwise);
            }
        }
        Listed::Unknown(fields)
    }

    pub fn id(&self) -> &str {
        match self {
            Listed::Known(record) => &record.id,
            Listed::Unknown(fields) => fields["id"].as_str().unwrap_or_default(),
        }
    }

    /// The record for users.
    pub fn shown(&self) -> Value {
        match self {
            Listed::Known(record) => record.shown(),
            Listed::Unknown(fields) => {
                let mut fields = fields.clone();
                to_shown(&mut fields);
                Value::Object(fields)
            }
        }
    }
}
