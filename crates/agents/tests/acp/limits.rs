use crate::support::{PATIENCE, code, millis, opened, request, text, try_open_under, until};
use agents::acp::{OpenRequest, PromptRequest};
use agents::harness::{AgentEvent, ConcurrencyLimit, Provider};
use serde_json::Value;
use std::time::{Duration, SystemTime};

fn patient(version: u8) -> OpenRequest {
    OpenRequest { wait_for_reset: PATIENCE, ..request(Provider::Gemini, version, "") }
}

fn listened(text: &str) -> PromptRequest {
    PromptRequest { has_listener: true, ..PromptRequest::new(text) }
}

fn is_rest(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Retry { until: Some(_), .. })
}

#[tokio::test]
async fn a_limit_is_waited_out_and_what_was_asked_is_asked_again() {
    for version in [1, 2] {
        let mut open = patient(version);
        // No timeout runs meanwhile.
        open.agent.limits.idle = Some(millis(3000));
        let agent = opened(open).await;
        let turn = agent.session.start(listened("limit 4000"));
        let mut events = turn.events();
        let begun = SystemTime::now();
        let told = until(&mut events, is_rest).await.pop().unwrap();
        let at = told["until"].as_u64().unwrap();
        let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
        assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("ok", "Back: limit 4000"));
        assert_eq!(outcome.result().unwrap().facts.attempts, 1, "a limit that was met is no attempt");
        assert!(at >= millis_of(begun) && at <= millis_of(SystemTime::now()), "{told}");
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
    }
}

fn millis_of(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

#[tokio::test]
async fn work_that_was_begun_goes_on_and_is_not_asked_for_again() {
    for version in [1, 2] {
        let agent = opened(patient(version)).await;
        let outcome = agent.prompt("limit 500 tool").await;
        let said = text(&outcome);
        assert!(
            said.starts_with("A usage limit interrupted you") && said.ends_with("\n\nlimit 500 tool"),
            "{said}"
        );
        assert_eq!(outcome.result().unwrap().facts.tool_calls, 1);
    }
}

#[tokio::test]
async fn a_limit_is_told_where_it_is_not_waited_for() {
    for wait in [Duration::ZERO, millis(60_000)] {
        let agent = opened(OpenRequest { wait_for_reset: wait, ..patient(1) }).await;
        let outcome = agent.prompt("limit 3600000").await;
        assert_eq!(code(&outcome), "AGENT_FAILED rate_limit");
        let facts = outcome.error().unwrap().facts();
        let number = |name: &str| facts.get(name).and_then(Value::as_u64).unwrap();
        assert!((3_500_000..=3_600_000).contains(&number("retryAfterMs")));
        assert!(number("resetAt") > millis_of(SystemTime::now()) + 3_500_000);
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
    }
}

#[tokio::test]
async fn a_turn_that_rests_can_be_aborted_and_the_session_lives_on() {
    for version in [1, 2] {
        let agent = opened(OpenRequest { wait_for_reset: Duration::MAX, ..patient(version) }).await;
        let turn = agent.session.start(listened("limit 3600000"));
        until(&mut turn.events(), is_rest).await;
        turn.abort();
        let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
        assert_eq!(code(&outcome), "AGENT_ABORTED");
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
        let resting = agent.session.start(listened("limit 3600000"));
        until(&mut resting.events(), is_rest).await;
        agent.session.close().await;
        assert_eq!(code(&resting.outcome().await), "AGENT_ABORTED");
    }
}

#[tokio::test]
async fn a_limit_that_stands_again_and_again_is_not_waited_for_without_end() {
    let agent = opened(patient(1)).await;
    let outcome = agent.prompt("limit 0 always").await;
    assert_eq!(code(&outcome), "AGENT_FAILED rate_limit");
    assert_eq!(outcome.result().unwrap().facts.attempts, 3);
}

#[tokio::test]
async fn a_limit_holds_back_every_turn_of_the_account() {
    let shared = ConcurrencyLimit::new(4);
    let under = |request| try_open_under(request, vec![shared.clone()]);
    let first = under(OpenRequest { wait_for_reset: Duration::ZERO, ..patient(1) }).await.unwrap();
    let second = under(patient(2)).await.unwrap();
    let mut stranger = patient(1);
    stranger.agent.environment.changes.push(("GEMINI_API_KEY".to_owned(), Some("another".to_owned())));
    let stranger = under(stranger).await.unwrap();
    assert_eq!(code(&first.prompt("limit 8000").await), "AGENT_FAILED rate_limit");
    assert_eq!(text(&stranger.prompt("hello").await), "Hello world", "of another account");
    assert_eq!(text(&first.prompt("hello").await), "Hello world", "who doesn't wait so long is tried");
    let turn = second.session.start(listened("hello"));
    let told = until(&mut turn.events(), is_rest).await.pop().unwrap();
    assert!(told["message"].as_str().unwrap().ends_with("held back"), "{told}");
    let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
    assert_eq!(text(&outcome), "Hello world");
    assert!(millis_of(SystemTime::now()) >= told["until"].as_u64().unwrap());
}
