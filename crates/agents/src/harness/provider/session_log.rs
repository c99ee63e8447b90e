//! A session's usage before a turn, read from the log that its CLI keeps. It is for CLIs that count on over a session's turns:
//! the usage of a turn is right whichever host or terminal ran the turns before.

use crate::harness::event::Usage;
use crate::harness::provider::place::resolve;
use ground::json::{Index, Line};
use ground::os::open_regular;
use memchr::memmem::Finder;
use std::fs::read_dir;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most directory entries that are examined in the search for a log.
const MAX_ENTRIES: usize = 50_000;
/// Most levels of folders that are searched.
const MAX_DEPTH: usize = 4;
/// Longest log that is read.
const MAX_BYTES: u64 = 1 << 30;
/// Longest line that is read; longer ones hold no usage. The limit keeps a sandboxed program from filling the memory with one
/// line.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// The location of a CLI's session logs, with one JSON object per line, and the lines that report usage.
pub struct SessionLog {
    /// Their folder.
    pub place: &'static str,
    /// Lines without this text hold no usage.
    pub sign: &'static str,
    /// Adds the usage in a line to the sum.
    pub count: fn(Line, &mut Usage),
}

/// The usage that the log of this session reports; `None` without a log.
/// `variable` looks up a variable of the run's environment.
pub(crate) async fn counted(
    log: &'static SessionLog,
    variable: impl Fn(&str) -> Option<String>,
    session: &str,
) -> Option<Usage> {
    let folder = resolve(log.place, &variable)?;
    let session = session.to_owned();
    ground::os::blocking(move || read(log, &file_of(&folder, &session)?)).await.ok().flatten()
}

/// The log of this session, somewhere in the folder.
pub(crate) fn file_of(folder: &Path, session: &str) -> Option<PathBuf> {
    find(folder, session, &mut MAX_ENTRIES.clone(), MAX_DEPTH)
}

/// The newest folders are the likeliest, and their names sort by time where they have one.
fn find(folder: &Path, session: &str, room: &mut usize, depth: usize) -> Option<PathBuf> {
    let mut folders = Vec::new();
    for entry in read_dir(folder).ok()?.flatten() {
        *room = room.checked_sub(1)?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if name.ends_with(".jsonl") && name.trim_end_matches(".jsonl").ends_with(session) {
            return Some(entry.path());
        }
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    folders.iter().rev().find_map(|folder| find(folder, session, room, depth - 1))
}

fn read(log: &SessionLog, file: &Path) -> Option<Usage> {
    let (sign, mut index) = (Finder::new(log.sign), Index::default());
    let (mut usage, mut line) = (Usage::default(), Vec::new());
    let mut lines = BufReader::with_capacity(256 << 10, open_regular(file).ok()?.0.take(MAX_BYTES));
    while (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).ok()? > 0 {
        if sign.find(&line).is_some()
            && let Some(line) = index.read(line.trim_ascii())
        {
            (log.count)(line, &mut usage);
        }
        line.clear();
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use crate::harness::provider::Provider;
    use crate::harness::provider::session_log::*;

    async fn counted_in(provider: Provider, path: &str, lines: &str) -> Option<(u64, u64, u64)> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, lines).unwrap();
        let home = home.path().to_str().unwrap();
        let variable = |name: &str| (name == "HOME").then(|| home.to_owned());
        let usage = counted(provider.descriptor().session_log?, variable, "01a2-s").await?;
        Some((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens))
    }

    #[tokio::test]
    async fn a_log_of_codex_tells_the_sum_so_far_and_the_last_one_counts() {
        let line = |input| {
            format!(
                "{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":{{\"input_tokens\":{input},\"cached_input_tokens\":3,\"output_tokens\":2}}}}}}}}\n"
            )
        };
        let limits_alone = "{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\",\"info\":null}}\n";
        let log = format!("{}no JSON token_count\n{}{limits_alone}", line(900), line(1800));
        let path = ".codex/sessions/2026/11/22/rollout-2026-11-22T15-41-20-01a2-s.jsonl";
        assert_eq!(counted_in(Provider::Codex, path, &log).await, Some((1800, 2, 3)));
        assert_eq!(counted_in(Provider::Codex, path, "").await, Some((0, 0, 0)));
        let other = ".codex/sessions/2026/11/22/rollout-2026-11-22T15-41-20-01a2-t.jsonl";
        assert_eq!(counted_in(Provider::Codex, other, &log).await, None);
    }

    #[tokio::test]
    async fn a_log_of_qwen_tells_each_call_and_they_add_up() {
        let call = "{\"systemPayload\":{\"uiEvent\":{\"event.name\":\"qwen-code.api_response\",\"input_token_count\":900,\"output_token_count\":21,\"cached_content_token_count\":300}}}\n";
        let log = format!("{call}{{\"type\":\"user\"}}\n{call}");
        let path = ".qwen/projects/-work/chats/01a2-s.jsonl";
        assert_eq!(counted_in(Provider::Qwen, path, &log).await, Some((1800, 42, 600)));
        assert_eq!(counted_in(Provider::Pi, path, &log).await, None);
    }
}
