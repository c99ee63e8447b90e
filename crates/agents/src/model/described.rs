//! Classifies a JavaScript error by its own fields. PURE.

use ground::retry::{Classification, ErrorKind, Evidence, classify};
use std::time::{Duration, SystemTime};
use wires::http::parse_retry_after;

/// The fields of one error of a chain: the error itself, its cause, or the body of its response.
#[derive(Clone, Debug, Default)]
pub struct ErrorLayer {
    /// The values of `name`, `code`, `type` and similar fields.
    pub codes: Vec<String>,
    /// The value of `status`, `statusCode`, or a `code` that is a number.
    pub status: Option<u32>,
    /// The kind that errors of this package have.
    pub kind: Option<String>,
    pub message: Option<String>,
    /// The value of the Retry-After header.
    pub retry_after: Option<String>,
    /// The value of the Date header.
    pub date: Option<String>,
    pub retry_after_ms: Option<f64>,
}

/// Classifies a chain of errors, the outermost first.
pub fn classify_described(layers: &[ErrorLayer], now: SystemTime) -> Classification {
    let status = layers
        .iter()
        .filter_map(|layer| u16::try_from(layer.status?).ok())
        .find(|status| (400..600).contains(status));
    let retry_after = layers.iter().find_map(|layer| {
        let milliseconds =
            layer.retry_after_ms.filter(|milliseconds| milliseconds.is_finite() && *milliseconds >= 0.0);
        milliseconds
            .and_then(|milliseconds| Duration::try_from_secs_f64(milliseconds / 1000.0).ok())
            .or_else(|| parse_retry_after(layer.retry_after.as_deref()?, layer.date.as_deref(), now))
    });
    let message: Vec<&str> = layers.iter().filter_map(|layer| layer.message.as_deref()).collect();
    let message = message.join("\n");
    let codes = layers.iter().flat_map(|layer| layer.codes.iter().map(String::as_str)).collect();
    let verdict = classify(&Evidence { status, codes, message: &message, retry_after });
    let kind = layers.iter().find_map(|layer| ErrorKind::parse(layer.kind.as_deref()?));
    match kind {
        Some(kind) if status.is_some() => Classification { kind, ..verdict },
        // A code of this package is more exact about retries than the kind.
        Some(kind) if verdict.kind == kind => verdict,
        Some(kind) => Classification { kind, retryable: kind.is_transient(), ..verdict },
        None => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::retry::ErrorKind::*;

    fn judge(layers: &[ErrorLayer]) -> (ErrorKind, bool) {
        let verdict = classify_described(layers, SystemTime::now());
        (verdict.kind, verdict.retryable)
    }

    fn layer(codes: &[&str], message: &str) -> ErrorLayer {
        let codes = codes.iter().map(|code| (*code).to_owned()).collect();
        ErrorLayer { codes, message: Some(message.to_owned()), ..ErrorLayer::default() }
    }

    #[test]
    fn a_cause_tells_what_the_error_does_not() {
        assert_eq!(
            judge(&[layer(&["TypeError"], "fetch failed"), layer(&["ECONNRESET"], "read")]),
            (Network, true)
        );
        assert_eq!(judge(&[layer(&["Error"], "it broke"), layer(&["Error"], "HTTP 401")]), (Auth, false));
    }

    #[test]
    fn the_first_real_status_counts() {
        let first = ErrorLayer { status: Some(20), ..layer(&["AbortError"], "") };
        let second = ErrorLayer { status: Some(429), retry_after: Some("3".into()), ..ErrorLayer::default() };
        assert_eq!(judge(std::slice::from_ref(&first)), (Aborted, false));
        let verdict = classify_described(&[first, second], SystemTime::now());
        assert_eq!((verdict.kind, verdict.status), (RateLimit, Some(429)));
        assert_eq!(verdict.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn our_own_errors_know_their_kind() {
        let kind = |kind: &str, code: &str| ErrorLayer { kind: Some(kind.into()), ..layer(&[code], "") };
        assert_eq!(judge(&[kind("rate_limit", "AGENT_FAILED")]), (RateLimit, true));
        assert_eq!(judge(&[kind("auth", "AGENT_FAILED")]), (Auth, false));
        assert_eq!(judge(&[kind("network", "CONNECTION_LOST")]), (Network, false));
        let with_status = ErrorLayer { status: Some(400), ..kind("context_length", "MODEL_FAILED") };
        assert_eq!(judge(&[with_status]), (ContextLength, false));
    }

    #[test]
    fn nothing_at_all_is_unknown() {
        assert_eq!(judge(&[]), (Unknown, false));
    }
}
