use crate::support::{PATIENCE, code, error_code, millis, opened, request, text, until};
use agents::acp::{HostRequest, PromptRequest};
use agents::harness::{AgentEvent, Provider};
use process::Strays;
use std::time::Instant;

#[tokio::test]
async fn a_cancel_that_is_obeyed_leaves_the_session_alive() {
    for (version, play) in
        [(1, "stall"), (2, "stall"), (1, "stalltool"), (2, "stalltool"), (1, "denies"), (2, "denies")]
    {
        let agent = opened(request(Provider::ClaudeCode, version, "")).await;
        let mut events = agent.session.events();
        let turn = agent.session.start(PromptRequest::new(play));
        until(&mut events, |event| matches!(event, AgentEvent::Text { .. } | AgentEvent::ToolStart { .. }))
            .await;
        agent.session.cancel(Strays::Keep).await.unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED", "{version} {play}");
        assert_eq!(text(&agent.prompt("hello").await), "Hello world", "{version} {play}");
    }
}

#[tokio::test]
async fn silence_ends_a_turn_with_the_clock_that_ran_out() {
    for (version, play, expected) in
        [(1, "stall", "AGENT_IDLE"), (2, "stall", "AGENT_IDLE"), (1, "stalltool", "AGENT_TIMED_OUT")]
    {
        let mut open = request(Provider::ClaudeCode, version, "");
        open.agent.limits.idle = Some(millis(150));
        open.agent.limits.total = Some(millis(700));
        let agent = opened(open).await;
        let outcome = agent.prompt(play).await;
        assert_eq!(code(&outcome), expected, "{version} {play}");
        assert_eq!(text(&outcome), if play == "stall" { "wait" } else { "" });
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
    }
    let mut open = request(Provider::ClaudeCode, 1, "");
    open.agent.limits.tool_idle = Some(millis(150));
    let agent = opened(open).await;
    let outcome = agent.prompt("stalltool").await;
    let error = outcome.error().cloned().unwrap();
    assert!(error.message().contains("toolIdleTimeoutMs") && error_code(&error) == "AGENT_IDLE");
}

#[tokio::test]
async fn an_agent_that_does_not_obey_is_killed_within_its_grace() {
    let mut open = request(Provider::ClaudeCode, 1, "");
    open.agent.kill_grace = millis(300);
    let agent = opened(open).await;
    let mut events = agent.session.events();
    let turn = agent.session.start(PromptRequest::new("deaf"));
    let waiting = agent.session.start(PromptRequest::new("hello"));
    until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
    let began = Instant::now();
    turn.abort();
    let outcome = turn.outcome().await;
    assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("AGENT_ABORTED", "I will not stop"));
    assert!(began.elapsed() >= millis(300), "{:?}", began.elapsed());
    assert_eq!(code(&waiting.outcome().await), "SESSION_CLOSED");
    let error = agent.session.set_mode("plan".into()).await.unwrap_err();
    assert_eq!(error_code(&error), "SESSION_CLOSED");
    assert_eq!(error.facts()["signal"], "SIGKILL");
    assert_eq!(code(&agent.prompt("hello").await), "SESSION_CLOSED");
}

#[tokio::test]
async fn each_step_of_the_ladder_has_its_grace_and_no_more() {
    // The play; whether the session is closed rather than cancelled; the signal that ends it, which a second grace may precede.
    let cases = [
        ("deaf", false, "SIGKILL", true),
        ("deaf all", false, "SIGKILL", true),
        ("deaf", true, "SIGTERM", false),
        ("deaf all", true, "SIGKILL", true),
    ];
    let grace = millis(400);
    for version in [1, 2] {
        for (play, is_closed, signal, has_grace) in cases {
            let mut open = request(Provider::ClaudeCode, version, "");
            open.agent.kill_grace = grace;
            let agent = opened(open).await;
            let mut events = agent.session.events();
            let turn = agent.session.start(PromptRequest::new(play));
            let behind = agent.session.start(PromptRequest::new("hello"));
            until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
            let name = format!("{play}, closed: {is_closed}, version {version}");
            let began = Instant::now();
            if is_closed {
                agent.session.close().await;
            } else {
                turn.abort();
            }
            let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
            let time = began.elapsed();
            assert_eq!(
                (code(&outcome).as_str(), text(&outcome).as_str()),
                ("AGENT_ABORTED", "I will not stop"),
                "{name}"
            );
            let least = if has_grace { grace } else { millis(0) };
            assert!(time >= least && time < grace + millis(2_000), "{name}: {time:?}");
            assert_eq!(code(&behind.outcome().await), "SESSION_CLOSED", "{name}");
            let error = agent.session.set_mode("plan".into()).await.unwrap_err();
            // A session that was closed tells no exit.
            let told = error.facts().get("signal").and_then(|signal| signal.as_str());
            assert_eq!(told, (!is_closed).then_some(signal), "{name}");
        }
    }
}

