//! The record of a session: like a turn's (`harness::turn::record`), with all events of the session, and its prompts.

use crate::acp::opening::request::OpenRequest;
use crate::harness::turn::record::{TurnRecord, agent_facts, common_start};
use ground::error::Error;
use serde_json::json;
use std::path::Path;

/// Display name of the session.
pub(crate) fn label(request: &OpenRequest) -> String {
    request.agent.name.clone().unwrap_or_else(|| format!("{} session", request.agent.provider.as_str()))
}

/// Creates the record's folder; `None` if no record is requested.
///
/// # Errors
/// `INVALID_OPTION` if the folder can't be written.
pub(crate) async fn open(request: &OpenRequest, cwd: &Path) -> Result<Option<TurnRecord>, Error> {
    let Some(spec) = request.agent.record_spec() else { return Ok(None) };
    let mut start = common_start("session", &label(request));
    start.extend(agent_facts(&request.agent));
    start.insert("cwd".to_owned(), json!(cwd));
    TurnRecord::create(spec, start).await.map(Some)
}
