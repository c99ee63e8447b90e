//! PURE: the kind of a failure that an agent reports. Numbers decide before words do.

use crate::harness::clip::{clip_to, head};
use crate::harness::event::AgentErrorKind;
use crate::harness::evidence::reset::{Reset, retry_after_in};
use ground::retry::{ErrorKind, Evidence, classify};
use std::time::Duration;

/// A fault in the agent's own words.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: AgentErrorKind,
    pub message: String,
    /// The session to resume is unknown to the agent.
    pub is_resume: bool,
    /// The answer has not the shape that was asked for by the CLI's own flag.
    pub is_misshapen: bool,
}

impl Failure {
    pub fn new(kind: AgentErrorKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), is_resume: false, is_misshapen: false }
    }
}

/// Bytes at the start of a tool's output in which a refusal is looked for.
const REFUSAL_BYTES: usize = 4096;
/// Longest quoted line of that output, in bytes.
const LINE_BYTES: usize = 300;

/// The phrases that one CLI uses for failures, in lower case.
#[derive(Debug)]
pub struct Words {
    /// Phrases that decide the kind, checked first: about the CLI itself, or about a service in words that mean something else
    /// elsewhere.
    pub kinds: &'static [(AgentErrorKind, &'static [&'static str])],
    /// Phrases for an unknown session.
    pub unknown_session: &'static [&'static str],
    /// Phrases for an answer that does not fit the schema of the CLI's flag.
    pub misshapen: &'static [&'static str],
    /// Phrases in the output of a tool that was refused, besides those of the operating system.
    pub refused: &'static [&'static str],
    /// Prefixes on stderr of messages about a refused tool, for CLIs whose stdout does not report the refusal.
    pub refused_aside: &'static [&'static str],
    /// The meaning of an exit code, used where the output left the reason open.
    pub exit_code: fn(i32) -> Option<(AgentErrorKind, &'static str)>,
}

impl Words {
    /// A CLI without phrases of its own, whose exit codes say nothing.
    pub(crate) const NONE: Words = Words {
        kinds: &[],
        unknown_session: &[],
        misshapen: &[],
        refused: &[],
        refused_aside: &[],
        exit_code: |_| None,
    };

    /// A failure from the agent's message, with the HTTP status where it gives one as a number.
    pub fn failure(&self, status: Option<i64>, message: impl Into<String>) -> Failure {
        let message = message.into();
        let words = message.to_ascii_lowercase();
        let kind = named(self.kinds, &words)
            .or_else(|| quota_in(&words))
            .or_else(|| Some(kind_of(status, &message)).filter(|kind| *kind != AgentErrorKind::Unknown))
            .or_else(|| limit_in(&words))
            .unwrap_or(AgentErrorKind::Unknown);
        let is_misshapen =
            kind == AgentErrorKind::Unknown && self.misshapen.iter().any(|sign| words.contains(sign));
        Failure { kind, is_resume: self.says_unknown_session(&words), is_misshapen, message }
    }

    /// The warning about a tool that failed because it was refused; `None` for any other failure.
    pub fn refusal(&self, name: Option<&str>, output: &str) -> Option<String> {
        const SYSTEM: [&str; 3] = ["permission denied", "read-only file system", "eacces"];
        let output = head(output, REFUSAL_BYTES);
        let words = output.to_ascii_lowercase();
        let is_refused = self.refused.iter().chain(&SYSTEM).any(|sign| words.contains(sign));
        let line = output.lines().map(str::trim).find(|line| !line.is_empty());
        is_refused.then(|| {
            format!(
                "{} was refused: {}",
                name.unwrap_or("a tool"),
                clip_to(line.unwrap_or_default(), LINE_BYTES)
            )
        })
    }

    /// The warnings about refused tools that stderr alone reports; a few of them.
    pub fn refusals_in(&self, stderr: &str) -> Vec<String> {
        if self.refused_aside.is_empty() {
            return Vec::new();
        }
        let plain = without_colors(stderr);
        let told = |line: &str| {
            self.refused_aside.iter().find_map(|sign| Some(line.split_once(sign)?.1.trim().to_owned()))
        };
        plain
            .lines()
            .filter_map(told)
            .take(10)
            .map(|words| format!("a tool was refused: {}", clip_to(&words, LINE_BYTES)))
            .collect()
    }

