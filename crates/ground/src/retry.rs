//! Decides whether a failure is worth a retry, and how long to wait before it. PURE.
//!
//! [`classify`] looks at the evidence in this order; the first kind of evidence that is conclusive decides:
//!
//! | evidence | example | decides |
//! |---|---|---|
//! | a status number | `status: 429` | kind and retry ([`of_status`]); for some, a code or words name it more exactly |
//! | a code or name | `ECONNRESET`, `AbortError`, `rate_limit_error` | kind and retry ([`of_code`]) |
//! | a status number in words | `HTTP 503`, `status code 429`, `502 Bad Gateway` | as a status number ([`status_in`]) |
//! | words | `connection reset by peer` | kind ([`of_words`]), and the kind's own retry |
//!
//! A number in a message is a status only where the message calls it one. "1500s", "after 500 ms" and "line 429" contain no
//! status.

mod code;
mod kind;
mod wait;
mod words;

pub use code::of_code;
pub use kind::ErrorKind;
pub use wait::{span, value_behind, wait_in};
pub use words::{of_words, status_in};

use std::time::Duration;

/// The known facts about a failure.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    /// The HTTP status. Values outside of 400 to 599 are ignored.
    pub status: Option<u16>,
    /// Codes, types and names in the order of their weight; unknown ones are skipped.
    pub codes: Vec<&'a str>,
    pub message: &'a str,
    pub retry_after: Option<Duration>,
}

/// The classification of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    pub kind: ErrorKind,
    pub retryable: bool,
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

/// Longest beginning of a message that is looked at, in bytes: each phrase is searched in it.
const LONGEST_MESSAGE: usize = 64 << 10;

/// Classifies a failure by the order in the module documentation.
pub fn classify(evidence: &Evidence<'_>) -> Classification {
    let message = &evidence.message[..evidence.message.floor_char_boundary(LONGEST_MESSAGE)];
    let coded = evidence.codes.iter().find_map(|code| of_code(code));
    let given = evidence.status.filter(|status| (400..600).contains(status));
    let status = given.or_else(|| if coded.is_none() { status_in(message) } else { None });
    let (kind, retryable) = match (status, coded) {
        (Some(status), coded) => {
            let (kind, retryable) = of_status(status);
            let kind = exact_kind(status, coded.map(|(kind, _)| kind), message).unwrap_or(kind);
            // A used-up quota does not return by a retry, nor does a context shrink, whatever the number suggests.
            (kind, retryable && !matches!(kind, ErrorKind::Quota | ErrorKind::ContextLength))
        }
        (None, Some(decided)) => decided,
        (None, None) => {
            let kind = of_words(message).unwrap_or(ErrorKind::Unknown);
            (kind, kind.is_transient())
        }
    };
    let retry_after = evidence.retry_after.or_else(|| wait_in(message));
    Classification { kind, retryable, status, retry_after }
}

/// The meaning of a status, one row each. Defined for numbers from 400 to 599.
pub fn of_status(status: u16) -> (ErrorKind, bool) {
    use ErrorKind::*;
    match status {
        401 => (Auth, false),
        402 => (Quota, false),
        403 => (Permission, false),
        408 => (Timeout, true),
        409 | 425 => (Server, true),
        413 => (ContextLength, false),
        429 => (RateLimit, true),
        503 | 529 => (Overloaded, true),
        504 | 524 => (Timeout, true),
        400..500 => (InvalidRequest, false),
        _ => (Server, true),
    }
}

/// The kind for a status that stands for several. The status still decides about a retry, except for a used-up quota and a full
/// context.
fn exact_kind(status: u16, coded: Option<ErrorKind>, message: &str) -> Option<ErrorKind> {
    use ErrorKind::*;
    match status {
        400 | 422 => coded
            .filter(|kind| *kind != InvalidRequest)
            .or_else(|| of_words(message))
            .filter(|kind| matches!(kind, ContextLength | Quota | Auth | Permission)),
        429 => coded.filter(|kind| *kind == Quota),
        // Servers of local models answer so to a prompt that is too long.
        500 => of_words(message).filter(|kind| *kind == ContextLength),
        _ => None,
    }
}

/// The number of attempts and the waits between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in total, at least one.
    pub attempts: u32,
    /// The wait after the first failure. It doubles with each further failure.
    pub base_delay: Duration,
    /// The longest wait of our own. A server may ask for a longer one.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// The wait after this many failures. Half of the step is fixed, the other half random (`random`, from 0 to 1), so that
    /// clients that failed together don't retry together. A wait is never shorter than the server asks for.
    pub fn delay(&self, failures: u32, retry_after: Option<Duration>, random: f64) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let step = self.base_delay.saturating_mul(factor).min(self.max_delay);
        let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 };
        let wait = step / 2 + (step / 2).mul_f64(random);
        wait.max(retry_after.unwrap_or(Duration::ZERO))
    }

    /// Like [`delay`](Self::delay). `None`: the server asks for longer than anybody waits, so there is no further attempt.
    pub fn wait(&self, failures: u32, retry_after: Option<Duration>, random: f64) -> Option<Duration> {
        const LONGEST: Duration = Duration::from_secs(5 * 60);
        let longest = LONGEST.max(self.max_delay);
        let is_short = retry_after.is_none_or(|asked| asked <= longest);
        is_short.then(|| self.delay(failures, retry_after, random))
    }
}

#[cfg(test)]
mod messages_tests;
#[cfg(test)]
mod tests;
