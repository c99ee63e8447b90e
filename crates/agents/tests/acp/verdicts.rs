use crate::support::{Opened, code, error_code, millis, opened, request, text, try_open, until};
use agents::acp::{Level, PromptRequest};
use agents::harness::{AgentEvent, Provider, TurnOutcome};
use agents::model::Schema;
use ground::redaction::Redactor;
use serde_json::json;
use std::sync::Arc;

use Provider::{ClaudeCode, Codex, Copilot, Gemini, Opencode, Pi};

#[tokio::test]
async fn every_end_has_its_verdict_and_the_session_lives_on() {
    // provider, version, prompt, code, text
    let cases = [
        (Gemini, 1, "hello", "ok", "Hello world"),
        (ClaudeCode, 2, "hello", "ok", "Hello world"),
        (Gemini, 1, "tool", "ok", "It says hi."),
        (ClaudeCode, 2, "tool", "ok", "It says hi."),
        (Gemini, 1, "tooldone", "ok", "Done."),
        (Gemini, 1, "nothing", "AGENT_TRUNCATED", ""),
        (Copilot, 1, "nothing", "AGENT_TRUNCATED", ""),
        (
            Codex,
            1,
            "errortext unexpected status 500 Internal Server Error",
            "AGENT_FAILED server",
            "unexpected status 500 Internal Server Error",
        ),
        (Copilot, 1, "errortext Error: 401 Unauthorized", "AGENT_FAILED auth", "Error: 401 Unauthorized"),
        (Gemini, 1, "errortext all is well", "ok", "all is well"),
        (Gemini, 1, "error 401", "AGENT_FAILED auth", "API Error: 500"),
        (Gemini, 1, "error 500", "AGENT_FAILED server", "API Error: 500"),
        (ClaudeCode, 2, "error -32000", "AGENT_FAILED server", "API Error: 500"),
        (ClaudeCode, 2, "error -32603 rate_limit", "AGENT_FAILED rate_limit", "API Error: 500"),
        (ClaudeCode, 2, "error -32603 server_error", "AGENT_FAILED server", "API Error: 500"),
        (ClaudeCode, 2, "error -32603", "AGENT_FAILED server", "API Error: 500"),
        (Gemini, 1, "stop max_tokens", "AGENT_FAILED context_length", "partial"),
        (Gemini, 1, "stop max_turn_requests", "AGENT_FAILED invalid_request", "partial"),
        (ClaudeCode, 2, "stop refusal", "AGENT_FAILED permission", "partial"),
        (Gemini, 1, "stop cancelled", "AGENT_ABORTED", "partial"),
        (ClaudeCode, 2, "stop tired", "AGENT_TRUNCATED", "partial"),
        (ClaudeCode, 2, "silentidle", "AGENT_TRUNCATED", "hm"),
        (ClaudeCode, 2, "background 50", "ok", "started\n\nwoken"),
        (Gemini, 1, "opentool 50", "ok", "it runs"),
        (Gemini, 1, "rubbish", "ok", "-32601 -32601 -32601"),
        (ClaudeCode, 2, "rubbish", "ok", "-32601 -32601 -32601"),
    ];
    let mut provider = None;
    let mut agent = None;
    for (index, (wanted, version, prompt, expected, words)) in cases.into_iter().enumerate() {
        if provider != Some((wanted, version)) {
            let mut open = request(wanted, version, "");
            // An answer that the agent begins by itself has to come within it, on a busy machine too.
            open.settle = millis(3000);
            agent = Some(opened(open).await);
            provider = Some((wanted, version));
        }
        let agent = agent.as_ref().unwrap();
        assert_eq!(agent.session.version().number(), version);
        let outcome = agent.prompt(prompt).await;
        assert_eq!(
            (code(&outcome).as_str(), text(&outcome).as_str()),
            (expected, words),
            "{index} {wanted:?} {prompt}"
        );
        let after = agent.prompt("hello").await;
        assert_eq!(
            (code(&after).as_str(), text(&after).as_str()),
            ("ok", "Hello world"),
            "after {wanted:?} {prompt}"
        );
    }
}