    fn says_unknown_session(&self, lowercase: &str) -> bool {
        self.unknown_session.iter().any(|sign| lowercase.contains(sign))
    }

    /// See [`Words::exit_code`].
    pub fn explain(&self, name: &str, exit_code: i32) -> Option<Failure> {
        let (kind, what) = (self.exit_code)(exit_code)?;
        Some(Failure::new(kind, format!("{name} exited with {exit_code}: {what}")))
    }

    /// The reason in stderr for a non-zero exit code: its error lines, lines with a phrase of the CLI's own, or its last line.
    /// `resumes`: a session was to be continued, which may be unknown.
    pub fn reason_in(&self, stderr: &str, resumes: bool) -> Option<Failure> {
        let plain = without_colors(stderr);
        let is_unknown = |line: &&str| resumes && self.says_unknown_session(&line.to_ascii_lowercase());
        if let Some(line) = plain.lines().find(is_unknown) {
            return Some(Failure {
                kind: AgentErrorKind::InvalidRequest,
                message: line.trim().to_owned(),
                is_resume: true,
                is_misshapen: false,
            });
        }
        let lines = || plain.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        let is_error = |line: &&str| {
            let line = line.to_ascii_lowercase();
            let signs = ["error", "fatal", "invalid", "api error", "failed query"];
            signs.iter().any(|sign| line.starts_with(sign)) || named(self.kinds, &line).is_some()
        };
        let last = lines().next().filter(|line| !line.to_ascii_lowercase().starts_with("warning"));
        lines()
            .filter(is_error)
            .chain(last)
            .map(|line| self.failure(None, line))
            .find(|failure| failure.kind != AgentErrorKind::Unknown)
    }
}

/// [`AgentErrorKind::Quota`] if a service's words say that a quota is used up, which only time or money restores.
fn quota_in(lowercase: &str) -> Option<AgentErrorKind> {
    const SIGNS: [&str; 7] = [
        "exceeded your current quota",
        "insufficient_quota",
        "check your plan and billing",
        "credit balance is too low",
        "usage_limit_reached",
        "usage limit has been reached",
        "usage limit reached",
    ];
    (SIGNS.iter().any(|sign| lowercase.contains(sign)) && !is_rate(lowercase))
        .then_some(AgentErrorKind::Quota)
}

/// The kind of words that name a limit, or something used up, and when it ends, however the service calls it.
fn limit_in(lowercase: &str) -> Option<AgentErrorKind> {
    const SIGNS: [&str; 5] = ["limit", "usage", "quota", "credits", "allowance"];
    let is_limit = SIGNS.iter().any(|sign| lowercase.contains(sign)) && Reset::parse(lowercase).is_some();
    is_limit.then(|| if is_rate(lowercase) { AgentErrorKind::RateLimit } else { AgentErrorKind::Quota })
}

/// A service that names a short wait means a rate limit, whatever it calls it.
fn is_rate(lowercase: &str) -> bool {
    retry_after_in(lowercase).is_some_and(|wait| wait < Duration::from_secs(600))
}

fn named(kinds: &[(AgentErrorKind, &[&str])], lowercase: &str) -> Option<AgentErrorKind> {
    let found = kinds.iter().find(|(_, signs)| signs.iter().any(|sign| lowercase.contains(sign)));
    found.map(|(kind, _)| *kind)
}

/// The kind of a failure: by `status`, else by what the words call a status, else by the words (`ground::retry`); a CLI's own
/// words come last.
pub(crate) fn kind_of(status: Option<i64>, words: &str) -> AgentErrorKind {
    let status = status.or_else(|| leading_status(words)).and_then(|status| u16::try_from(status).ok());
    // The one code that turns "later" into "never".
    let codes = if words.contains("insufficient_quota") { vec!["insufficient_quota"] } else { Vec::new() };
    let verdict = classify(&Evidence { status, codes, message: words, retry_after: None });
    match verdict.kind {
        ErrorKind::Timeout if verdict.status.is_some() => AgentErrorKind::Server,
        ErrorKind::Timeout => AgentErrorKind::Network,
        ErrorKind::Aborted | ErrorKind::Unknown => kind_of_cli_words(words),
        // The other kinds have one name for services and agents.
        named => AgentErrorKind::parse(named.as_str()).unwrap_or(AgentErrorKind::Unknown),
    }
}

