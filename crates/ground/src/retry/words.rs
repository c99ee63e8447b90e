//! Classifies a failure by the words of its message: the last resort. PURE.

use super::kind::ErrorKind::{self, *};

/// Phrases of each kind, with semicolons between them. The order matters: "exceeded your quota, see rate limits" is about the quota.
pub(super) const PHRASES: &[(ErrorKind, &str)] = &[
    // Bedrock says "too many tokens" of both.
    (
        RateLimit,
        "too many tokens, please wait; too many tokens per; per minute; tokens per min; tokens per day",
    ),
    (
        ContextLength,
        "context length; context_length_exceeded; context window; maximum context; prompt is too long; \
         input is too long; too many tokens; maximum number of tokens; maximum prompt length; prompt token count; \
         max_prompt_tokens; exceed context limit; exceeds context limit; context limit exceeded; model token limit; \
         range of input length; available context size; maximum model length; too many input tokens; exceeds max length; \
         is too long and exceeds limit; reduce the length of the messages; input token count; context overflow; \
         max_seq_len; max_new_tokens` must be; context size has been exceeded",
    ),
    (
        Quota,
        "insufficient_quota; insufficient quota; current quota; quota exceeded; exceeded your quota; billing; \
         credit balance; out of credits; insufficient credits; usage limit; usage limits; insufficient balance; \
         spending limit",
    ),
    (
        RateLimit,
        "rate limit; rate limits; rate-limit; rate_limit; rate limited; rate-limited; ratelimit; too many requests; \
         resource_exhausted; resource exhausted; resource has been exhausted; api calls / minute; reached max request; \
         throttled; throttling",
    ),
    (
        Overloaded,
        "overloaded; overloaded_error; over capacity; at capacity; service unavailable; temporarily unavailable; \
         server is busy; server busy; capacity exceeded",
    ),
    // Azure says "access denied" of it.
    (Auth, "invalid subscription key"),
    (
        Permission,
        "permission denied; permission_denied; forbidden; access denied; not permitted; have access to the model; \
         must be verified",
    ),
    (
        Auth,
        "api key; api_key; api-key; invalid_api_key; apikey; unauthorized; unauthenticated; authentication; \
         authentication_error; authenticate; not logged in; log in; login; credentials; access token; security token",
    ),
    (
        Timeout,
        "timed out; timeout; time-out; time out; deadline exceeded; deadline expired; deadline_exceeded; etimedout",
    ),
    (
        Network,
        "econnreset; econnrefused; enotfound; eai_again; epipe; socket hang up; connection reset; connection refused; \
         connection closed; connection lost; connection error; connection aborted; connection was closed; \
         connection was lost; stream disconnected; disconnected; network; network_error; fetch failed; failed to fetch; \
         other side closed; broken pipe; premature close; getaddrinfo; dns; unexpected eof; unexpected end of file; \
         terminated; host unreachable; no route to host; error sending request; tcp connect error",
    ),
    (
        Server,
        "internal server error; server had an error; internal error; server error; server_error; api_error; bad gateway",
    ),
    (
        InvalidRequest,
        "model not found; model_not_found; no such model; unknown model; does not exist; invalid request; \
         invalid_request_error; invalid_argument; invalid argument; no endpoints found; not found, try pulling; \
         bad request; not supported; unsupported; invalid schema; schema is invalid; cannot find field; may not exist; \
         maximum allowed number; mb maximum; unprocessable",
    ),
    (Aborted, "aborted; cancelled; canceled"),
];

/// Reason phrases that appear beside the number of their status.
const REASONS: &[(u16, &str)] = &[
    (400, "bad request"),
    (401, "unauthorized"),
    (402, "payment required"),
    (403, "forbidden"),
    (404, "not found"),
    (405, "method not allowed"),
    (408, "request timeout"),
    (409, "conflict"),
    (413, "payload too large"),
    (413, "content too large"),
    (413, "request entity too large"),
    (422, "unprocessable"),
    (425, "too early"),
    (429, "too many requests"),
    (500, "internal server error"),
    (501, "not implemented"),
    (502, "bad gateway"),
    (503, "service unavailable"),
    (503, "service temporarily unavailable"),
    (504, "gateway timeout"),
    (504, "gateway time-out"),
    (529, "overloaded"),
];

/// The kind that the message names, in whole words.
pub fn of_words(message: &str) -> Option<ErrorKind> {
    let message = message.to_ascii_lowercase();
    PHRASES
        .iter()
        .find(|(_, phrases)| phrases.split("; ").any(|phrase| holds(&message, phrase)))
        .map(|(kind, _)| *kind)
}

/// Whether the phrase is in the text with no letter or digit right before or after it.
pub(super) fn holds(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + phrase.len()..].chars().next();
        ![before, behind].into_iter().flatten().any(char::is_alphanumeric)
    })
}

/// A status from 400 to 599 that the message calls one: "HTTP 429", "HTTP/1.1 503", "status code 500", "status=502",
/// "503 Service Unavailable", "error code: 401 - ...", "API error (529)".
pub fn status_in(message: &str) -> Option<u16> {
    let message = message.to_ascii_lowercase();
    let mut at = 0;
    while let Some(start) =
        message[at..].find(|character: char| character.is_ascii_digit()).map(|offset| at + offset)
    {
        let length = message[start..]
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(message.len() - start);
        let (before, number, behind) =
            (&message[..start], &message[start..start + length], &message[start + length..]);
        at = start + length;
        if length == 3 && stands_alone(before, behind) {
            let status = number.parse().ok().filter(|status| (400..600).contains(status));
            if let Some(status) = status.filter(|status| is_called_status(before, *status, behind)) {
                return Some(status);
            }
        }
    }
    None
}

/// Whether the number is not part of a word, of a decimal number or of a longer number.
fn stands_alone(before: &str, behind: &str) -> bool {
    let glued = |character: char| character.is_alphanumeric() || character == '_' || character == '%';
    let mut after = behind.chars();
    let decimal =
        matches!(after.next(), Some('.' | ',')) && after.next().is_some_and(|next| next.is_ascii_digit());
    let within = before.ends_with(['.', '-', '$', '#', '+']) && !before.ends_with(" -");
    !before.ends_with(glued) && !behind.starts_with(glued) && !decimal && !within
}

fn is_called_status(before: &str, status: u16, behind: &str) -> bool {
    let reason = behind.trim_start_matches([' ', ':', '-', ')', ',', '"', '\'']);
    if REASONS.iter().any(|(number, phrase)| *number == status && reason.starts_with(phrase)) {
        return true;
    }
    let separators = [' ', ':', '=', '(', '[', '"', '\'', '#', '\t'];
    let before = before.trim_end_matches(separators);
    if [
        "status",
        "statuscode",
        "status_code",
        "status code",
        "http",
        "http status",
        "http error",
        "http code",
    ]
    .iter()
    .any(|word| ends_with_word(before, word))
        || ["http/1.0", "http/1.1", "http/2", "http/2.0", "http/3"].iter().any(|word| before.ends_with(word))
    {
        return true;
    }
    // Weaker words count only at the end of a clause: "API error: 500 {...", not "error: 500 tokens".
    let ends_here = reason.is_empty()
        || behind.starts_with([':', ')', ']', ',', '.', ';', '\n', '"'])
        || reason.starts_with(['{', '<']);
    let said = behind.starts_with(" -") || ends_here;
    said && ["error", "error code", "response code", "returned", "responded with", "answered", "got", "code"]
        .iter()
        .any(|word| ends_with_word(before, word))
        && !ends_with_word(before, "exit code")
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word).is_some_and(|before| !before.ends_with(char::is_alphanumeric))
}