#[tokio::test]
async fn a_result_has_what_a_one_shot_turn_has() {
    let agent = opened(request(Copilot, 1, "")).await;
    for turn in 1..=2 {
        let outcome = agent.prompt("tool").await;
        let result = outcome.result().cloned().unwrap();
        assert_eq!(result.facts.session_id.as_deref(), Some("session-1"));
        assert_eq!((result.facts.tool_calls, result.facts.turns, result.facts.attempts), (1, 2, 1));
        // Copilot counts usage over its whole session: the second turn of this script spent nothing.
        assert_eq!(result.facts.usage.unwrap().input_tokens, if turn == 1 { 100 } else { 0 });
        assert!(result.facts.process.is_none() && result.facts.duration_ms > 0.0);
    }
    let paid = opened(request(ClaudeCode, 2, "")).await;
    paid.prompt("cost 0.5").await;
    let second = paid.prompt("cost 0.75").await.result().cloned().unwrap();
    assert_eq!(second.facts.usage.unwrap().cost_usd, Some(0.25));
}

#[tokio::test]
async fn a_turn_is_told_in_the_events_of_the_harness() {
    let agent = opened(request(ClaudeCode, 2, "")).await;
    let turn = agent.session.start(PromptRequest { has_listener: true, ..PromptRequest::new("tool") });
    turn.outcome().await;
    // The events are requested only now: earlier ones were kept.
    let events = until(&mut turn.events(), |event| matches!(event, AgentEvent::End { .. })).await;
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "text", "tool_start", "tool_end", "text", "usage", "end"]);
    assert_eq!(events[2], json!({"type":"tool_start","id":"t1","name":"Bash","input":{"command":"echo hi"}}));
    assert_eq!(
        events[3],
        json!({"type":"tool_end","id":"t1","name":"Bash","output":"hi\n","exitCode":0,"isError":false})
    );
}

/// Each wake-up processes a bounded number of messages. The remaining ones wait for the next wake-up.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pieces_comes_through_whole() {
    for version in [1, 2] {
        let agent = opened(request(Provider::Gemini, version, "")).await;
        for pieces in [20_000, 100_000] {
            assert_eq!(text(&agent.prompt(&format!("flood {pieces} 1")).await).len(), pieces);
        }
    }
}

#[tokio::test]
async fn what_comes_between_prompts_is_never_the_next_ones_text() {
    for version in [1, 2] {
        let mut open = request(ClaudeCode, version, "");
        open.settle = millis(100);
        let agent = opened(open).await;
        let mut events = agent.session.events();
        let leave = |text: &str| PromptRequest { leaves: true, ..PromptRequest::new(text) };
        let first = agent.run(leave(if version == 1 { "later 50" } else { "background 50" })).await;
        assert!(!text(&first).contains("woken") && !text(&first).contains("later"));
        // Version 1 has no message for work that goes on after a turn: only its output shows it.
        let is_late = |event: &AgentEvent| matches!(event, AgentEvent::Text { text, .. } if text == "later" || text == "woken");
        let mut seen = until(&mut events, is_late).await;
        agent.session.idle().await.unwrap();
        let second = agent.prompt("hello").await;
        assert_eq!(text(&second), "Hello world");
        seen.extend(until(&mut events, |event| matches!(event, AgentEvent::TurnEnd { turn: 3 })).await);
        let own =
            seen.iter().position(|event| event["type"] == "turn_start" && event["by"] == "agent").unwrap();
        assert_eq!(seen[own]["turn"], 2);
        let end = seen.iter().position(|event| event["type"] == "turn_end" && event["turn"] == 2).unwrap();
        assert!(
            seen[own..end].iter().any(|event| event["text"] == "woken" || event["text"] == "later"),
            "{seen:?}"
        );
    }
}