/// The kind by words that the CLIs use about themselves, not about a service.
fn kind_of_cli_words(words: &str) -> AgentErrorKind {
    const WORDS: &[(AgentErrorKind, &[&str])] = &[
        (AgentErrorKind::Auth, &["auth method", "auth type", "/login", "oauth", "no api key", "sign in"]),
        (AgentErrorKind::Quota, &["quota"]),
        (
            AgentErrorKind::Permission,
            &["root/sudo", "not trusted", "untrusted", "trusted director", "not allowed", "permission"],
        ),
        (
            AgentErrorKind::InvalidRequest,
            &["unknown option", "unknown argument", "unexpected argument", "unrecognized", "invalid value"],
        ),
        // Several that start at once in a new home set its database up in each other's way (opencode).
        (AgentErrorKind::Overloaded, &["database is locked", "sqlite_busy", "failed query"]),
        (
            AgentErrorKind::Network,
            &["streaming_error", "und_err", "ehostunreach", "enetunreach", "econnaborted"],
        ),
    ];
    named(WORDS, &words.to_ascii_lowercase()).unwrap_or(AgentErrorKind::Unknown)
}

/// The status that a CLI puts before the service's words: "401 fake 401", "[API Error: 500 ...]", "... Last error: 429 ...".
fn leading_status(words: &str) -> Option<i64> {
    let words = words.rsplit_once("Last error: ").map_or(words, |(_, last)| last);
    let words = words.trim_start().trim_start_matches('[');
    let words = words.strip_prefix("API Error:").unwrap_or(words).trim_start();
    let digits = words.split(|character: char| !character.is_ascii_alphanumeric()).next()?;
    let status = digits.parse().ok().filter(|status| digits.len() == 3 && (400..600).contains(status))?;
    // "500 ms" and "404 files" are no statuses; "500." is too little to tell.
    let next = words[3..].trim_start_matches([' ', ':', '-', ',']);
    let is_measure = ["ms", "s ", "sec", "min", "byte", "kb", "mb", "file", "line", "token", "step"];
    (!is_measure.iter().any(|unit| next.starts_with(unit))).then_some(status)
}

