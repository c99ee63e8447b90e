//! Gemini keeps a session in a file named by the minute in which the session began, and starts a new file when it resumes a
//! session. Within the same minute that is the same file, and the conversation is lost. So a session is resumed only after its
//! first minute.

use ground::os::{blocking, open_regular};
use ground::record::stamp::{epoch_ms, utc};
use std::fs::read_dir;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MINUTE_MS: u64 = 60_000;
/// Added to the wait. It can be short: two programs on one machine have the same clock, and a request arrives later than it is
/// sent.
const MARGIN: Duration = Duration::from_millis(50);
/// Most lines of a file that are read: a program in a sandbox can make a file without an end.
const MAX_LINES: usize = 1000;
const MAX_BYTES: u64 = 16 << 20;

/// The wait until this session can be resumed; `None` without one. `variable` looks up a variable of the agent's environment.
pub(crate) async fn wait(variable: impl Fn(&str) -> Option<String>, session: &str) -> Option<Duration> {
    let home = variable("GEMINI_CLI_HOME").or_else(|| variable("HOME"))?;
    let folder = PathBuf::from(home).join(".gemini").join("tmp");
    let session = session.to_owned();
    let now = epoch_ms(SystemTime::now());
    let is_young = blocking(move || is_young(&folder, &session, now)).await.unwrap_or(false);
    is_young.then(|| Duration::from_millis(MINUTE_MS - now % MINUTE_MS) + MARGIN)
}

/// Whether words of this session stand in a file of this minute.
fn is_young(folder: &Path, session: &str, now_ms: u64) -> bool {
    let minute = utc(now_ms).get(..16).unwrap_or_default().replace(':', "-");
    let Some(begin) = session.get(..8) else { return false };
    let name = format!("session-{minute}-{begin}.jsonl");
    let projects = read_dir(folder).into_iter().flatten().flatten();
    projects.map(|project| project.path().join("chats").join(&name)).any(|file| has_words(&file))
}

/// Its first lines are there from the start.
fn has_words(file: &Path) -> bool {
    let Ok((file, _)) = open_regular(file) else { return false };
    let lines = BufReader::new(file.take(MAX_BYTES)).lines().map_while(Result::ok).take(MAX_LINES);
    lines.into_iter().any(|line| line.contains("\"type\":\"gemini\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = r#"{"id":"1","type":"gemini","content":"The first."}"#;
    const SESSION: &str = "a05ce6b5-d185-4ade-bda6-f5e3ec9001fb";
    /// 2026-11-22T14:25:58.123Z
    const NOW_MS: u64 = 1_795_357_558_123;

    #[test]
    fn a_session_is_young_in_the_minute_of_its_first_words() {
        let home = tempfile::tempdir().unwrap();
        let chats = home.path().join("work").join("chats");
        std::fs::create_dir_all(&chats).unwrap();
        let file = chats.join("session-2026-11-22T14-25-a05ce6b5.jsonl");
        std::fs::write(&file, "{\"sessionId\":\"a05ce6b5\"}\n").unwrap();
        assert!(!is_young(home.path(), SESSION, NOW_MS), "nothing was said");
        let endless = std::fs::File::create(&file).unwrap();
        endless.set_len(1 << 40).unwrap();
        assert!(!is_young(home.path(), SESSION, NOW_MS), "a line without an end fills no memory");
        std::fs::write(&file, format!("{{\"sessionId\":\"a05ce6b5\"}}\n{WORDS}\n")).unwrap();
        assert!(is_young(home.path(), SESSION, NOW_MS));
        assert!(!is_young(home.path(), SESSION, NOW_MS + MINUTE_MS));
        assert!(!is_young(home.path(), "b05ce6b5-d185-4ade-bda6-f5e3ec9001fb", NOW_MS));
        assert!(!is_young(home.path(), "short", NOW_MS));
        assert!(!is_young(&home.path().join("absent"), SESSION, NOW_MS));
    }
}