#[tokio::test]
async fn background_work_that_never_ends_is_waited_for_until_it_was_silent_too_long() {
    let mut open = request(ClaudeCode, 2, "");
    open.agent.limits.tool_idle = Some(millis(200));
    let agent = opened(open).await;
    let outcome = agent.prompt("forever").await;
    assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("ok", "started"));
    let warnings = outcome.result().cloned().unwrap().facts.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("toolIdleTimeoutMs")), "{warnings:?}");
}

#[tokio::test]
async fn an_answer_that_misfits_is_asked_for_once_more() {
    let schema = json!({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]});
    let schema = Arc::new(Schema::compile(schema, "schema").unwrap());
    let agent = opened(request(Gemini, 1, "")).await;
    let with = |text: &str| PromptRequest { schema: Some(Arc::clone(&schema)), ..PromptRequest::new(text) };
    for (prompt, value, attempts) in [("fits", 7, 1), ("schema", 5, 2)] {
        let outcome = agent.run(with(prompt)).await;
        let result = outcome.result().cloned().unwrap();
        assert_eq!(result.facts.structured, Some(json!({ "a": value })), "{:?}", outcome.error());
        assert_eq!(result.facts.attempts, attempts);
    }
    let outcome = agent.run(with("stop end_turn")).await;
    assert_eq!(code(&outcome), "ok", "the re-ask of this script fits");
}

#[tokio::test]
async fn a_resumed_session_keeps_its_history_apart() {
    for version in [1, 2] {
        let mut open = request(Gemini, version, "");
        open.agent.resume = Some("session-7".into());
        let agent = opened(open).await;
        assert_eq!(agent.session.id(), "session-7");
        let history = serde_json::to_value(agent.session.history()).unwrap();
        assert_eq!(history[0], json!({"type":"prompt","text":"remember 42"}));
        assert_eq!(history[1], json!({"type":"text","text":"I will.","delta":true}));
        assert_eq!(history[2]["type"], "tool_start");
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
    }
    let mut unknown = request(Gemini, 1, "");
    unknown.agent.resume = Some("unknown".into());
    assert_eq!(try_open(unknown).await.err().map(|error| error_code(&error)).unwrap(), "AGENT_RESUME_FAILED");
}

#[tokio::test]
async fn the_level_is_the_agents_own_mode() {
    for (provider, version, level, mode) in [
        (Gemini, 1, Level::Plan, "plan"),
        (Gemini, 1, Level::Edit, "autoEdit"),
        (ClaudeCode, 2, Level::Auto, "bypassPermissions"),
        (Codex, 2, Level::Ask, "workspace-write"),
    ] {
        let mut open = request(provider, version, "");
        open.agent.level = level;
        let agent = opened(open).await;
        let state: serde_json::Value = ground::json::read_own(text(&agent.prompt("state").await)).unwrap();
        assert_eq!(state["mode"], mode, "{provider:?} {level:?}");
        assert!(agent.session.modes().iter().any(|known| known.id == mode && known.is_current));
        agent.session.set_mode("default".into()).await.unwrap();
        assert!(agent.session.modes().iter().any(|known| known.id == "default" && known.is_current));
        agent.session.set_option("model".into(), json!("large")).await.unwrap();
        let state: serde_json::Value = ground::json::read_own(text(&agent.prompt("state").await)).unwrap();
        assert_eq!((&state["mode"], &state["model"]), (&json!("default"), &json!("large")));
        let refused = agent.session.set_mode("godlike".into()).await.unwrap_err();
        assert_eq!(error_code(&refused), "INVALID_OPTION");
    }
    for level in [Level::Plan, Level::Edit, Level::Ask] {
        let mut open = request(Pi, 1, "");
        open.agent.level = level;
        let refused = try_open(open).await.err().unwrap();
        assert!(refused.message().starts_with("permission: "), "{refused}");
    }
}

