//! The error texts of CLIs, and their classification.

use super::*;

fn kind(provider: Provider, words: &str) -> String {
    let line = match provider {
        Provider::Codex => json!({"type": "turn.failed", "error": {"message": words}}),
        Provider::Gemini => {
            json!({"type": "result", "status": "error", "error": {"type": "Error", "message": words}})
        }
        Provider::Copilot => {
            let failed = json!({"type": "session.error", "data": {"errorType": "query", "message": words}});
            return kind_of(&read(provider, &[failed, json!({"type": "result", "exitCode": 1})]));
        }
        Provider::Pi => {
            let message =
                json!({"role": "assistant", "content": [], "stopReason": "error", "errorMessage": words});
            let failed = json!({"type": "message_end", "message": message});
            return kind_of(&read(provider, &[failed, json!({"type": "agent_end"})]));
        }
        _ => {
            json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "error": {"message": words}})
        }
    };
    kind_of(&read(provider, &[line]))
}

fn kind_of(replay: &Replay) -> String {
    let fault = replay.fault.as_ref().unwrap();
    fault.kind().map(|kind| kind.as_str().to_owned()).unwrap_or_default()
}

#[test]
fn each_cli_s_own_words_tell_the_kind() {
    let cases = [
        (Provider::ClaudeCode, "You've hit your 5-hour limit \u{b7} resets 7pm (Europe/Berlin)", "quota"),
        (Provider::ClaudeCode, "error_max_turns", "max_turns"),
        (
            Provider::ClaudeCode,
            "API Error: 400 output_config.format: JSON schema is invalid",
            "invalid_request",
        ),
        (Provider::Codex, "You've hit your usage limit. Try again at 7:00 PM.", "quota"),
        (
            Provider::Gemini,
            "You have exhausted your daily quota on this model. Use /auth method to change",
            "quota",
        ),
        (Provider::Gemini, "429: Please retry in 32.5s", "rate_limit"),
        (
            Provider::Pi,
            "429 You exceeded your current quota, please check your plan and billing details",
            "quota",
        ),
        (
            Provider::Copilot,
            "429 You exceeded your current quota, please check your plan and billing details",
            "quota",
        ),
        (Provider::Qwen, "Context is too large", "context_length"),
        // An answer that was truncated at the model's limit.
        (
            Provider::ClaudeCode,
            "API Error: Claude's response exceeded the 128000 output token maximum. To configure this behavior, set ...",
            "context_length",
        ),
        (Provider::Codex, "Incomplete response returned, reason: max_output_tokens", "context_length"),
    ];
    for (provider, words, expected) in cases {
        assert_eq!(kind(provider, words), expected, "{}: {words}", provider.as_str());
    }
}

#[test]
fn an_answer_that_quotes_an_error_is_an_answer() {
    let words = "The last line of the log is: [API Error: 500 boom]";
    let usage = json!({"input_tokens": 1200, "output_tokens": 34});
    let replay = read(
        Provider::Qwen,
        &[
            json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": words}], "usage": usage}}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": words, "usage": usage}),
        ],
    );
    assert!(replay.fault.is_none(), "{:?}", replay.fault);
    assert_eq!(replay.result.text, words);
}

#[test]
fn an_end_that_is_not_whole_ends_nothing() {
    let code = |provider, line: Value| {
        read(provider, &[line]).fault.map(|fault| fault.error.code().as_str().to_owned())
    };
    let truncated = Some("AGENT_TRUNCATED".to_owned());
    for provider in [Provider::ClaudeCode, Provider::Qwen] {
        for line in [
            json!({"type": "result"}),
            json!({"type": "result", "subtype": "success", "is_error": "no", "result": "x"}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "x", "parent_tool_use_id": "t"}),
        ] {
            assert_eq!(code(provider, line.clone()), truncated, "{}: {line}", provider.as_str());
        }
    }
    assert_eq!(code(Provider::Copilot, json!({"type": "result", "sessionId": "s"})), truncated);
    let failed = json!({"type": "session.error", "data": {"errorType": "query", "message": "boom"}});
    let replay = read(Provider::Copilot, &[failed, json!({"type": "result", "exitCode": 0})]);
    assert_eq!(replay.fault.unwrap().error.code().as_str(), "AGENT_FAILED");
}

#[test]
fn a_compaction_of_opencode_is_not_the_end() {
    let part = |kind: &str, part: Value| json!({"type": kind, "sessionID": "s", "part": part});
    let summary = [
        part("step_start", json!({})),
        part("text", json!({"text": "A summary.", "messageID": "1"})),
        part("step_finish", json!({"reason": "stop"})),
        part("text", json!({"text": "Continue if you have next steps", "synthetic": true, "messageID": "2"})),
    ];
    assert_eq!(read(Provider::Opencode, &summary).fault.unwrap().error.code().as_str(), "AGENT_TRUNCATED");
    let mut whole = summary.to_vec();
    whole.extend([
        part("step_start", json!({})),
        part("text", json!({"text": "The answer.", "messageID": "3"})),
        part("step_finish", json!({"reason": "stop"})),
    ]);
    let replay = read(Provider::Opencode, &whole);
    assert!(replay.fault.is_none());
    assert_eq!(replay.result.text, "The answer.");
}