#[tokio::test]
async fn a_process_that_dies_takes_its_session_along_and_says_how() {
    for (play, sign) in [("crash", "exited with 9"), ("killed", "SIGKILL"), ("closes", "")] {
        let agent = opened(request(Provider::Gemini, 1, "")).await;
        let outcome = agent.prompt(play).await;
        assert_eq!(code(&outcome), "AGENT_CRASHED", "{play}");
        let error = outcome.error().cloned().unwrap();
        assert!(error.message().contains(sign), "{error}");
        if play == "crash" {
            assert_eq!(error.facts()["exitCode"], 9);
            assert_eq!(error.facts()["stderr"], "segmentation fault");
            assert_eq!(text(&outcome), "oh");
        }
        assert_eq!(code(&agent.prompt("hello").await), "SESSION_CLOSED");
        agent.session.close().await;
    }
}

#[tokio::test]
async fn a_killed_process_has_crashed_whatever_a_surviving_child_answers() {
    for version in [1, 2] {
        let agent = opened(request(Provider::Qwen, version, "")).await;
        let outcome = agent.prompt("orphan").await;
        assert_eq!(code(&outcome), "AGENT_CRASHED", "{version}");
        assert_eq!(outcome.error().unwrap().facts()["signal"], "SIGKILL");
        assert_eq!(code(&agent.prompt("hello").await), "SESSION_CLOSED");
    }
}

#[tokio::test]
async fn an_agent_that_cancels_by_itself_and_exits_has_not_crashed() {
    let agent = opened(request(Provider::Qwen, 1, "")).await;
    assert_eq!(code(&agent.prompt("leaves").await), "AGENT_ABORTED");
    assert_eq!(code(&agent.prompt("hello").await), "SESSION_CLOSED");
}

#[tokio::test]
async fn close_ends_what_runs_and_can_be_asked_for_again() {
    let agent = opened(request(Provider::ClaudeCode, 2, "")).await;
    let mut events = agent.session.events();
    let turn = agent.session.start(PromptRequest::new("stalltool"));
    until(&mut events, |event| matches!(event, AgentEvent::ToolStart { .. })).await;
    let idle = ground::task::spawn({
        let session = agent.session.clone();
        async move { session.idle().await }
    });
    tokio::join!(agent.session.close(), agent.session.close());
    agent.session.close().await;
    assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED");
    assert!(idle.await.unwrap().is_err());
    assert_eq!(error_code(&agent.session.cancel(Strays::Keep).await.unwrap_err()), "SESSION_CLOSED");
}

#[tokio::test]
async fn a_cancel_with_nothing_under_way_is_done_at_once() {
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    agent.session.cancel(Strays::Keep).await.unwrap();
    agent.session.idle().await.unwrap();
    assert_eq!(text(&agent.prompt("hello").await), "Hello world");
}

#[tokio::test]
async fn dropping_the_last_handle_of_a_turn_aborts_it() {
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let mut events = agent.session.events();
    let turn = agent.session.start(PromptRequest::new("stall"));
    until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
    drop(turn);
    assert_eq!(text(&agent.prompt("hello").await), "Hello world");
}

#[tokio::test]
async fn a_deadline_that_has_passed_starts_nothing() {
    let mut late = request(Provider::Gemini, 1, "");
    late.agent.limits.start = Some(std::time::Duration::ZERO);
    assert_eq!(error_code(&crate::support::try_open(late).await.err().unwrap()), "AGENT_IDLE");
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    let with = |total, idle| PromptRequest { total, idle, ..PromptRequest::new("hello") };
    let passed = Some(Some(std::time::Duration::ZERO));
    assert_eq!(code(&agent.run(with(passed, None)).await), "AGENT_TIMED_OUT");
    assert_eq!(code(&agent.run(with(None, passed)).await), "AGENT_IDLE");
    assert_eq!(text(&agent.prompt("hello").await), "Hello world");
}