#[tokio::test]
async fn a_mode_that_the_agent_leaves_by_itself_is_set_again() {
    let mut open = request(Gemini, 1, "");
    open.agent.level = Level::Plan;
    let agent = opened(open).await;
    let mode = async || -> String {
        let state: serde_json::Value = ground::json::read_own(text(&agent.prompt("state").await)).unwrap();
        state["mode"].as_str().unwrap().to_owned()
    };
    let left = agent.prompt("leave yolo").await;
    assert_eq!(text(&left), "in yolo");
    let warnings = left.result().cloned().unwrap().facts.warnings;
    assert!(warnings[0].contains("left the mode \"plan\""), "{warnings:?}");
    assert_eq!(mode().await, "plan");
    // The mode that the caller chooses is the one that is held.
    agent.session.set_mode("default".into()).await.unwrap();
    assert_eq!(mode().await, "default");
    agent.prompt("leave yolo").await;
    assert_eq!(mode().await, "default");
}

#[tokio::test]
async fn opencode_is_held_by_an_agent_of_the_sessions_own() {
    let mut open = request(Opencode, 1, "");
    open.agent.level = Level::Ask;
    let users = json!({ "model": "a/b", "agent": { "build": { "permission": { "bash": "allow" } } } });
    open.agent.environment.changes.push(("OPENCODE_CONFIG_CONTENT".into(), Some(users.to_string())));
    let agent = opened(open.clone()).await;
    let mode = agent.session.modes().into_iter().find(|mode| mode.is_current).unwrap().id;
    assert!(!["build", "plan", "default", ""].contains(&mode.as_str()), "{mode}");
    let state: serde_json::Value = ground::json::read_own(text(&agent.prompt("state").await)).unwrap();
    let content: serde_json::Value = ground::json::read_own(state["opencode"].as_str().unwrap()).unwrap();
    assert_eq!((&content["model"], &content["agent"]["build"]), (&users["model"], &users["agent"]["build"]));
    assert_eq!(content["agent"][&mode]["permission"]["bash"], "ask");
    // An agent that does not offer it is held only as far as its own rules go.
    let mut plain = open.clone();
    plain.agent.binary.as_mut().unwrap().extend(["--plain".to_owned(), "1".to_owned()]);
    let agent = opened(plain).await;
    assert!(agent.session.modes().iter().any(|mode| mode.id == "build" && mode.is_current));
    open.agent.level = Level::Auto;
    let agent = opened(open.clone()).await;
    assert!(agent.session.modes().iter().any(|mode| mode.id == "build" && mode.is_current));
    open.agent.level = Level::Edit;
    open.agent.environment.changes.push(("OPENCODE_CONFIG_CONTENT".into(), Some("// comment".into())));
    let refused = try_open(open).await.err().unwrap();
    assert!(refused.message().starts_with("env[\"OPENCODE_CONFIG_CONTENT\"]: "), "{refused}");
}

#[tokio::test]
async fn what_an_agent_says_of_its_tries_is_no_answer() {
    let agent = opened(request(Copilot, 1, "")).await;
    let mut events = agent.session.events();
    let outcome = agent.prompt("retried").await;
    assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("ok", "Fine now."));
    let seen = until(&mut events, |event| matches!(event, AgentEvent::End { .. })).await;
    assert!(seen.iter().any(|event| event["type"] == "retry"), "{seen:?}");
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".pi/agent/sessions/--work--");
    std::fs::create_dir_all(&folder).unwrap();
    let mut open = request(Pi, 1, "");
    open.agent.level = Level::Auto;
    let path = home.path().to_string_lossy().into_owned();
    open.agent.environment.changes.push(("HOME".into(), Some(path)));
    let agent = opened(open).await;
    assert_eq!(code(&agent.prompt("tool").await), "ok");
    let log = folder.join(format!("now_{}.jsonl", agent.session.id()));
    let line =
        r#"{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"500: no"}}"#;
    std::fs::write(&log, line).unwrap();
    let outcome = agent.prompt("tool").await;
    assert_eq!(code(&outcome), "AGENT_FAILED server", "its text is {:?}", text(&outcome));
}

