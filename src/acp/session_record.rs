//! A session on record: as a turn's (`harness::turn_record`), with all that the session tells, and the prompts.

use super::request::OpenRequest;
use crate::error::Error;
use crate::harness::turn_record::{TurnRecord, common_start, secrets};
use crate::record::{Place, RecordSpec};
use serde_json::json;
use std::path::Path;

/// What the session is called.
pub(super) fn label(request: &OpenRequest) -> String {
    request.name.clone().unwrap_or_else(|| format!("{} session", request.provider.as_str()))
}

/// Makes the folder; `None` when none is wanted.
///
/// # Errors
/// `INVALID_OPTION` where nothing can be written.
pub(super) async fn open(request: &OpenRequest, cwd: &Path) -> Result<Option<TurnRecord>, Error> {
    let Some(folder) = &request.record else { return Ok(None) };
    let mut spec = RecordSpec::new(Place::Below(folder.clone()));
    spec.secrets = secrets(&request.redact, &request.environment);
    spec.max_bytes = request.max_record_bytes.unwrap_or(spec.max_bytes);
    let mut start = common_start("session", &label(request));
    let facts = [
        ("provider", json!(request.provider.as_str())),
        ("model", json!(request.model)),
        ("cwd", json!(cwd)),
        ("resume", json!(request.resume)),
    ];
    start.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    TurnRecord::create(spec, start).await.map(Some)
}
