//! PURE: why an agent says that it failed, as a kind. Numbers decide before words do.

use super::event::ErrorKind;

/// A fault in the agent's own words.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: String,
    /// The session to resume is unknown to the agent.
    pub is_resume: bool,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), is_resume: false }
    }

    /// From the agent's words, with the HTTP status where it gives one as a number.
    pub fn classify(status: Option<i64>, message: impl Into<String>) -> Self {
        let message = message.into();
        let is_resume = says_unknown_session(&message);
        Failure { kind: kind_of(status, &message), message, is_resume }
    }
}

/// The kind of a failure: by `status`, else by a status that stands in the words, else by the words.
pub fn kind_of(status: Option<i64>, words: &str) -> ErrorKind {
    let words_lower = words.to_ascii_lowercase();
    let by_status = status.filter(|status| (400..600).contains(status)).or_else(|| status_in(&words_lower));
    by_status.map_or_else(|| kind_of_words(&words_lower), |status| kind_of_status(status, &words_lower))
}

fn kind_of_status(status: i64, words: &str) -> ErrorKind {
    match status {
        401 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        403 => ErrorKind::Permission,
        // The one word that turns "later" into "never".
        429 if words.contains("insufficient_quota") => ErrorKind::Quota,
        425 | 429 => ErrorKind::RateLimit,
        413 => ErrorKind::ContextLength,
        408 | 409 => ErrorKind::Server,
        400 | 422 if kind_of_words(words) == ErrorKind::ContextLength => ErrorKind::ContextLength,
        400..=499 => ErrorKind::InvalidRequest,
        503 | 529 => ErrorKind::Overloaded,
        _ => ErrorKind::Server,
    }
}

/// Words of services and of CLIs, the more telling ones first.
const WORDS: &[(ErrorKind, &[&str])] = &[
    (
        ErrorKind::ContextLength,
        &[
            "context length",
            "context_length",
            "context window",
            "context limit",
            "context_limit",
            "prompt is too long",
            "input is too long",
            "maximum context",
            "too many tokens",
        ],
    ),
    (
        ErrorKind::Quota,
        &[
            "insufficient_quota",
            "quota",
            "billing",
            "credit balance",
            "usage limit",
            "spending limit",
            "out of credits",
            "payment required",
            "max_budget",
        ],
    ),
    (ErrorKind::RateLimit, &["rate limit", "rate_limit", "rate-limit", "ratelimit", "too many requests"]),
    (
        ErrorKind::Auth,
        &[
            "unauthorized",
            "unauthenticated",
            "authentication",
            "not authenticated",
            "invalid api key",
            "invalid_api_key",
            "invalid x-api-key",
            "api key not valid",
            "no api key",
            "missing api key",
            "api key is missing",
            "api_key",
            "auth method",
            "auth type",
            "not logged in",
            "/login",
            "log in",
            "login required",
            "oauth",
            "credentials",
        ],
    ),
    (ErrorKind::Overloaded, &["overloaded", "at capacity", "service unavailable", "temporarily unavailable"]),
    (
        ErrorKind::InvalidRequest,
        &[
            "invalid request",
            "invalid_request",
            "bad request",
            "unknown model",
            "model not found",
            "model_not_found",
            "no such model",
            "does not exist",
            "unsupported",
            "unknown option",
            "unknown argument",
            "unexpected argument",
            "unrecognized",
            "invalid value",
            "invalid schema",
        ],
    ),
    (
        ErrorKind::Network,
        &[
            "econnreset",
            "econnrefused",
            "econnaborted",
            "enotfound",
            "etimedout",
            "ehostunreach",
            "enetunreach",
            "epipe",
            "eai_again",
            "und_err",
            "socket hang up",
            "fetch failed",
            "terminated",
            "disconnected",
            "premature close",
            "other side closed",
            "connection error",
            "connection reset",
            "connection refused",
            "connection closed",
            "timed out",
            "timeout",
            "network",
            "transport",
            "streaming_error",
        ],
    ),
    (
        ErrorKind::Server,
        &["internal server error", "server error", "server_error", "internal error", "bad gateway", "gateway timeout"],
    ),
    (
        ErrorKind::Permission,
        &["permission", "forbidden", "not allowed", "not trusted", "untrusted", "trusted director", "root/sudo", "access denied"],
    ),
];

fn kind_of_words(words: &str) -> ErrorKind {
    let named = WORDS.iter().find(|(_, needles)| needles.iter().any(|needle| words.contains(needle)));
    named.map_or(ErrorKind::Unknown, |(kind, _)| *kind)
}

