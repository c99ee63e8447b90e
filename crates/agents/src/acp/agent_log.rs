//! Reads an agent's session log for facts that the agent does not report: that its model failed, or that its answer was cut.
//!
//! Pi ends such a turn like any other, with the text that came before, or with none. Copilot sends the error as if it were an
//! answer, and its model could send such a text too.

use crate::harness::limit::session_log;
use ground::os::{blocking, open_regular};
use serde_json::Value;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes at the end of a log that are read.
const TAIL_BYTES: u64 = 1 << 20;
/// Longest wait for the disk; after it the log counts as unknown.
const LONGEST: Duration = Duration::from_secs(2);

/// A log with one JSON object per line.
pub(crate) struct AgentLog {
    /// The first of these variables that is set, and the folder below.
    pub places: &'static [(&'static str, &'static str)],
    /// The file of a session in that folder.
    pub file: fn(&Path, &str) -> Option<PathBuf>,
    /// Finds the last turn's result in the end of the log.
    pub told: fn(&str) -> Option<Logged>,
}

/// The result of a turn in a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Logged {
    /// The model failed, in these words.
    Failed(String),
    /// The answer was cut at the model's longest.
    Cut,
}

pub(crate) const PI_LOG: AgentLog = AgentLog {
    places: &[("PI_CODING_AGENT_DIR", "sessions"), ("HOME", ".pi/agent/sessions")],
    file: session_log::file_of,
    told: pi,
};

pub(crate) const COPILOT_LOG: AgentLog = AgentLog {
    places: &[("COPILOT_HOME", "session-state"), ("HOME", ".copilot/session-state")],
    file: |folder, session| {
        // The agent names the session: no name leads out of the folder.
        let is_name = Path::new(session).file_name().is_some_and(|name| name == session);
        is_name.then(|| folder.join(session).join("events.jsonl"))
    },
    told: copilot,
};

/// The log's result of the turn that has just ended. `variable` looks up a variable of the agent's environment.
pub(crate) async fn told(
    log: &'static AgentLog,
    variable: impl Fn(&str) -> Option<String>,
    session: &str,
) -> Option<Logged> {
    let folder = session_log::folder(log.places, variable)?;
    let session = session.to_owned();
    let read = blocking(move || {
        let tail = tail(&(log.file)(&folder, &session)?).ok()?;
        (log.told)(&String::from_utf8_lossy(&tail))
    });
    tokio::time::timeout(LONGEST, read).await.ok()?.ok().flatten()
}

fn tail(file: &Path) -> std::io::Result<Vec<u8>> {
    let (mut file, facts) = open_regular(file)?;
    let length = facts.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

/// `{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"401: ..."}}`, if nothing was said after it.
fn pi(log: &str) -> Option<Logged> {
    let last = last_of(log, |line| line["type"] == "message")?;
    let message = &last["message"];
    match message["stopReason"].as_str().filter(|_| message["role"] == "assistant")? {
        "error" => Some(Logged::Failed(words(&message["errorMessage"]))),
        "length" => Some(Logged::Cut),
        _ => None,
    }
}

/// `{"type":"session.error","data":{"errorType":"rate_limit","message":"429 ...","statusCode":429}}`, if nothing was said after it.
fn copilot(log: &str) -> Option<Logged> {
    const SAID: [&str; 3] = ["user.message", "assistant.message", "session.error"];
    let last = last_of(log, |line| line["type"].as_str().is_some_and(|word| SAID.contains(&word)))?;
    (last["type"] == "session.error").then(|| Logged::Failed(words(&last["data"]["message"])))
}

fn last_of(log: &str, is_meant: impl Fn(&Value) -> bool) -> Option<Value> {
    log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(is_meant)
}

fn words(message: &Value) -> String {
    message.as_str().unwrap_or("its model failed").to_owned()
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
        let failed = || Some(Logged::Failed("401: no".into()));
        let cut = r#"{"type":"message","message":{"role":"assistant","stopReason":"length"}}"#;
        assert_eq!(log(&[USER, BAD]), failed());
        assert_eq!(log(&[USER, BAD, r#"{"type":"model_change"}"#, "torn {"]), failed());
        assert_eq!(log(&[USER, cut]), Some(Logged::Cut));
        assert_eq!(log(&[USER, BAD, USER, GOOD]), None);
        assert_eq!(log(&[USER, BAD, USER]), None, "of the turn before");
        assert_eq!(log(&[]), None);
    }

    #[test]
    fn the_last_word_of_copilot_says_whether_its_model_failed() {
        const USER: &str = r#"{"type":"user.message","data":{"content":"go"}}"#;
        const SAID: &str = r#"{"type":"assistant.message","data":{"content":"Error: is what it printed."}}"#;
        const END: &str = r#"{"type":"assistant.turn_end","data":{"turnId":"1"}}"#;
        const BAD: &str =
            r#"{"type":"session.error","data":{"errorType":"rate_limit","message":"429 slow down"}}"#;
        let log = |lines: &[&str]| copilot(&lines.join("\n"));
        assert_eq!(log(&[USER, SAID, END, USER, END, BAD]), Some(Logged::Failed("429 slow down".into())));
        assert_eq!(log(&[USER, SAID, END]), None);
        assert_eq!(log(&[USER, END, BAD, USER, SAID, END]), None, "of the turn before");
        assert_eq!(log(&[USER, BAD, SAID, END]), None, "it went on");
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
        assert_eq!(told(&PI_LOG, variable, "01a2-s").await, Some(Logged::Failed("401: no".into())));
        assert_eq!(told(&PI_LOG, variable, "01a2-t").await, None);
        assert_eq!(told(&PI_LOG, |_: &str| None, "01a2-s").await, None);
        assert_eq!(told(&COPILOT_LOG, variable, "01a2-s").await, None);
        for odd in ["", "..", "../x", "/etc", "a/b", "."] {
            assert_eq!((COPILOT_LOG.file)(Path::new("/folder"), odd), None, "{odd}");
        }
        assert!((COPILOT_LOG.file)(Path::new("/folder"), "0-a").is_some());
    }
}
