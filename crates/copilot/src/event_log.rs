//! A session's log on disk, `session-state/<id>/events.jsonl`: reading it, and salvaging its valid part. The original is never
//! changed.

use super::resume::LogState;
use ground::error::{Error, ErrorCode};
use ground::os::{open_regular, read_short_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Longer than any `workspace.yaml`.
const MAX_WORKSPACE_BYTES: u64 = 4 << 20;

/// The result of reading a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    pub log: LogState,
    /// Number of user messages left in the log.
    pub turns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<String>,
    /// Number of the first line that is not an event, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_line: Option<u64>,
    pub path: PathBuf,
}

/// The result of a salvage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Salvage {
    pub session_id: String,
    pub kept: u64,
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of the line, from 1.
    pub line: u64,
    pub reason: String,
}

/// Whether an id is a valid folder name. Other ids are never looked up on disk.
pub fn is_plain_id(session_id: &str) -> bool {
    !matches!(session_id, "" | "." | "..") && !session_id.contains(['/', '\\', '\0'])
}

/// The path of a session's log in this home.
pub fn log_path(home: &Path, session_id: &str) -> PathBuf {
    home.join("session-state").join(session_id).join("events.jsonl")
}

/// Reads the log; blocks. The result for an unreadable home is `Unknown`.
pub fn inspect(home: &Path, session_id: &str) -> Inspection {
    let path = log_path(home, session_id);
    let found = |log| Inspection { log, turns: 0, last_event_id: None, bad_line: None, path: path.clone() };
    if !is_plain_id(session_id) {
        return found(LogState::Unknown);
    }
    let file = match open_regular(&path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A log counts as absent only when the home can be read. A home that was never created contains no log.
            return match fs::read_dir(home) {
                Ok(_) => found(LogState::Absent),
                Err(error) if error.kind() == io::ErrorKind::NotFound => found(LogState::Absent),
                Err(_) => found(LogState::Unknown),
            };
        }
        Err(_) => return found(LogState::Unreadable),
    };
    let mut history = History::default();
    let read = for_each_line(file, |number, line| history.push(number, line));
    match read {
        Ok(0) => found(LogState::Empty),
        Ok(_) => history.into_inspection(path),
        Err(_) => found(LogState::Unreadable),
    }
}

/// Bytes of the session's log, 0 when there is none.
pub fn log_size(home: &Path, session_id: &str) -> u64 {
    match is_plain_id(session_id) {
        true => fs::metadata(log_path(home, session_id)).map_or(0, |metadata| metadata.len()),
        false => 0,
    }
}

/// Copies the valid lines to a new session; blocks. `new_id` must be a UUID that no session has.
pub fn salvage(home: &Path, session_id: &str, new_id: &str) -> Result<Salvage, Error> {
    let path = log_path(home, session_id);
    if !is_plain_id(session_id) {
        return Err(Error::new(ErrorCode::ResumeNotFound, format!("invalid session id {session_id:?}")));
    }
    let (file, _) = open_regular(&path).map_err(|error| {
        Error::new(ErrorCode::ResumeNotFound, format!("the log {} can't be read: {error}", path.display()))
    })?;
    let target = home.join("session-state").join(new_id);
    let made = copy_session(file, &path, &target, session_id, new_id);
    made.map_err(|error| {
        // Remove the incomplete copy. The folder was created by this function.
        let _ = ground::os::remove_tree(&target);
        let message = format!("the copy {} can't be written: {error}", target.display());
        Error::new(ErrorCode::ResumeFailed, message)
    })
}

fn copy_session(
    file: File,
    path: &Path,
    target: &Path,
    session_id: &str,
    new_id: &str,
) -> io::Result<Salvage> {
    fs::create_dir_all(target)?;
    let mut output = BufWriter::new(File::create_new(target.join("events.jsonl"))?);
    let mut salvage = Salvage { session_id: new_id.to_owned(), kept: 0, left_out: Vec::new() };
    let mut failed = Ok(());
    for_each_line(file, |number, line| {
        if failed.is_err() {
            return;
        }
        // A write that was cut off by the end of the machine can leave zeros in front of the next one.
        let line = line.trim_matches('\0');
        let kept = match parse_line(line) {
            Line::Blank => return,
            Line::Bad(reason) => Err(reason),
            // A history begins with its start event. Without it, the runtime would not read the remaining events.
            Line::Event(event) if salvage.kept == 0 && !event.begins() => {
                Err("it comes before the session's start".into())
            }
            Line::Event(event) => Ok(event.begins()),
        };
        match kept {
            Ok(begins) => {
                salvage.kept += 1;
                let text = match begins {
                    true => rename(line, session_id, new_id),
                    false => Cow::Borrowed(line),
                };
                failed = writeln!(output, "{text}");
            }
            Err(reason) => salvage.left_out.push(LeftOut { line: number, reason }),
        }
    })?;
    failed?;
    output.flush()?;
    if let Some(folder) = path.parent()
        && let Ok(workspace) = read_short_text(&folder.join("workspace.yaml"), MAX_WORKSPACE_BYTES)
    {
        let lines = workspace.lines().map(|line| match line.starts_with("id:") {
            true => format!("id: {new_id}\n"),
            false => format!("{line}\n"),
        });
        fs::write(target.join("workspace.yaml"), lines.collect::<String>())?;
    }
    Ok(salvage)
}

