//! Classifies a failed resume, PURE: the error and the evidence in, a verdict out. Evidence takes precedence over text. A session
//! that may have a history is never recreated. The first row that matches decides:
//!
//! | row | evidence | verdict |
//! |---|---|---|
//! | a | the error itself does not have the numeric code -32603 | failed |
//! | b | text: a session in use | in use |
//! | b | text: a directory that is missing, an id that is refused | failed |
//! | b | text: network, sign-in, permission, time | transient |
//! | c | text: the custom agent is not found | without the agent; failed when there is none to leave out, or `fallback` is never
//! |
//! | d | user turns in the log or known to the caller, or a log that can't be read | corrupt when log or text shows damage, else
//! not found |
//! | e | a readable home where the log is absent or empty | recreate |
//! | f | text: corruption, validation, schema, parsing | corrupt |
//! | g | a readable log without a user turn | recreate |
//! | h | no evidence | recreate |
//!
//! With `fallback: unless-corrupt`, rows d and e are skipped. With `fallback: never`, the verdict is not found where e, g and h
//! recreate.

use ground::named;
use serde::Serialize;

/// The known facts about the session beside the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeEvidence {
    pub log: LogState,
    /// Number of turns that the caller or this client knows of.
    pub known_turns: u64,
    pub fallback: Fallback,
    /// Whether the request named an agent that can be left out. `None`: unknown.
    pub agent: Option<bool>,
    /// Number of the log's first bad line, from 1.
    pub bad_line: Option<u64>,
}

named! {
    /// State of `session-state/<id>/events.jsonl`.
    #[derive(Default)]
    pub enum LogState {
        /// The home can be read, and there is no log.
        Absent = "absent",
        /// Zero bytes.
        Empty = "empty",
        /// The log can be read, and no user turn is left in it.
        NoTurns = "no-turns",
        Turns = "turns",
        Unreadable = "unreadable",
        /// The state is unknown: a remote server, an unreadable home.
        #[default]
        Unknown = "unknown",
    }
}

/// The condition for opening an empty session afresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// No evidence of a history exists.
    #[default]
    Evidence,
    /// The text of the error decides alone.
    UnlessCorrupt,
    Never,
}

named! {
    /// The meaning of a failed resume.
    pub enum ResumeVerdict {
        /// Open the session afresh, with the same id and configuration.
        Recreate = "recreate",
        /// Resume again, without the agent.
        WithoutAgent = "without-agent",
        Corrupt = "corrupt",
        NotFound = "not-found",
        InUse = "in-use",
        /// Worth a retry.
        Transient = "transient",
        Failed = "failed",
    }
}

/// A verdict and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub verdict: ResumeVerdict,
    pub reason: String,
    /// Number of the damaged line, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// The code of all failures inside the runtime.
pub const INTERNAL_ERROR: i64 = -32603;

/// Decides by the table above. `code` is the JSON-RPC code that the error itself carries.
pub fn classify_resume_error(code: Option<i64>, message: &str, evidence: &ResumeEvidence) -> Judgement {
    let judge = |verdict, reason: &str| Judgement { verdict, reason: reason.to_owned(), line: None };
    if code != Some(INTERNAL_ERROR) {
        let reason = "the error is no internal error of the runtime, so it says nothing about the session";
        return judge(ResumeVerdict::Failed, reason);
    }
    let text = Text::new(message);
    let by_words = [
        (&IN_USE, ResumeVerdict::InUse, "the session is in use elsewhere"),
        (&MISSING_DIRECTORY, ResumeVerdict::Failed, "a directory is missing"),
        (&REFUSED_ID, ResumeVerdict::Failed, "the session id was refused"),
        (&TRANSIENT, ResumeVerdict::Transient, "network, sign-in, permission or time trouble"),
    ];
    if let Some((_, verdict, reason)) = by_words.into_iter().find(|(words, ..)| text.says(words)) {
        return judge(verdict, reason);
    }
    if is_agent_missing(message) {
        let unwanted = "the custom agent is gone, and no fallback is wanted";
        return match (evidence.fallback, evidence.agent) {
            (Fallback::Never, _) => judge(ResumeVerdict::Failed, unwanted),
            (_, Some(false)) => {
                judge(ResumeVerdict::Failed, "the custom agent is gone, and none was asked for")
            }
            _ => judge(ResumeVerdict::WithoutAgent, "the custom agent is gone"),
        };
    }
    let (says_damage, line) = (text.says(&DAMAGE), text.line().or(evidence.bad_line));
    let corrupt = |reason: &str| Judgement { line, ..judge(ResumeVerdict::Corrupt, reason) };
    let recreate = |reason: &str| match evidence.fallback {
        Fallback::Never => judge(ResumeVerdict::NotFound, &format!("{reason}, and no fallback is wanted")),
        _ => judge(ResumeVerdict::Recreate, reason),
    };
    if evidence.fallback != Fallback::UnlessCorrupt {
        let lost = "turns of the session are known that the runtime does not find";
        let lost_in_log = "the session's log holds turns that the runtime does not find";
        match evidence.log {
            LogState::Unreadable => return corrupt("the session's log can't be read"),
            log if log == LogState::Turns || evidence.known_turns > 0 => {
                return match () {
                    () if says_damage => corrupt("the runtime says that the history is damaged"),
                    () if evidence.bad_line.is_some() => corrupt("the session's log has a bad line"),
                    () => judge(
                        ResumeVerdict::NotFound,
                        if log == LogState::Turns { lost_in_log } else { lost },
                    ),
                };
            }
            LogState::Absent => return recreate("the session was never used: it has no log"),
            LogState::Empty => return recreate("the session was never used: its log is empty"),
            _ => {}
        }
    }
    if says_damage {
        return corrupt("the runtime says that the history is damaged");
    }
    match evidence.log {
        LogState::NoTurns => recreate("the session was started over: no turn is left in its log"),
        _ => recreate("nothing says that the session has a history"),
    }
}