/// The text without the escape sequences that colour it.
pub fn without_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end =
                sequence.find(|last: char| last.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
            rest = &sequence[end..];
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_decide_before_words() {
        let cases = [
            (Some(500), "rate limit reached", AgentErrorKind::Server),
            (Some(429), "the quota is exceeded, retry in 5s", AgentErrorKind::RateLimit),
            (Some(429), "insufficient_quota", AgentErrorKind::Quota),
            (Some(400), "prompt is too long: 210000 tokens", AgentErrorKind::ContextLength),
            (
                None,
                "unexpected status 401 Unauthorized: fake 401, url: http://127.0.0.1:40795/v1/responses",
                AgentErrorKind::Auth,
            ),
            (None, "[API Error: 401 fake 401]", AgentErrorKind::Auth),
            (
                None,
                r#"[API Error: {"error":{"code":401,"message":"fake 401","status":"UNAUTHENTICATED"}}]"#,
                AgentErrorKind::Auth,
            ),
            (None, "401 fake 401", AgentErrorKind::Auth),
            (None, "HTTP 429", AgentErrorKind::RateLimit),
            (None, "exceeded retry limit, last status: 429 Too Many Requests", AgentErrorKind::RateLimit),
            (
                None,
                "Authentication failed with provider at http://127.0.0.1:39705/v1 (HTTP 401).",
                AgentErrorKind::Auth,
            ),
            (None, "529 overloaded", AgentErrorKind::Overloaded),
            (None, "database is locked", AgentErrorKind::Overloaded),
            (None, "read ECONNRESET", AgentErrorKind::Network),
            (None, "[API Error: terminated]", AgentErrorKind::Network),
        ];
        for (status, words, kind) in cases {
            assert_eq!(kind_of(status, words), kind, "{words}");
        }
    }

    #[test]
    fn digits_that_are_no_status_decide_nothing() {
        for words in [
            "gave up after 1500s",
            "waited 500ms",
            "500000 things",
            "at line 404 of it",
            "v4.500",
            "id 5006",
            "in 500 steps",
        ] {
            assert_eq!(kind_of(None, words), AgentErrorKind::Unknown, "{words}");
        }
    }

    const WORDS: Words = Words {
        kinds: &[(AgentErrorKind::Quota, &["daily quota"])],
        unknown_session: &["session not found"],
        refused: &["by rule"],
        refused_aside: &["router: error="],
        ..Words::NONE
    };

    #[test]
    fn a_cli_s_own_words_decide_before_numbers() {
        assert_eq!(WORDS.failure(Some(429), "Your Daily Quota is used up").kind, AgentErrorKind::Quota);
        assert_eq!(WORDS.failure(Some(429), "quota").kind, AgentErrorKind::RateLimit);
    }

    #[test]
    fn a_limit_that_says_when_it_ends_is_one_however_it_is_called() {
        for (words, kind) in [
            ("You've hit your limit \u{b7} resets 11pm (America/Anchorage)", AgentErrorKind::Quota),
            (
                "You've hit your session limit \u{b7} resets 12:50am (America/Los_Angeles)",
                AgentErrorKind::Quota,
            ),
            (
                "Weekly limit reached \u{b7} resets 10am (Asia/Seoul) \u{b7} /upgrade to Max",
                AgentErrorKind::Quota,
            ),
            ("5-hour limit reached \u{2219} resets 3pm", AgentErrorKind::Quota),
            ("You're out of extra usage \u{b7} resets 3:30pm (UTC)", AgentErrorKind::Quota),
            ("Limits will reset at 9:30 AM. View your usage details.", AgentErrorKind::Quota),
            ("too fast: the limit resets in 20 seconds", AgentErrorKind::RateLimit),
            ("the limit of the parser is 5", AgentErrorKind::Unknown),
            ("the clock resets at 3pm", AgentErrorKind::Unknown),
        ] {
            assert_eq!(WORDS.failure(None, words).kind, kind, "{words}");
        }
    }

    #[test]
    fn stderr_explains_an_exit_code_only_by_its_errors() {
        assert_eq!(
            WORDS.reason_in("Ripgrep is not available.\nWarning: permission mode is off\n", true),
            None
        );
        assert_eq!(WORDS.reason_in("TypeError: x is not a function\n    at main (a.js:1:2)\n", true), None);
        let busy = WORDS.reason_in("Performing one time database migration...\ndatabase is locked\n", true);
        assert_eq!(busy.map(|failure| failure.kind), Some(AgentErrorKind::Overloaded));
        let raced = WORDS.reason_in(
            "Error: Unexpected error\n\nFailed query: \n  CREATE TABLE `workspace` (\n  );\n\nparams: \n",
            true,
        );
        assert_eq!(raced.map(|failure| failure.kind), Some(AgentErrorKind::Overloaded));
        let root = WORDS.reason_in(
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n",
            true,
        );
        assert_eq!(root.map(|failure| failure.kind), Some(AgentErrorKind::Permission));
        let without = WORDS.reason_in("Error: Session not found\n", false);
        assert!(without.is_none_or(|failure| !failure.is_resume), "no session was to be continued");
        let resume = WORDS.reason_in("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found\n", true);
        assert!(
            resume.is_some_and(|failure| failure.is_resume && failure.message == "Error: Session not found")
        );
    }

    #[test]
    fn a_refusal_is_told_in_the_tools_words() {
        assert_eq!(
            WORDS.refusal(Some("Bash"), "\nDenied by rule 7.\nmore").as_deref(),
            Some("Bash was refused: Denied by rule 7.")
        );
        let told = WORDS.refusal(None, "sh: 1: x: Permission denied");
        assert_eq!(told.as_deref(), Some("a tool was refused: sh: 1: x: Permission denied"));
        assert_eq!(WORDS.refusal(Some("Bash"), "exit 3"), None);
        let long = format!("by rule {}", "é".repeat(5000));
        assert!(WORDS.refusal(None, &long).unwrap().len() < 400);
        let stderr = "banner\n\u{1b}[31mERROR\u{1b}[0m router: error=rm is rejected\nbye";
        assert_eq!(WORDS.refusals_in(stderr), ["a tool was refused: rm is rejected"]);
    }
}
