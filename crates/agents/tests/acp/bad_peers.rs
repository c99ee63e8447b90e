use crate::support::{code, error_code, millis, opened, request, text, try_open, until};
use agents::acp::PromptRequest;
use agents::harness::{AgentEvent, Provider};
use process::Strays;

#[tokio::test]
async fn whatever_goes_wrong_at_the_start_has_one_bounded_end() {
    let cases = [
        ("initialize-silent", "AGENT_IDLE"),
        ("initialize-exit", "AGENT_CRASHED"),
        ("initialize-version", "PROTOCOL_MISMATCH"),
        ("initialize-closed", "AGENT_CRASHED"),
        ("new-silent", "AGENT_IDLE"),
        ("new-exit", "AGENT_CRASHED"),
        ("new-auth", "AGENT_FAILED auth"),
        ("new-nothing", "AGENT_FAILED unknown"),
        ("new-null", "AGENT_FAILED unknown"),
        ("mode-refused", "INVALID_OPTION"),
    ];
    let attempts = cases.map(|(fault, expected)| {
        ground::task::spawn(async move {
            let mut open = request(Provider::Gemini, 1, fault);
            open.agent.limits.start = Some(millis(if expected == "AGENT_IDLE" { 1500 } else { 20_000 }));
            let error = try_open(open).await.err().unwrap_or_else(|| panic!("{fault} was opened"));
            assert_eq!(error_code(&error), expected, "{fault}: {error}");
            if fault == "initialize-exit" {
                assert_eq!(error.facts()["exitCode"], 3);
                assert!(error.message().contains("cannot find my configuration"), "{error}");
            }
        })
    });
    for attempt in attempts {
        attempt.await.unwrap();
    }
}

#[tokio::test]
async fn what_is_only_odd_is_borne() {
    for fault in ["initialize-garbage", "new-twice"] {
        let mut open = request(Provider::Copilot, 1, fault);
        open.agent.provider = Provider::Gemini;
        open.agent.level = agents::acp::Level::Ask;
        let agent = opened(open).await;
        assert_eq!(text(&agent.prompt("hello").await), "Hello world", "{fault}");
    }
}

