//! Reads an agent's session log for facts that the agent does not report: that its model failed, or that its answer was cut.

use crate::harness::provider::place::resolve;
use crate::harness::provider::protocol::{AgentLog, Logged};
use ground::os::{blocking, open_regular, within};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// Bytes at the end of a log that are read.
const TAIL_BYTES: u64 = 1 << 20;
/// Longest wait for the disk; after it the log counts as unknown.
const LONGEST: Duration = Duration::from_secs(2);

/// The log's result of the turn that has just ended. `variable` looks up a variable of the agent's environment.
pub(crate) async fn told(
    log: &'static AgentLog,
    variable: impl Fn(&str) -> Option<String>,
    session: &str,
) -> Option<Logged> {
    let folder = resolve(log.place, &variable)?;
    let session = session.to_owned();
    let read = blocking(move || {
        let tail = tail(&(log.file)(&folder, &session)?).ok()?;
        (log.told)(&String::from_utf8_lossy(&tail))
    });
    within(LONGEST, read).await?.ok().flatten()
}

fn tail(file: &Path) -> std::io::Result<Vec<u8>> {
    let (mut file, facts) = open_regular(file)?;
    let length = facts.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Provider;

    fn log_of(provider: Provider) -> &'static AgentLog {
        provider.protocol().log.unwrap()
    }

    const USER: &str = r#"{"type":"message","message":{"role":"user","content":[]}}"#;
    const GOOD: &str = r#"{"type":"message","message":{"role":"assistant","stopReason":"stop"}}"#;
    const BAD: &str =
        r#"{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"401: no"}}"#;

    #[test]
    fn the_last_message_of_pi_says_whether_its_model_failed() {
        let log = |lines: &[&str]| (log_of(Provider::Pi).told)(&lines.join("\n"));
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
        let log = |lines: &[&str]| (log_of(Provider::Copilot).told)(&lines.join("\n"));
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
        assert_eq!(
            told(log_of(Provider::Pi), variable, "01a2-s").await,
            Some(Logged::Failed("401: no".into()))
        );
        assert_eq!(told(log_of(Provider::Pi), variable, "01a2-t").await, None);
        assert_eq!(told(log_of(Provider::Pi), |_: &str| None, "01a2-s").await, None);
        assert_eq!(told(log_of(Provider::Copilot), variable, "01a2-s").await, None);
        for odd in ["", "..", "../x", "/etc", "a/b", "."] {
            assert_eq!((log_of(Provider::Copilot).file)(Path::new("/folder"), odd), None, "{odd}");
        }
        assert!((log_of(Provider::Copilot).file)(Path::new("/folder"), "0-a").is_some());
    }
}