/// The start event of the session, with the new id.
fn rename<'a>(line: &'a str, session_id: &str, new_id: &str) -> Cow<'a, str> {
    let Ok(mut event) = ground::json::read::<Value>(line) else { return Cow::Borrowed(line) };
    let Some(id) = event.pointer_mut("/data/sessionId") else { return Cow::Borrowed(line) };
    if id == session_id {
        *id = Value::from(new_id);
    }
    Cow::Owned(event.to_string())
}

/// Calls back with each line without its end, numbered from 1; returns the bytes read. As in the runtime, bytes that are no UTF-8 are
/// replaced, and a byte order mark is skipped.
fn for_each_line(file: File, mut each: impl FnMut(u64, &str)) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = Vec::new();
    let mut bytes = 0;
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        let end = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = String::from_utf8_lossy(end.strip_suffix(b"\r").unwrap_or(end));
        let begin = if number == 1 { text.strip_prefix('\u{feff}') } else { None };
        each(number, begin.unwrap_or(&text));
    }
    Ok(bytes)
}

enum Line<'a> {
    Blank,
    Event(Event<'a>),
    Bad(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow, default)]
    agent_id: Option<&'a RawValue>,
}

impl Event<'_> {
    fn begins(&self) -> bool {
        matches!(&*self.kind, "session.start" | "session.resume")
    }
}

fn parse_line(line: &str) -> Line<'_> {
    // A file that was not closed may end in zeros. They damage no event.
    if line.bytes().all(|byte| byte.is_ascii_whitespace() || byte == 0) {
        return Line::Blank;
    }
    match ground::json::read_borrowed::<Event<'_>>(line) {
        Ok(event) if !is_uuid(&event.id) => Line::Bad("its id is not a UUID".to_owned()),
        Ok(event) if !event.data.get().starts_with('{') => Line::Bad("its data is not an object".to_owned()),
        Ok(event) => Line::Event(event),
        Err(error) => Line::Bad(error.to_string()),
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Those events of a log that decide its state.
#[derive(Default)]
struct History {
    events: u64,
    /// The position of every event, to find what a rewind removes.
    positions: HashMap<String, u64>,
    /// Positions of the user's messages.
    turns: Vec<u64>,
    last_event_id: Option<String>,
    bad_line: Option<u64>,
    first_is_start: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rewind {
    up_to_event_id: String,
}

impl History {
    fn push(&mut self, number: u64, line: &str) {
        let event = match parse_line(line) {
            Line::Blank => return,
            Line::Bad(_) => {
                self.bad_line.get_or_insert(number);
                return;
            }
            Line::Event(event) => event,
        };
        if !*self.first_is_start.get_or_insert(event.begins()) {
            self.bad_line.get_or_insert(number);
        }
        if event.kind == "session.snapshot_rewind"
            && let Ok(rewind) = ground::json::read::<Rewind>(event.data.get())
            && let Some(&position) = self.positions.get(&rewind.up_to_event_id)
        {
            self.turns.retain(|&turn| turn < position);
        }
        if event.kind == "user.message" && event.agent_id.is_none() {
            self.turns.push(self.events);
        }
        self.positions.insert(event.id.clone().into_owned(), self.events);
        self.last_event_id = Some(event.id.into_owned());
        self.events += 1;
    }

    fn into_inspection(self, path: PathBuf) -> Inspection {
        let log = match (self.turns.len(), self.bad_line) {
            // The bad line may have been a turn.
            (0, Some(_)) => LogState::Unreadable,
            (0, None) => LogState::NoTurns,
            _ => LogState::Turns,
        };
        let Self { turns, last_event_id, bad_line, .. } = self;
        Inspection { log, turns: turns.len() as u64, last_event_id, bad_line, path }
    }
}

/// A fuzz target: a log of any bytes.
pub fn fuzz_event_log(bytes: &[u8]) {
    let mut history = History::default();
    for (number, line) in (1..).zip(ground::line::lines_of(bytes)) {
        let line = String::from_utf8_lossy(line);
        history.push(number, &line);
        if let Line::Event(event) = parse_line(&line) {
            assert!(!event.id.is_empty());
        }
    }
    let found = history.into_inspection(PathBuf::new());
    assert_eq!(found.log == LogState::Turns, found.turns > 0, "{found:?}");
    assert!(found.log != LogState::NoTurns || found.bad_line.is_none(), "{found:?}");
}
