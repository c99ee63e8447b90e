use crate::support::{code, error_code, millis, opened, request, text, try_open};
use sheepdog::harness::Provider;

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
        tokio::spawn(async move {
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
        open.agent.level = sheepdog::acp::Level::Ask;
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
        // More than a line may have: the stream can't be read any further.
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
