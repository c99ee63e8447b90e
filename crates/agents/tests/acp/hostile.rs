//! Agents whose messages are malformed, too many or too long. None of them blocks a session, and no secret is leaked.

use crate::support::{PATIENCE, code, error_code, millis, opened, request, text, try_open, until};
use agents::acp::{McpServer, PromptRequest};
use agents::harness::{AgentEvent, EventSink, Provider};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::redaction::Redactor;
use process::Strays;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

fn lines(messages: &[String]) -> String {
    let words: Vec<String> = messages.iter().map(|line| STANDARD.encode(line)).collect();
    format!("lines {}", words.join(" "))
}

#[tokio::test]
async fn a_notification_of_an_odd_form_is_borne() {
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let odd =
        [json!("x"), json!(7), json!(true), json!([1]), json!(null), json!({ "sessionId": [] }), json!({})];
    for params in odd {
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
        let outcome = agent.prompt(&lines(&[line])).await;
        assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("ok", "fine"), "{params}");
    }
}

/// A small random JSON value.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\u{1b}\u{7f}\u{e9}]{0,8}".prop_map(Value::from),
        Just(json!("session-1")),
        Just(json!("agent_message_chunk")),
        Just(json!("tool_call_update")),
        Just(json!("state_update")),
    ];
    let name = prop_oneof![
        Just("sessionId".to_owned()),
        Just("update".to_owned()),
        Just("sessionUpdate".to_owned()),
        Just("content".to_owned()),
        Just("type".to_owned()),
        Just("text".to_owned()),
        Just("toolCallId".to_owned()),
        Just("toolCall".to_owned()),
        Just("options".to_owned()),
        Just("rawInput".to_owned()),
        Just("entries".to_owned()),
        Just("requestId".to_owned()),
        Just("stopReason".to_owned()),
        "[a-z]{1,4}",
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn message() -> impl Strategy<Value = String> {
    let method = prop_oneof![
        4 => Just(json!("session/update")),
        1 => Just(json!("session/request_permission")),
        1 => Just(json!("$/cancel_request")),
        1 => value(),
    ];
    (method, value(), prop::option::weighted(0.3, value()), any::<bool>()).prop_map(
        |(method, params, id, is_whole)| {
            let mut message = serde_json::Map::new();
            message.insert("jsonrpc".into(), json!("2.0"));
            message.insert("method".into(), method);
            message.insert("params".into(), params);
            if let Some(id) = id {
                message.insert("id".into(), id);
            }
            let line = Value::Object(message).to_string();
            let half = line.char_indices().nth(line.chars().count() / 2).map_or(0, |(at, _)| at);
            if is_whole { line } else { line.get(..half).unwrap_or_default().to_owned() }
        },
    )
}

/// The messages pass a real process, pipe, reader and listener. SHEEPDOG_FUZZ_CASES sets the number of messages; 1,000 by
/// default.
#[tokio::test]
async fn no_message_wedges_a_session() {
    let cases: usize =
        std::env::var("SHEEPDOG_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = message();
    for version in [1, 2] {
        let mut open = request(Provider::Gemini, version, "");
        open.agent.limits.idle = Some(Duration::from_secs(20));
        let mut agent = opened(open).await;
        for _ in 0..cases.div_ceil(50) {
            let batch: Vec<String> =
                (0..25).map(|_| strategy.new_tree(&mut runner).expect("a message").current()).collect();
            let outcome = agent.prompt(&lines(&batch)).await;
            // Some messages end the turn. No message may keep it from ending.
            let code = code(&outcome);
            assert!(!code.contains("IDLE") && !code.contains("FAULT"), "{code}: {batch:?}");
            if agent.session.is_over() {
                agent.session.close().await;
                agent = opened(request(Provider::Gemini, version, "")).await;
            }
        }
        agent.session.close().await;
    }
}

#[tokio::test]
async fn cancel_settles_when_a_turn_of_the_agents_own_does_not_end() {
    for version in [1, 2] {
        let mut open = request(Provider::ClaudeCode, version, "");
        open.agent.kill_grace = millis(300);
        let agent = opened(open).await;
        let mut events = agent.session.events();
        assert_eq!(code(&agent.prompt("restless").await), "ok");
        until(&mut events, |event| matches!(event, AgentEvent::TurnStart { by: "agent", .. })).await;
        let idle = ground::task::spawn({
            let session = agent.session.clone();
            async move { session.idle().await }
        });
        let cancelled = timeout(Duration::from_secs(10), agent.session.cancel(Strays::Keep)).await;
        assert!(cancelled.is_ok(), "version {version}");
        let idle = timeout(Duration::from_secs(10), idle).await.unwrap().unwrap();
        assert_eq!(error_code(&idle.unwrap_err()), "SESSION_CLOSED", "version {version}");
    }
}

#[tokio::test]
async fn a_listener_that_reads_nothing_does_not_make_cancel_kill_an_agent_that_obeys() {
    for version in [1, 2] {
        let mut open = request(Provider::ClaudeCode, version, "");
        open.agent.kill_grace = Duration::from_secs(5);
        let agent = opened(open).await;
        let unread = agent.session.events();
        let turn = agent.session.start(PromptRequest::new("obeys"));
        // Wait until the listener's queue is full, and then the pipe.
        tokio::time::sleep(millis(700)).await;
        timeout(PATIENCE, agent.session.cancel(Strays::Keep)).await.unwrap().unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED", "version {version}");
        assert!(!agent.session.is_over(), "version {version}");
        drop(unread);
        assert_eq!(text(&agent.prompt("hello").await), "Hello world", "version {version}");
    }
}

#[tokio::test]
async fn what_an_agent_repeats_without_end_is_bounded() {
    let mut open = request(Provider::ClaudeCode, 1, "load-floods");
    open.agent.resume = Some("s".into());
    let error = try_open(open).await.err().unwrap();
    assert_eq!(error_code(&error), "AGENT_RESUME_FAILED");
    assert!(error.message().contains("128 MiB"), "{error}");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_named_in_the_error() {
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let outcome = agent.prompt("longline 70").await;
    let error = outcome.error().cloned().unwrap();
    assert_eq!(error_code(&error), "AGENT_CRASHED");
    assert!(error.message().contains("a line of more than"), "{error}");
    let gone = agent.session.set_mode("plan".into()).await.unwrap_err();
    assert!(gone.message().contains("a line of more than"), "{gone}");
}

#[tokio::test]
async fn no_secret_leaves_by_an_error_or_a_history() {
    const SECRET: &str = "s3cr3t-value";
    let hiding = |start: &str, resume: bool| {
        let mut open = request(Provider::ClaudeCode, 1, start);
        open.agent.redact = Redactor::new([SECRET]);
        open.agent.resume = resume.then(|| "s".into());
        open
    };
    let shown = |error: &ground::error::Error| {
        let facts = serde_json::to_string(error.facts()).unwrap();
        format!("{error} {facts} {}", error.cause().map(ToString::to_string).unwrap_or_default())
    };
    let error = try_open(hiding("new-tells-secret", false)).await.err().unwrap();
    assert!(!shown(&error).contains(SECRET) && shown(&error).contains("[REDACTED]"), "{}", shown(&error));
    let agent = opened(hiding("load-tells-secret", true)).await;
    let history = serde_json::to_string(agent.session.history()).unwrap();
    assert!(!history.contains(SECRET) && history.contains("[REDACTED]"), "{history}");
    let agent = opened(hiding("", false)).await;
    let outcome = agent.prompt(&format!("blabs {SECRET}")).await;
    let error = outcome.error().cloned().unwrap();
    assert!(!shown(&error).contains(SECRET) && shown(&error).contains("[REDACTED]"), "{}", shown(&error));
    let gone = agent.session.idle().await.unwrap_err();
    assert!(!shown(&gone).contains(SECRET) && shown(&gone).contains("[REDACTED]"), "{}", shown(&gone));
}

#[tokio::test]
async fn a_question_in_the_name_of_another_session_is_nobodys() {
    for version in [1, 2] {
        let mut open = request(Provider::Gemini, version, "");
        open.has_handler = true;
        let mut agent = opened(open).await;
        let outcome = agent.prompt("foreign").await;
        assert_eq!(text(&outcome), "error", "the agent was told that the session is unknown");
        assert!(agent.host.try_recv().is_err(), "nobody was asked");
    }
}

#[tokio::test]
async fn nothing_is_asked_that_the_agent_says_it_lacks() {
    let mut resumed = request(Provider::Gemini, 1, "offers-nothing");
    resumed.agent.resume = Some("session-1".to_owned());
    let mut with_tools = request(Provider::Gemini, 1, "offers-nothing");
    with_tools.servers =
        vec![McpServer::Http { name: "x".into(), url: "http://127.0.0.1:9".into(), headers: Vec::new() }];
    for (open, option) in [(resumed, "resume: "), (with_tools, "tools: ")] {
        let error = try_open(open).await.err().expect("a refusal");
        assert_eq!(error_code(&error), "INVALID_OPTION");
        assert!(error.message().starts_with(option), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_comes_back_empty_is_told() {
    let warned = async |start: &str| {
        let mut open = request(Provider::Gemini, 1, start);
        open.agent.resume = Some("session-1".to_owned());
        let agent = opened(open).await;
        let outcome = agent.prompt("hello").await;
        outcome.result().unwrap().facts.warnings.iter().any(|warning| warning.contains("sent no history"))
    };
    assert!(warned("load-empty").await);
    assert!(!warned("").await);
}

#[tokio::test]
async fn no_secret_leaves_by_a_refused_wish_or_a_name_of_a_setting() {
    const SECRET: &str = "s3cr3t-value";
    let mut open = request(Provider::ClaudeCode, 1, "settings-tell-secret");
    open.agent.redact = Redactor::new([SECRET]);
    let agent = opened(open).await;
    let errors = [
        agent.session.set_mode("default".into()).await.unwrap_err(),
        agent.session.set_mode("unknown".into()).await.unwrap_err(),
        agent.session.set_option("unknown".into(), json!("x")).await.unwrap_err(),
        agent.session.steer("x".into()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.message().contains("[REDACTED]"), "{error}");
        assert!(!error.message().contains(SECRET), "{error}");
    }
    let shown = format!("{:?} {:?}", agent.session.modes(), agent.session.options());
    assert!(!shown.contains(SECRET) && shown.contains("[REDACTED]"), "{shown}");
}

#[tokio::test]
async fn a_warning_names_a_few_of_the_tools_that_were_left_behind() {
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let outcome = agent.run(PromptRequest { leaves: true, ..PromptRequest::new("manytools 1000") }).await;
    let warnings = &outcome.result().unwrap().facts.warnings;
    let left = warnings.iter().find(|warning| warning.contains("left something running")).unwrap();
    assert!(left.len() < 4096 && left.ends_with("992 others"), "{left}");
}

#[tokio::test]
async fn a_reader_that_has_left_costs_nothing() {
    struct Left {
        _held: Arc<()>,
    }
    impl EventSink for Left {
        fn tell(&mut self, _: Vec<AgentEvent>) {
            panic!("nobody reads here");
        }
        fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
        fn end(&mut self) {}
        fn is_gone(&self) -> bool {
            true
        }
    }
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let held = Arc::new(());
    for _ in 0..100 {
        agent.session.listen(Box::new(Left { _held: Arc::clone(&held) }));
    }
    drop(agent.session.events());
    assert_eq!(code(&agent.prompt("hello").await), "ok");
    assert_eq!(Arc::strong_count(&held), 1, "the session holds none of them any more");
}
