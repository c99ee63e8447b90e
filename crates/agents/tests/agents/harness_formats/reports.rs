//! Public reports about how other tools read agents, tried here.

use super::*;

fn message(id: &str, content: Value) -> Value {
    json!({"type": "assistant", "session_id": "s", "message": {"id": id, "model": "m", "content": content,
        "usage": {"input_tokens": 5, "output_tokens": 1}}})
}

/// A run that printed nothing but this on stderr.
fn silent(provider: Provider, stderr: &str, code: i32) -> String {
    let replay = replay(provider, &Recording { stdout: b"", stderr, ending: Ending::Exited(code) });
    let fault = replay.fault.unwrap();
    let kind = fault.kind().map(|kind| kind.as_str()).unwrap_or_default();
    format!("{} {kind}: {}", fault.error.code().as_str(), fault.error.message())
}

#[test]
fn an_empty_result_behind_a_tool_keeps_the_words_that_were_said() {
    let replay = read(
        Provider::ClaudeCode,
        &[
            message("a", json!([{"type": "text", "text": "The whole report."}])),
            message("b", json!([{"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {}}])),
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "Todos have been modified"}]}}),
            json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 2, "result": "",
                "session_id": "s", "usage": {"input_tokens": 5, "output_tokens": 1}}),
        ],
    );
    assert!(replay.fault.is_none());
    assert_eq!(replay.result.text, "The whole report.");
}

#[test]
fn a_failure_that_only_stderr_tells_has_its_kind() {
    let auth = "Please set an Auth method in your /root/.gemini/settings.json or specify one of the following environment variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI\n";
    for code in [41, 52] {
        let told = silent(Provider::Gemini, auth, code);
        assert!(told.starts_with("AGENT_FAILED auth: Please set an Auth method"), "{told}");
    }
    let told = silent(
        Provider::Gemini,
        "Error when talking to Gemini API Full report available at: /tmp/x.json\n",
        0,
    );
    assert!(
        told.starts_with("AGENT_TRUNCATED") && told.contains("Error when talking to Gemini API"),
        "{told}"
    );
    assert!(silent(Provider::Gemini, "", 0).starts_with("AGENT_TRUNCATED"));
}

#[test]
fn parts_of_tokens_are_counted_once() {
    let codex =
        |usage: Value| {
            read(Provider::Codex, &[json!({"type": "thread.started", "thread_id": "t"}),
        json!({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Hi"}}),
        json!({"type": "turn.completed", "usage": usage})]).result.facts.usage.unwrap()
        };
    let usage = codex(
        json!({"input_tokens": 21294, "cached_input_tokens": 6912, "cache_write_input_tokens": 702, "output_tokens": 251, "reasoning_output_tokens": 53}),
    );
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (21294, 6912, 251));
    let part = |part: Value| json!({"type": "step_finish", "sessionID": "s", "part": part});
    let opencode = read(
        Provider::Opencode,
        &[
            json!({"type": "text", "sessionID": "s", "part": {"text": "Hi", "messageID": "m"}}),
            part(
                json!({"reason": "stop", "tokens": {"total": 17240, "input": 1, "output": 26, "reasoning": 0, "cache": {"write": 17213, "read": 0}}}),
            ),
        ],
    );
    let usage = opencode.result.facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (17214, 26));
}

#[test]
fn a_stream_that_ends_behind_its_first_line_is_no_success() {
    for (provider, first) in [
        (Provider::ClaudeCode, json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})),
        (Provider::Codex, json!({"type": "thread.started", "thread_id": "t"})),
        (Provider::Gemini, json!({"type": "init", "session_id": "s", "model": "m"})),
        (Provider::Opencode, json!({"type": "step_start", "sessionID": "s", "part": {}})),
    ] {
        assert_eq!(
            read(provider, &[first]).fault.unwrap().error.code().as_str(),
            "AGENT_TRUNCATED",
            "{provider:?}"
        );
    }
}

#[test]
fn an_error_in_a_list_of_a_result_is_the_reason() {
    let failed = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s",
        "errors": ["ENOENT: no such file", "socket hang up"], "num_turns": 1});
    let fault = read(Provider::ClaudeCode, &[failed]).fault.unwrap();
    assert_eq!(fault.error.message(), "ENOENT: no such file; socket hang up");
}

#[test]
fn a_character_in_two_pieces_is_whole() {
    let (first, second) = (r#""a \ud83d""#, r#""\ude00 b""#);
    let claude = |text: &str| {
        format!(
            r#"{{"type":"stream_event","session_id":"s","event":{{"type":"content_block_delta","delta":{{"type":"text_delta","text":{text}}}}}}}"#
        )
    };
    let gemini =
        |text: &str| format!(r#"{{"type":"message","role":"assistant","content":{text},"delta":true}}"#);
    let lines = [
        (Provider::ClaudeCode, [claude(first), claude(second)]),
        (Provider::Gemini, [gemini(first), gemini(second)]),
    ];
    for (provider, lines) in lines {
        let stdout = lines.join("\n");
        let replay =
            replay(provider, &Recording { stdout: stdout.as_bytes(), stderr: "", ending: Ending::Exited(0) });
        assert_eq!(replay.result.text, "a 😀 b", "{provider:?}");
        let told: String =
            events(&replay, "text").iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told, "a 😀 b", "{provider:?}");
    }
}
