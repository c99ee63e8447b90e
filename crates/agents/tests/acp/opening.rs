use crate::support::{code, error_code, millis, opened, request, text, try_open, until};
use agents::acp::{Level, OpenRequest, PromptRequest};
use agents::harness::{AgentEvent, Provider};
use process::Strays;

use Provider::{ClaudeCode, Gemini};

/// One that keeps what it was sent in this file.
fn logged(fault: &str, level: Level, log: &std::path::Path) -> OpenRequest {
    let mut open = request(Gemini, 1, fault);
    open.agent.level = level;
    open.agent.resume = Some("earlier".into());
    let words = open.agent.binary.as_mut().unwrap();
    words.extend(["--log".into(), log.to_string_lossy().into_owned()]);
    open
}

#[tokio::test]
async fn a_level_is_set_though_an_answer_tells_no_modes() {
    let folder = tempfile::tempdir().unwrap();
    for fault in ["load-null", "load-nothing"] {
        for (level, mode) in [(Level::Plan, "plan"), (Level::Edit, "autoEdit"), (Level::Auto, "yolo")] {
            let log = folder.path().join(format!("{fault}-{mode}"));
            let agent = opened(logged(fault, level, &log)).await;
            assert_eq!(text(&agent.prompt("hello").await), "Hello world");
            let sent = std::fs::read_to_string(&log).unwrap();
            let set = sent.find("\"session/set_mode\"").unwrap();
            assert!(sent[set..].contains(&format!("\"modeId\":\"{mode}\"")), "{fault}: {sent}");
            assert!(set < sent.find("\"session/prompt\"").unwrap(), "no prompt comes before: {sent}");
        }
    }
    let log = folder.path().join("refused");
    let error = try_open(logged("load-refuses", Level::Plan, &log)).await.err().unwrap();
    assert_eq!(error_code(&error), "INVALID_OPTION");
    assert!(error.message().contains("no such mode"), "{}", error.message());
}

#[tokio::test]
async fn what_is_said_before_a_prompt_is_no_part_of_its_answer() {
    let agent = opened(request(Gemini, 1, "new-chatty")).await;
    assert_eq!(text(&agent.prompt("hello").await), "Hello world");
}

#[tokio::test]
async fn the_last_words_of_a_cancelled_prompt_are_no_part_of_the_next_answer() {
    let agent = opened(request(Gemini, 1, "")).await;
    for _ in 0..8 {
        let turn = agent.session.start(PromptRequest::new("lastword"));
        let mut events = agent.session.events();
        until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
        let next = agent.session.start(PromptRequest::new("hello"));
        agent.session.cancel(Strays::Keep).await.unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED");
        assert_eq!(text(&next.outcome().await), "Hello world");
    }
}

#[tokio::test]
async fn a_usage_limit_at_the_opening_has_its_kind_and_its_end() {
    let error = try_open(request(Gemini, 1, "new-limited")).await.err().unwrap();
    assert_eq!(error_code(&error), "AGENT_FAILED quota");
    let after = error.facts()["retryAfterMs"].as_u64().unwrap();
    assert!((7_000_000..=7_200_000).contains(&after), "{after}");
    assert!(error.facts()["resetAt"].is_u64());
    let other = try_open(request(Gemini, 1, "new-auth")).await.err().unwrap();
    assert!(!other.facts().contains_key("resetAt"));
}

#[tokio::test]
async fn what_a_turn_waits_for_is_told_at_once() {
    for (play, expected) in [("opentool 2000", true), ("tool", false)] {
        let agent = opened(request(ClaudeCode, 1, "")).await;
        let mut events = agent.session.events();
        let turn = agent.session.start(PromptRequest::new(play));
        let seen = until(&mut events, |event| {
            matches!(event, AgentEvent::Background { .. } | AgentEvent::TurnEnd { .. })
        });
        let seen = seen.await;
        let told = seen.iter().find(|event| event["type"] == "background");
        assert_eq!(told.is_some(), expected, "{play}: {seen:?}");
        if let Some(told) = told {
            assert_eq!(told["items"][0]["name"], "execute", "{told}");
        }
        assert_eq!(code(&turn.outcome().await), "ok");
    }
}

#[tokio::test]
async fn a_silence_is_told_with_the_last_printed_words() {
    let mut open = request(ClaudeCode, 1, "");
    open.agent.limits.idle = Some(millis(300));
    let agent = opened(open).await;
    let outcome = agent.prompt("prints Do you trust the files in this folder?").await;
    let error = outcome.error().unwrap();
    assert_eq!(error_code(error), "AGENT_IDLE");
    assert!(error.message().contains("Do you trust the files in this folder?"), "{}", error.message());
}

#[tokio::test]
async fn an_answer_without_a_model_is_told() {
    for version in [1, 2] {
        let agent = opened(request(ClaudeCode, version, "")).await;
        for (play, expected) in [("own", true), ("hello", false)] {
            let outcome = agent.prompt(play).await;
            assert_eq!(code(&outcome), "ok");
            let warnings = &outcome.result().unwrap().facts.warnings;
            let is_told = warnings.iter().any(|warning| warning.starts_with("no model took part"));
            assert_eq!(is_told, expected, "{version} {play}: {warnings:?}");
        }
    }
}

#[tokio::test]
async fn a_character_in_two_pieces_is_whole() {
    for version in [1, 2] {
        let agent = opened(request(Gemini, version, "")).await;
        assert_eq!(text(&agent.prompt("halves").await), "a 😀 b");
    }
}

#[tokio::test]
async fn the_record_of_a_session_that_could_not_be_prepared_has_its_end() {
    let records = tempfile::tempdir().unwrap();
    let mut open = request(Provider::Gemini, 1, "");
    open.agent.record = Some(records.path().to_owned());
    open.agent.environment.changes.push(("TMPDIR".to_owned(), Some("/proc".to_owned())));
    let error = try_open(open).await.err().unwrap();
    let record = std::fs::read_dir(records.path()).unwrap().next().unwrap().unwrap().path();
    let end = std::fs::read_to_string(record.join("end.json")).unwrap();
    assert!(end.contains(error.code().as_str()), "{end}");
}
