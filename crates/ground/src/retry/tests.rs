use super::ErrorKind::*;
use super::*;
use proptest::prelude::*;

fn said(message: &str) -> (ErrorKind, bool, Option<u16>) {
    let verdict = classify(&Evidence { message, ..Evidence::default() });
    (verdict.kind, verdict.retryable, verdict.status)
}

fn with(status: Option<u16>, codes: &[&str], message: &str) -> (ErrorKind, bool) {
    let verdict = classify(&Evidence { status, codes: codes.to_vec(), message, retry_after: None });
    (verdict.kind, verdict.retryable)
}

#[test]
fn a_message_of_any_length_takes_little_time() {
    let start = std::time::Instant::now();
    for piece in ["é ", "500 ", "status ", "try again in ", "rate"] {
        said(&format!("HTTP 429: {}", piece.repeat(20_000_000)));
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn exactly_these_statuses_are_tried_again() {
    for status in 400..600 {
        let expected = matches!(status, 408 | 409 | 425 | 429 | 500..);
        assert_eq!(of_status(status).1, expected, "{status}");
    }
}

#[test]
fn a_status_decides_before_words_and_codes_do() {
    assert_eq!(with(Some(401), &["ECONNRESET"], "rate limit, try again"), (Auth, false));
    assert_eq!(with(Some(500), &["invalid_request_error"], "bad request"), (Server, true));
    assert_eq!(with(Some(404), &[], "temporarily unavailable"), (InvalidRequest, false));
    assert_eq!(with(Some(503), &["AbortError"], ""), (Overloaded, true));
}

#[test]
fn a_code_names_the_kind_where_a_status_stands_for_several() {
    assert_eq!(with(Some(400), &["context_length_exceeded"], ""), (ContextLength, false));
    assert_eq!(
        with(Some(400), &["invalid_request_error"], "prompt is too long: 200001 tokens"),
        (ContextLength, false)
    );
    assert_eq!(with(Some(400), &[], "Your credit balance is too low"), (Quota, false));
    assert_eq!(with(Some(400), &[], "rate limit"), (InvalidRequest, false));
    assert_eq!(with(Some(429), &["insufficient_quota"], ""), (Quota, false));
    assert_eq!(with(Some(429), &[], "you exceeded your current quota"), (RateLimit, true));
}

#[test]
fn numbers_that_are_no_error_statuses_tell_nothing() {
    assert_eq!(with(Some(200), &[], "connection reset"), (Network, true));
    assert_eq!(with(Some(20), &["AbortError"], ""), (Aborted, false));
    assert_eq!(with(Some(700), &[], ""), (Unknown, false));
}

#[test]
fn codes_decide_before_words_do() {
    assert_eq!(with(None, &["TypeError", "ECONNRESET"], "fetch failed"), (Network, true));
    assert_eq!(with(None, &["TimeoutError"], "The operation was aborted due to timeout"), (Timeout, true));
    assert_eq!(with(None, &["AbortError"], "This operation was aborted: HTTP 503"), (Aborted, false));
    assert_eq!(with(None, &["CERT_HAS_EXPIRED"], "fetch failed"), (Network, false));
    assert_eq!(with(None, &["MODEL_TIMED_OUT"], ""), (Timeout, true));
    assert_eq!(with(None, &["AGENT_TIMED_OUT"], ""), (Timeout, false));
    assert_eq!(with(None, &["SESSION_ABORTED"], ""), (Aborted, false));
    assert_eq!(with(None, &["MODEL_ABORTED"], ""), (Aborted, false));
    assert_eq!(with(None, &["ERR_CONNECTION_TIMED_OUT"], ""), (Timeout, true));
    assert_eq!(with(None, &["ERR_CONNECTION_ABORTED"], ""), (Network, true));
    assert_eq!(with(None, &["overloaded_error"], ""), (Overloaded, true));
}

#[test]
fn finds_a_status_that_the_message_calls_one() {
    for (message, status) in [
        ("HTTP 429", 429),
        ("HTTP/1.1 503", 503),
        ("HTTP error! status: 429", 429),
        ("Request failed with status code 503", 503),
        ("status=502 upstream", 502),
        ("{\"status\":500}", 500),
        ("statusCode: 404", 404),
        ("unexpected status 401 Unauthorized: no key", 401),
        ("503 Service Unavailable", 503),
        ("429 Too Many Requests", 429),
        ("Error code: 401 - {'error': ...}", 401),
        ("API Error: 500 {\"type\":\"error\"}", 500),
        ("API error (529)", 529),
        ("API Error: 529 Overloaded", 529),
        ("the server responded with 500", 500),
        ("waited 500 ms, then HTTP 503", 503),
        ("(HTTP 408)", 408),
    ] {
        assert_eq!(status_in(message), Some(status), "{message}");
    }
}

#[test]
fn an_arbitrary_number_is_no_status() {
    for message in [
        "took 1500s",
        "took 500s",
        "timed out after 500 ms",
        "gave up after 429 seconds",
        "at line 429",
        "port 503",
        "error: 500 tokens over the limit",
        "exit code 500",
        "model-500",
        "500",
        "$500",
        "500.5 ms",
        "5000 status",
        "status 5000",
        "HTTP 429ms",
        "HTTP 200",
        "500 internal servers",
        "0.500",
        "status_500_x",
        "at file.js:500:12",
    ] {
        assert_eq!(status_in(message), None, "{message}");
    }
}

#[test]
fn words_are_the_last_resort() {
    for (message, kind, retryable) in [
        ("socket hang up", Network, true),
        ("connection reset by peer", Network, true),
        ("terminated", Network, true),
        ("request timed out after 1500s", Timeout, true),
        ("Rate limit reached for gpt", RateLimit, true),
        ("Overloaded", Overloaded, true),
        ("You exceeded your current quota, check your plan; rate limits apply", Quota, false),
        ("Incorrect API key provided", Auth, false),
        ("maximum context length is 8192 tokens", ContextLength, false),
        ("400 prompt token count of 93854 exceeds the limit of 90000", ContextLength, false),
        ("400 model_max_prompt_tokens_exceeded", ContextLength, false),
        ("The model `x` does not exist", InvalidRequest, false),
        ("Permission denied", Permission, false),
        ("The user aborted a request.", Aborted, false),
        ("Internal Server Error", Server, true),
        ("something odd", Unknown, false),
        ("networking is fun", Unknown, false),
        ("", Unknown, false),
    ] {
        assert_eq!(said(message), (kind, retryable, None), "{message}");
    }
}

#[test]
fn every_kind_is_read_back_from_its_name() {
    for kind in ErrorKind::ALL {
        assert_eq!(ErrorKind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(ErrorKind::parse("nonsense"), None);
}

#[test]
fn messages_of_services_have_their_kind() {
    use ErrorKind::*;
    for (message, kind) in [
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", ContextLength),
        ("Invalid request: Your request exceeded model token limit: 262144", ContextLength),
        ("Range of input length should be [1, 129024]", ContextLength),
        ("the request exceeds the available context size. try increasing the context size", ContextLength),
        ("prompt is too long: 203456 tokens > 200000 maximum", ContextLength),
        ("too many tokens: total number of tokens in the prompt cannot exceed 4081", ContextLength),
        ("Too many input tokens. Max input tokens: 8192", ContextLength),
        ("Prompt exceeds max length", ContextLength),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096", ContextLength),
        ("Please reduce the length of the messages or completion.", ContextLength),
        (
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            ContextLength,
        ),
        ("Too many tokens, please wait before trying again.", RateLimit),
        ("Too many tokens per day, please wait before trying again.", RateLimit),
        ("Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000", RateLimit),
        ("Your credit balance is too low to access the Anthropic API.", Quota),
        ("You exceeded your current quota, please check your plan and billing details.", Quota),
        ("The model is overloaded. Please try again later.", Overloaded),
    ] {
        assert_eq!(of_words(message), Some(kind), "{message}");
    }
}

const POLICY: RetryPolicy =
    RetryPolicy { attempts: 5, base_delay: Duration::from_millis(200), max_delay: Duration::from_secs(3) };

#[test]
fn waits_double_up_to_the_limit_and_are_scattered() {
    let wait = |failures, random| POLICY.delay(failures, None, random).as_millis();
    assert_eq!((wait(1, 0.0), wait(1, 0.5), wait(1, 1.0)), (100, 150, 200));
    assert_eq!((wait(2, 1.0), wait(3, 1.0), wait(4, 1.0)), (400, 800, 1600));
    assert_eq!((wait(5, 1.0), wait(40, 1.0), wait(u32::MAX, 0.0)), (3000, 3000, 1500));
    assert_eq!(wait(1, f64::NAN), 100);
}

#[test]
fn a_server_that_asks_for_more_time_gets_it_or_is_not_asked_again() {
    let wait = |seconds| POLICY.wait(1, Some(Duration::from_secs(seconds)), 1.0).map(|wait| wait.as_millis());
    assert_eq!((wait(0), wait(2), wait(60)), (Some(200), Some(2000), Some(60_000)));
    assert_eq!((wait(300), wait(301), wait(3600)), (Some(300_000), None, None));
}

proptest! {
    #[test]
    fn any_message_is_taken(message in ".{0,80}") {
        said(&message);
    }

    #[test]
    fn a_found_status_is_in_the_message(message in "(HTTP|status|error|code|é|[ :=(.-]|[0-9]{1,4}|not found){0,12}") {
        if let Some(status) = status_in(&message) {
            prop_assert!((400..600).contains(&status));
            prop_assert!(message.contains(&status.to_string()));
        }
    }

    #[test]
    fn no_wait_is_longer_than_the_limit_or_shorter_than_asked(failures: u32, seconds in 0u64..100_000, random: f64) {
        let asked = Duration::from_secs(seconds);
        let wait = POLICY.delay(failures, Some(asked), random);
        prop_assert!(wait >= asked && wait <= POLICY.max_delay.max(asked));
    }
}