#[tokio::test]
async fn a_prompt_settles_once_whatever_the_agent_does() {
    for (fault, prompt, expected) in [
        ("prompt-exit", "hello", "AGENT_CRASHED"),
        ("prompt-never", "hello", "AGENT_IDLE"),
        ("", "longline 8", "ok"),
        // The line is longer than the limit: the stream can't be read any further.
        ("", "longline 70", "AGENT_CRASHED"),
        ("", "twice", "ok"),
    ] {
        let mut open = request(Provider::Gemini, 1, fault);
        open.agent.limits.idle = Some(millis(if fault == "prompt-never" { 200 } else { 20_000 }));
        let agent = opened(open).await;
        assert_eq!(code(&agent.prompt(prompt).await), expected, "{fault} {prompt}");
        agent.session.close().await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_what_installs_it() {
    let mut open = request(Provider::ClaudeCode, 1, "");
    open.agent.binary = None;
    open.agent.environment.changes.push(("PATH".into(), Some("/nonexistent".into())));
    open.agent.cwd = Some("/tmp".into());
    let error = try_open(open).await.err().unwrap();
    assert_eq!(error_code(&error), "AGENT_NOT_FOUND");
    assert!(error.message().contains("npm install -g @agentclientprotocol/claude-agent-acp@"), "{error}");
    let mut open = request(Provider::ClaudeCode, 1, "");
    open.agent.binary = Some(vec!["/nonexistent/agent".into()]);
    assert_eq!(error_code(&try_open(open).await.err().unwrap()), "AGENT_NOT_FOUND");
}

/// A fault of the agent, and the error code that the caller gets.
type Row = (&'static str, &'static str);

/// Runs the rows in groups of four, because each is a Node process. A row that is expected to stay silent gets a short timeout.
async fn attempt<F: Future<Output = String> + Send + 'static>(
    rows: &[Row],
    what: impl Fn(&'static str, bool) -> F,
) {
    for few in rows.chunks(4) {
        let started: Vec<_> = few
            .iter()
            .map(|(fault, expected)| {
                (fault, expected, ground::task::spawn(what(fault, expected.starts_with("AGENT_IDLE"))))
            })
            .collect();
        for (fault, expected, attempt) in started {
            assert_eq!(attempt.await.unwrap(), *expected, "{fault}");
        }
    }
}

#[tokio::test]
async fn an_opening_settles_once_whatever_befalls_its_requests() {
    let rows = [
        ("silent of initialize", "AGENT_IDLE"),
        ("exit of initialize", "AGENT_CRASHED"),
        ("error of initialize", "AGENT_FAILED unknown"),
        ("odd error of initialize", "AGENT_FAILED unknown"),
        ("null of initialize", "PROTOCOL_MISMATCH"),
        ("number of initialize", "PROTOCOL_MISMATCH"),
        ("other id of initialize", "AGENT_IDLE"),
        ("neither of initialize", "PROTOCOL_MISMATCH"),
        ("half of initialize", "AGENT_CRASHED"),
        ("100 MB of initialize", "AGENT_CRASHED"),
        ("silent of session/new", "AGENT_IDLE"),
        ("exit of session/new", "AGENT_CRASHED"),
        ("error of session/new", "AGENT_FAILED unknown"),
        ("number of session/new", "AGENT_FAILED unknown"),
        ("other id of session/new", "AGENT_IDLE"),
        ("half of session/new", "AGENT_CRASHED"),
        ("silent of session/load", "AGENT_IDLE"),
        ("exit of session/load", "AGENT_CRASHED"),
        ("error of session/load", "AGENT_RESUME_FAILED"),
        ("half of session/load", "AGENT_CRASHED"),
        ("silent of session/set_mode", "AGENT_IDLE"),
        ("exit of session/set_mode", "AGENT_CRASHED"),
        ("error of session/set_mode", "INVALID_OPTION"),
        ("null of session/set_mode", "ok"),
        ("silent of session/set_config_option", "AGENT_IDLE"),
        ("exit of session/set_config_option", "AGENT_CRASHED"),
        ("error of session/set_config_option", "AGENT_FAILED unknown"),
    ];
    attempt(&rows, |fault, is_silent| async move {
        // An agent whose mode is set by a request, and whose model by an option.
        let mut open = request(Provider::Opencode, 1, fault);
        open.agent.model = Some("large".into());
        if fault.ends_with("session/load") {
            open.agent.resume = Some("session-1".into());
        }
        open.agent.limits.start = Some(millis(if is_silent { 1500 } else { 25_000 }));
        match try_open(open).await {
            Ok(agent) => code(&agent.prompt("hello").await),
            Err(error) => error_code(&error),
        }
    })
    .await;
}

#[tokio::test]
async fn a_prompt_settles_once_whatever_befalls_it() {
    for version in [1, 2] {
        // In version 2 the answer means only that the prompt was accepted.
        let unsaid = if version == 1 { "AGENT_TRUNCATED" } else { "AGENT_IDLE" };
        let rows = [
            ("silent of session/prompt", "AGENT_IDLE"),
            ("exit of session/prompt", "AGENT_CRASHED"),
            ("error of session/prompt", "AGENT_FAILED unknown"),
            ("odd error of session/prompt", "AGENT_FAILED unknown"),
            ("null of session/prompt", unsaid),
            ("number of session/prompt", unsaid),
            ("neither of session/prompt", unsaid),
            ("other id of session/prompt", "AGENT_IDLE"),
            ("half of session/prompt", "AGENT_CRASHED"),
            ("100 MB of session/prompt", "AGENT_CRASHED"),
        ];
        attempt(&rows, move |fault, is_silent| async move {
            let mut open = request(Provider::ClaudeCode, version, fault);
            open.agent.limits.idle = Some(millis(if is_silent { 300 } else { 25_000 }));
            let agent = opened(open).await;
            let mut events = agent.session.events();
            let outcome = agent.prompt("hello").await;
            let again = agent.session.start(PromptRequest::new("hello"));
            agent.session.close().await;
            again.outcome().await;
            let mut ends = 0;
            while let Some(some) = events.next().await {
                ends += some.iter().filter(|event| matches!(event, AgentEvent::End { .. })).count();
            }
            assert!(ends <= 2, "{fault}: {ends} ends of two prompts");
            code(&outcome)
        })
        .await;
    }
}

#[tokio::test]
async fn what_an_agent_does_in_a_turn_settles_it_once() {
    let nobody = "cancelled cancelled cancelled cancelled cancelled cancelled";
    for version in [1, 2] {
        for (play, expected, words, after) in [
            ("oddquestions", "ok", nobody, "ok"),
            ("noise", "AGENT_IDLE", "", "SESSION_CLOSED"),
            ("others", "AGENT_TIMED_OUT", "", "SESSION_CLOSED"),
            ("diesafter", "ok", "bye", "SESSION_CLOSED"),
            ("diesasking", "AGENT_CRASHED", "", "SESSION_CLOSED"),
            // Version 1 agents send last words behind the answer, so those belong to it.
            ("twoends", "ok", if version == 1 { "first\n\nsecond" } else { "first" }, "ok"),
            ("rubbish", "ok", "-32601 -32601 -32601", "ok"),
        ] {
            let mut open = request(Provider::ClaudeCode, version, "");
            if expected != "ok" {
                open.agent.limits.idle = Some(millis(if play == "noise" { 400 } else { 20_000 }));
                open.agent.limits.total = Some(millis(if play == "others" { 1500 } else { 25_000 }));
            }
            let agent = opened(open).await;
            let outcome = agent.prompt(play).await;
            assert_eq!(
                (code(&outcome).as_str(), text(&outcome).as_str()),
                (expected, words),
                "{version} {play}"
            );
            if play == "diesafter" {
                // Wait until the session has noticed that the agent is gone.
                while !agent.session.is_over() {
                    tokio::time::sleep(millis(10)).await;
                }
            }
            assert_eq!(code(&agent.prompt("hello").await), after, "after {version} {play}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_is_gone_when_it_is_asked_to_stop_has_stopped() {
    for version in [1, 2] {
        let agent = opened(request(Provider::ClaudeCode, version, "")).await;
        let mut events = agent.session.events();
        let turn = agent.session.start(PromptRequest::new("diesofcancel"));
        until(&mut events, |event| matches!(event, AgentEvent::Text { .. })).await;
        agent.session.cancel(Strays::Kill).await.unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED");
        assert_eq!(code(&agent.prompt("hello").await), "SESSION_CLOSED");
    }
}