#[tokio::test]
async fn what_a_cancelled_turn_left_running_is_told_and_killed_on_demand() {
    for version in [1, 2] {
        let agent = opened(request(Provider::Codex, version, "")).await;
        let mut events = agent.session.events();
        let turn = agent.session.start(PromptRequest::new("leavestool"));
        let waiting = agent.session.start(PromptRequest::new("stall"));
        until(&mut events, |event| matches!(event, AgentEvent::ToolStart { .. })).await;
        // Cancelling does not wait for the next prompt.
        tokio::time::timeout(PATIENCE, agent.session.cancel(Strays::Keep)).await.unwrap().unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED");
        let seen = until(&mut events, |event| matches!(event, AgentEvent::Background { .. })).await;
        let item = &seen.last().unwrap()["items"][0];
        assert_eq!(item["type"], "process");
        assert!(item["command"].as_str().unwrap().starts_with("sleep "), "{item}");
        let pid = item["pid"].as_i64().unwrap();
        let is_alive = || std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(is_alive());
        waiting.abort();
        waiting.outcome().await;
        let again = agent.session.start(PromptRequest::new("leavestool"));
        until(&mut events, |event| matches!(event, AgentEvent::ToolStart { .. })).await;
        agent.session.cancel(Strays::Kill).await.unwrap();
        again.outcome().await;
        assert_eq!(text(&agent.prompt("hello").await), "Hello world");
        // A process that an earlier turn left running does not belong to this turn.
        assert!(is_alive());
        agent.session.cancel(Strays::Kill).await.unwrap();
        agent.session.close().await;
        assert!(!is_alive());
    }
}

#[tokio::test]
async fn a_cancel_of_the_agents_own_turn_does_not_wait_for_the_prompt_behind_it() {
    for version in [1, 2] {
        for play in ["lively", "restless"] {
            let agent = opened(request(Provider::ClaudeCode, version, "")).await;
            let mut events = agent.session.events();
            assert_eq!(code(&agent.prompt(play).await), "ok");
            until(&mut events, |event| matches!(event, AgentEvent::TurnStart { by: "agent", .. })).await;
            let cancelling = agent.session.cancel(Strays::Keep);
            let behind = agent.session.start(PromptRequest::new("stall"));
            tokio::time::timeout(PATIENCE, cancelling).await.unwrap().unwrap();
            if play == "lively" {
                // An agent that obeyed accepts the next prompt.
                assert!(!agent.session.is_over(), "version {version}");
                until(&mut events, |event| matches!(event, AgentEvent::Text { text, .. } if text == "wait"))
                    .await;
                behind.abort();
                assert_eq!(code(&behind.outcome().await), "AGENT_ABORTED", "version {version}");
            } else {
                assert_eq!(code(&behind.outcome().await), "SESSION_CLOSED", "version {version}");
            }
        }
    }
}

#[tokio::test]
async fn a_version_1_agent_that_falls_silent_has_obeyed_whatever_the_settle_time() {
    let mut open = request(Provider::ClaudeCode, 1, "");
    open.settle = millis(5_000);
    open.agent.kill_grace = millis(1_000);
    let agent = opened(open).await;
    let mut events = agent.session.events();
    assert_eq!(code(&agent.prompt("lively").await), "ok");
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { by: "agent", .. })).await;
    tokio::time::timeout(PATIENCE, agent.session.cancel(Strays::Keep)).await.unwrap().unwrap();
    assert!(!agent.session.is_over());
}

#[tokio::test]
async fn silence_is_not_counted_while_a_tool_of_the_hosts_own_runs_but_the_whole_time_is() {
    let mut open = request(Provider::Gemini, 1, "");
    open.agent.limits.idle = Some(millis(300));
    open.agent.limits.tool_idle = Some(millis(300));
    let agent = opened(open).await;
    let mut events = agent.session.events();
    let turn = agent
        .session
        .start(PromptRequest { total: Some(Some(millis(1_500))), ..PromptRequest::new("stall") });
    until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
    agent.session.own_tool(true);
    assert_eq!(code(&turn.outcome().await), "AGENT_TIMED_OUT");
    let turn = agent.session.start(PromptRequest::new("stall"));
    until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
    agent.session.own_tool(false);
    assert_eq!(code(&turn.outcome().await), "AGENT_IDLE");
}

#[tokio::test]
async fn the_host_is_told_to_end_its_tools_whatever_stops_the_turn() {
    let stopped = async |total: Option<u64>, abort: bool| {
        let mut agent = opened(request(Provider::Gemini, 1, "")).await;
        let mut events = agent.session.events();
        let total = total.map(|total| Some(millis(total)));
        let turn = agent.session.start(PromptRequest { total, ..PromptRequest::new("stall") });
        until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
        if abort {
            turn.abort();
        }
        let said = tokio::time::timeout(PATIENCE, agent.host.recv()).await.unwrap();
        assert_eq!(said, Some(HostRequest::Stopped));
        code(&turn.outcome().await)
    };
    assert_eq!(stopped(None, true).await, "AGENT_ABORTED");
    assert_eq!(stopped(Some(300), false).await, "AGENT_TIMED_OUT");
}