#[tokio::test]
async fn a_refusal_that_ends_the_turn_is_named() {
    let mut open = request(Codex, 1, "");
    open.agent.level = Level::Ask;
    let agent = opened(open).await;
    let outcome = agent.prompt("askcodex npm publish").await;
    let error = outcome.error().cloned().unwrap();
    assert_eq!(error_code(&error), "AGENT_ABORTED");
    assert!(error.message().contains("npm publish was refused"), "{error}");
    assert_eq!(text(&agent.prompt("hello").await), "Hello world");
}

#[tokio::test]
async fn prompts_wait_their_turn_and_one_that_waits_can_be_aborted() {
    let agent = opened(request(Gemini, 1, "")).await;
    let first = agent.session.start(PromptRequest::new("later 1"));
    let second = agent.session.start(PromptRequest::new("echo second"));
    let third = agent.session.start(PromptRequest::new("echo third"));
    second.abort();
    assert_eq!(code(&first.outcome().await), "ok");
    assert_eq!(code(&second.outcome().await), "AGENT_ABORTED");
    assert!(text(&third.outcome().await).contains("echo third"));
}

#[tokio::test]
async fn steering_is_for_agents_that_offer_it() {
    let steered = opened(request(ClaudeCode, 2, "")).await;
    let turn = steered.session.start(PromptRequest::new("steer"));
    steered.session.steer("use pnpm".into()).await.unwrap();
    assert_eq!(text(&turn.outcome().await), "working, use pnpm");
    let plain = opened(request(Gemini, 1, "")).await;
    assert_eq!(error_code(&plain.session.steer("x".into()).await.unwrap_err()), "INVALID_OPTION");
}

#[tokio::test]
async fn secrets_end_here() {
    let mut open = request(Gemini, 1, "");
    open.agent.redact = Redactor::new(["hunter2"]);
    let agent = opened(open).await;
    let mut events = agent.session.events();
    let outcome = agent.prompt("echo hunter2").await;
    assert!(!text(&outcome).contains("hunter2"));
    let seen = until(&mut events, |event| matches!(event, AgentEvent::TurnEnd { .. })).await;
    assert!(!serde_json::to_string(&seen).unwrap().contains("hunter2"));
    let failed = agent.prompt("errortext Error: hunter2").await;
    assert!(!format!("{:?}", failed.error()).contains("hunter2"));
}

#[tokio::test]
async fn a_session_that_is_open_twice_is_told() {
    let id = format!("twice-{}", std::process::id());
    let resumed = async || {
        let mut open = request(Provider::Gemini, 1, "");
        open.agent.resume = Some(id.clone());
        opened(open).await
    };
    let warns = async |agent: &Opened| {
        let outcome = agent.prompt("hello").await;
        let warnings = &outcome.result().unwrap().facts.warnings;
        warnings.iter().any(|warning| warning.contains("is open in another process"))
    };
    let first = resumed().await;
    assert!(!warns(&first).await);
    let second = resumed().await;
    assert!(warns(&second).await);
    second.session.close().await;
    first.session.close().await;
    assert!(!warns(&resumed().await).await, "it was given free");
}

#[tokio::test]
async fn the_money_of_a_resumed_session_is_that_since_it_was_resumed() {
    let cost = |outcome: &Arc<TurnOutcome>| outcome.result().unwrap().facts.usage.unwrap().cost_usd.unwrap();
    let agent = opened(request(Provider::Opencode, 1, "")).await;
    let id = agent.session.id().to_owned();
    for (told, spent) in [(0.5, 0.5), (0.75, 0.25)] {
        assert_eq!(cost(&agent.prompt(&format!("cost {told}")).await), spent);
    }
    agent.session.close().await;
    // An agent that counts on, and one that begins anew with each process.
    for (told, spent) in [(1.0, 0.25), (0.125, 0.125)] {
        let mut again = request(Provider::Opencode, 1, "");
        again.agent.resume = Some(id.clone());
        let agent = opened(again).await;
        let outcome = agent.prompt(&format!("cost {told}")).await;
        assert_eq!((code(&outcome).as_str(), cost(&outcome)), ("ok", spent), "{told}");
        agent.session.close().await;
    }
}
