//! What an agent writes into the log of its session and does not say: that its model failed.
//!
//! Pi ends such a turn as any other, with whatever words came before, or with none.

use crate::harness::session_log;
use crate::os::blocking;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// Of the end of a log, looked at.
const TAIL_BYTES: u64 = 1 << 20;
/// On a disk that does not answer, nothing is known.
const LONGEST: Duration = Duration::from_secs(2);

/// A log, one JSON a line, in a file named by its session.
pub(crate) struct AgentLog {
    /// The first of these variables that is set, and the folder below.
    pub places: &'static [(&'static str, &'static str)],
    /// The failure that the last message tells.
    pub failure: fn(&str) -> Option<String>,
}

pub(crate) const PI_LOG: AgentLog =
    AgentLog { places: &[("PI_CODING_AGENT_DIR", "sessions"), ("HOME", ".pi/agent/sessions")], failure: pi };

/// The failure that the turn which ended just now came to, by its log. `variable`: of the agent's environment.
pub(crate) async fn failure(
    log: &'static AgentLog,
    variable: impl Fn(&str) -> Option<String>,
    session: &str,
) -> Option<String> {
    let folder = session_log::folder(log.places, variable)?;
    let session = session.to_owned();
    let read = blocking(move || {
        let tail = tail(&session_log::file_of(&folder, &session)?).ok()?;
        (log.failure)(&String::from_utf8_lossy(&tail))
    });
    tokio::time::timeout(LONGEST, read).await.ok()?.ok().flatten()
}

fn tail(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

/// `{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"401: ..."}}`, if nothing was said after it.
fn pi(log: &str) -> Option<String> {
    let messages = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = messages.into_iter().find(|line| line["type"] == "message")?;
    let message = &last["message"];
    let has_failed = message["role"] == "assistant" && message["stopReason"] == "error";
    let words = || message["errorMessage"].as_str().unwrap_or("its model failed").to_owned();
    has_failed.then(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = r#"{"type":"message","message":{"role":"user","content":[]}}"#;
    const GOOD: &str = r#"{"type":"message","message":{"role":"assistant","stopReason":"stop"}}"#;
    const BAD: &str =
        r#"{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"401: no"}}"#;

    #[test]
    fn the_last_message_of_pi_says_whether_its_model_failed() {
        let log = |lines: &[&str]| pi(&lines.join("\n"));
        assert_eq!(log(&[USER, BAD]), Some("401: no".into()));
        assert_eq!(log(&[USER, BAD, r#"{"type":"model_change"}"#, "torn {"]), Some("401: no".into()));
        assert_eq!(log(&[USER, BAD, USER, GOOD]), None);
        assert_eq!(log(&[USER, BAD, USER]), None, "of the turn before");
        assert_eq!(log(&[]), None);
    }

    #[tokio::test]
    async fn a_log_is_found_by_its_session() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".pi/agent/sessions/--work--");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("2026-11-22T17-45-57-882Z_01a2-s.jsonl"), format!("{USER}\n{BAD}\n"))
            .unwrap();
        let home = home.path().to_str().unwrap().to_owned();
        let variable = |name: &str| (name == "HOME").then(|| home.clone());
        assert_eq!(failure(&PI_LOG, variable, "01a2-s").await, Some("401: no".into()));
        assert_eq!(failure(&PI_LOG, variable, "01a2-t").await, None);
        assert_eq!(failure(&PI_LOG, |_: &str| None, "01a2-s").await, None);
    }
}