/// An HTTP error status that the words name as one: "status 401", "HTTP 429", "[API Error: 500 ...]", "401 Unauthorized",
/// `"code":401`; never the 500 of "1500s", "500 ms" or ":40500/".
fn status_in(words: &str) -> Option<i64> {
    const BEFORE: &[&str] = &["status", "code", "statuscode", "status_code", "http", "error", "api", "http/1.1", "http/2", "response"];
    const AFTER: &[&str] = &[
        "unauthorized",
        "forbidden",
        "bad",
        "not",
        "too",
        "internal",
        "service",
        "payment",
        "request",
        "gateway",
        "conflict",
        "unprocessable",
        "overloaded",
        "status",
    ];
    let bytes = words.as_bytes();
    let mut at = 0;
    while at + 3 <= bytes.len() {
        let starts = matches!(bytes[at], b'4' | b'5') && (at == 0 || !joins(bytes[at - 1]));
        let ends = bytes.get(at + 3).is_none_or(|next| !joins(*next) || (*next == b'.' && !bytes.get(at + 4).is_some_and(u8::is_ascii_digit)));
        if starts && ends && bytes[at..at + 3].iter().all(u8::is_ascii_digit) {
            let before = words[..at].trim_end_matches([' ', ':', '=', '(', '[', '"', '\'', '\\']);
            let word_before = before.rsplit([' ', ',', '{', '(', '[', '"', '\'', '\\', '.']).next().unwrap_or("");
            let after = words[at + 3..].trim_start_matches([' ', ')', ']', '"', '\'', ':', ',', '-']);
            let word_after = after.split([' ', ',', ')', ']', '"', '}', '.', ':']).next().unwrap_or("");
            if before.is_empty() || BEFORE.contains(&word_before) || AFTER.contains(&word_after) {
                return std::str::from_utf8(&bytes[at..at + 3]).ok()?.parse().ok();
            }
        }
        at += 1;
    }
    None
}

/// What makes a longer word or number of the digits beside it.
fn joins(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/') || byte >= 0x80
}

/// What the seven CLIs say of a session that they do not know.
pub fn says_unknown_session(words: &str) -> bool {
    const SIGNS: &[&str] = &[
        "no conversation found with session id",
        "no rollout found for thread",
        "thread/resume failed",
        "session not found",
        "error resuming session",
        "no previous sessions found",
        "no session, task, or name matched",
        "no saved session found",
        "no session found matching",
        "invalid session identifier",
    ];
    let words = words.to_ascii_lowercase();
    SIGNS.iter().any(|sign| words.contains(sign))
}

/// What stderr gives as the reason of an exit code that is not zero: its error lines, else its last line.
pub fn reason_in(stderr: &str) -> Option<Failure> {
    let plain = without_colors(stderr);
    if says_unknown_session(&plain) {
        let line = plain.lines().find(|line| says_unknown_session(line)).unwrap_or_default();
        return Some(Failure { kind: ErrorKind::InvalidRequest, message: line.trim().to_owned(), is_resume: true });
    }
    let lines = || plain.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("error") || line.starts_with("fatal") || line.starts_with("invalid") || line.starts_with("api error")
    };
    let last = lines().next().filter(|line| !line.to_ascii_lowercase().starts_with("warning"));
    lines()
        .filter(is_error)
        .chain(last)
        .map(|line| Failure::classify(None, line))
        .find(|failure| failure.kind != ErrorKind::Unknown)
}

/// The text without the escape sequences that colour it.
pub fn without_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|last: char| last.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
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
            (Some(500), "rate limit reached", ErrorKind::Server),
            (Some(429), "the quota is exceeded, retry in 5s", ErrorKind::RateLimit),
            (Some(429), "insufficient_quota", ErrorKind::Quota),
            (Some(400), "prompt is too long: 210000 tokens", ErrorKind::ContextLength),
            (None, "unexpected status 401 Unauthorized: fake 401, url: http://127.0.0.1:40795/v1/responses", ErrorKind::Auth),
            (None, "[API Error: 401 fake 401]", ErrorKind::Auth),
            (None, r#"[API Error: {"error":{"code":401,"message":"fake 401","status":"UNAUTHENTICATED"}}]"#, ErrorKind::Auth),
            (None, "401 fake 401", ErrorKind::Auth),
            (None, "HTTP 429", ErrorKind::RateLimit),
            (None, "exceeded retry limit, last status: 429 Too Many Requests", ErrorKind::RateLimit),
            (None, "Authentication failed with provider at http://127.0.0.1:39705/v1 (HTTP 401).", ErrorKind::Auth),
            (None, "529 overloaded", ErrorKind::Overloaded),
            (None, "read ECONNRESET", ErrorKind::Network),
            (None, "[API Error: terminated]", ErrorKind::Network),
        ];
        for (status, words, kind) in cases {
            assert_eq!(kind_of(status, words), kind, "{words}");
        }
    }

    #[test]
    fn digits_that_are_no_status_decide_nothing() {
        for words in ["gave up after 1500s", "waited 500ms", "500000 things", "at line 404 of it", "v4.500", "id 5006", "in 500 steps"] {
            assert_eq!(kind_of(None, words), ErrorKind::Unknown, "{words}");
        }
    }

    #[test]
    fn stderr_explains_an_exit_code_only_by_its_errors() {
        assert_eq!(reason_in("Ripgrep is not available.\nWarning: permission mode is off\n"), None);
        assert_eq!(reason_in("TypeError: x is not a function\n    at main (a.js:1:2)\n"), None);
        let root = reason_in("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n");
        assert_eq!(root.map(|failure| failure.kind), Some(ErrorKind::Permission));
        let resume = reason_in("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found\n");
        assert!(resume.is_some_and(|failure| failure.is_resume && failure.message == "Error: Session not found"));
    }
}