/// Whether the message says that the session's custom agent is missing.
pub fn is_agent_missing(message: &str) -> bool {
    let text = message.to_lowercase();
    let missing =
        ["not found", "does not exist", "doesn't exist", "is unknown", "no longer exists", "not available"];
    match text.find("agent") {
        Some(start) => {
            let after = &text[start..];
            missing.iter().any(|missing| after.contains(missing))
                || (text.contains("unknown agent") || text.contains("unknown custom agent"))
                || (text.contains("no such agent") || text.contains("no such custom agent"))
        }
        None => false,
    }
}

/// A message in lower case without its quoted parts: names, paths, ids and excerpts of a log do not describe the failure.
struct Text {
    words: Vec<String>,
    joined: String,
}

impl Text {
    fn new(message: &str) -> Self {
        let lower = message.to_lowercase();
        // The runtime shows the line that it could not read, which may contain any words.
        let said = lower.find(". event: ").map_or(lower.as_str(), |excerpt| &lower[..excerpt]);
        let mut unquoted = without_quotes(said);
        // The id that is not found may be any word.
        for marker in ["session not found:", "sessionid:", "session id:", "session not found for"] {
            if let Some(start) = unquoted.find(marker) {
                let after = start + marker.len();
                let rest = unquoted[after..].trim_start();
                let rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).to_owned();
                unquoted.truncate(after);
                unquoted.push(' ');
                unquoted.push_str(&rest);
            }
        }
        let words: Vec<String> = unquoted
            .split_whitespace()
            .filter(|word| !word.contains('/') && !word.contains('\\'))
            .flat_map(|word| {
                word.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '-')
            })
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let joined = format!(" {} ", words.join(" "));
        Text { words, joined }
    }

    fn says(&self, family: &Family) -> bool {
        family.phrases.split(", ").any(|phrase| self.joined.contains(&format!(" {phrase} ")))
            || self
                .words
                .iter()
                .any(|word| family.stems.split_whitespace().any(|stem| word.starts_with(stem)))
    }

    fn line(&self) -> Option<u64> {
        self.words.windows(2).find_map(|pair| (pair[0] == "line").then(|| pair[1].parse().ok())?)
    }
}

/// Removes the text between quotes. An apostrophe inside a word is not a quote.
fn without_quotes(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut kept = String::with_capacity(text.len());
    let mut position = 0;
    while let Some(&letter) = letters.get(position) {
        let inside_word = position > 0 && letters[position - 1].is_alphanumeric();
        if matches!(letter, '"' | '`') || (letter == '\'' && !inside_word) {
            let close = (position + 1..letters.len()).find(|&at| letters[at] == letter);
            if let Some(close) = close {
                kept.push(' ');
                position = close + 1;
                continue;
            }
        }
        kept.push(letter);
        position += 1;
    }
    kept
}

/// Words with the same meaning: `phrases` as whole words in a row, with commas between the phrases, and `stems` with any inflection.
struct Family {
    phrases: &'static str,
    stems: &'static str,
}

const IN_USE: Family = Family {
    phrases: "in use, being used, another process, another client, already open, already active, already attached, locked by",
    stems: "alreadyinuse",
};

const MISSING_DIRECTORY: Family = Family {
    phrases: "directory does not exist, directory doesn't exist, directory doesn t exist, directory not found, \
              directory was not found, directory is missing, missing directory, no such directory, not a directory, \
              directory cannot be accessed, cwd does not exist",
    stems: "enotdir chdir",
};

const REFUSED_ID: Family =
    Family { phrases: "invalid sessionid, invalid session id, invalid session identifier", stems: "" };

/// Network, sign-in, permission, time, and the machine.
const TRANSIENT: Family = Family {
    phrases: "fetch failed, socket hang up, failed to connect, could not connect, unable to connect, cannot connect, \
              connection refused, connection reset, connection closed, connection lost, connection aborted, connection error, \
              connection failed, host unreachable, name resolution, service unavailable, temporarily unavailable, bad gateway, \
              too many requests, rate limit, rate limited, status 429, status 500, status 502, status 503, status 504, http 429, \
              http 500, http 502, http 503, http 504, server error, \
              not authenticated, not authorized, not signed in, not logged in, sign in, log in, login required, token expired, \
              token has expired, expired token, bad credentials, status 401, status 403, http 401, http 403, \
              permission denied, access denied, access is denied, not permitted, insufficient permission, insufficient permissions, \
              no permission, \
              timed out, time out, deadline exceeded, took too long, \
              too many open files, no space left, database is locked",
    stems: "econn enotfound eai_ epipe ehostunreach enetunreach enetdown network offline unreachable dns tls ssl certificate \
            unauthor unauthenticat authenticat forbidden credential eacces eperm timeout timedout etimedout ebusy emfile enfile \
            enospc",
};

const DAMAGE: Family = Family {
    phrases: "unexpected token, unexpected end, unexpected eof, unexpected character, unexpected field, unexpected property, \
              unexpected data, unexpected format, unknown event type, unrecognized event, first event must be, not valid, \
              not a valid, expected value, expected ident, trailing characters, trailing comma, trailing data, eof while, \
              missing field, wrong format, bad format, broken file, broken log, bad line, bad json, can't be read, cannot be read, \
              could not be read, could not read",
    stems: "corrupt damag malform invalid validat schema pars unpars syntax deseriali unseriali decod undecod incompatib garbl \
            garbage unreadab inconsisten mismatch jsondecode zoderror checksum mangl illegal",
};
