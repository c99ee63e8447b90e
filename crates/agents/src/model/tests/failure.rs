use super::*;

fn status(status: u16, body: &str) -> Failure {
    Failure::Http(HttpError::Status { status, body: body.into(), retry_after: Some(Duration::from_secs(2)) })
}

fn judged(failure: &Failure) -> (&'static str, &'static str, bool) {
    let (code, verdict) = failure.verdict();
    (code.as_str(), verdict.kind.as_str(), verdict.retryable)
}

fn told(message: &str) -> Failure {
    Failure::Malformed(Malformed::Error(ServerError { message: message.into(), ..ServerError::default() }))
}

#[test]
fn one_row_per_failure() {
    let after = Duration::from_secs(1);
    let http = |error| Failure::Http(error);
    let misfit = |cut| Failure::Misfit { problems: vec!["/: no".into()], text: "x".into(), cut, usage: None };
    for (failure, expected) in [
        (Failure::TimedOut { after }, ("MODEL_TIMED_OUT", "timeout", true)),
        (
            http(HttpError::Timeout { waiting_for: Waiting::Chunk, after }),
            ("MODEL_TIMED_OUT", "timeout", true),
        ),
        (http(HttpError::Connect { problem: "refused".into() }), ("MODEL_UNREACHABLE", "network", true)),
        (http(HttpError::Reset { problem: "reset".into() }), ("MODEL_UNREACHABLE", "network", true)),
        (http(HttpError::Tls { problem: "unknown issuer".into() }), ("MODEL_UNREACHABLE", "network", false)),
        (status(401, ""), ("MODEL_FAILED", "auth", false)),
        (status(404, ""), ("MODEL_FAILED", "invalid_request", false)),
        (status(429, ""), ("MODEL_FAILED", "rate_limit", true)),
        (status(500, "{\"error\":{\"message\":\"unauthorized\"}}"), ("MODEL_FAILED", "server", true)),
        (
            status(400, "{\"error\":{\"code\":\"context_length_exceeded\"}}"),
            ("MODEL_FAILED", "context_length", false),
        ),
        (status(300, ""), ("MODEL_FAILED", "unknown", false)),
        (told("overloaded"), ("MODEL_FAILED", "overloaded", true)),
        (told("incorrect api key"), ("MODEL_FAILED", "auth", false)),
        (told("hm"), ("MODEL_FAILED", "server", true)),
        (Failure::Malformed(Malformed::Wrong("x".into())), ("MODEL_BAD_RESPONSE", "server", true)),
        (misfit(false), ("MODEL_BAD_RESPONSE", "server", true)),
        (misfit(true), ("MODEL_BAD_RESPONSE", "server", false)),
    ] {
        assert_eq!(judged(&failure), expected, "{failure:?}");
    }
}

#[test]
fn an_error_carries_its_facts_and_no_secret() {
    let redactor = Redactor::new(["sk-hunter2"]);
    let error = status(401, "{\"error\":{\"message\":\"no such key sk-hunter2\"}}")
        .into_error("http://h", 1, &redactor);
    assert_eq!(
        error.message(),
        "http://h answered with status 401: no such key [REDACTED]; check apiKey (1 attempt)"
    );
    assert_eq!(error.facts()["status"], 401);
    assert_eq!(error.facts()["attempts"], 1);
    assert_eq!(error.facts()["retryAfterMs"], 2000);
    let misfit = Failure::Misfit {
        problems: vec!["/: sk-hunter2".into()],
        text: "sk-hunter2".into(),
        cut: false,
        usage: None,
    };
    assert!(!format!("{:?}", misfit.into_error("http://h", 3, &redactor)).contains("hunter2"));
}
