use super::*;
use agents::harness::Usage;

fn used(provider: Provider, lines: &[Value]) -> [u64; 3] {
    let Usage { input_tokens, output_tokens, cached_input_tokens, .. } =
        read(provider, lines).result.usage.unwrap();
    [input_tokens, output_tokens, cached_input_tokens]
}

/// Tokens that are paid for count, with every figure above zero: written tokens are input, thought ones output.
#[test]
fn written_and_thought_tokens_count_in_every_cli() {
    let claude = json!({"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s",
        "usage":{"input_tokens":4,"cache_creation_input_tokens":30000,"cache_read_input_tokens":7,"output_tokens":34}});
    let qwen = json!({"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s",
        "usage":{"input_tokens":1200,"output_tokens":34,"cache_read_input_tokens":200,"total_tokens":1234}});
    let codex = json!({"type":"turn.completed","usage":{"input_tokens":1200,"cached_input_tokens":200,
        "cache_write_input_tokens":300,"output_tokens":34,"reasoning_output_tokens":5}});
    let gemini = json!({"type":"result","status":"success","stats":{"total_tokens":1239,"input_tokens":1200,
        "output_tokens":34,"cached":200,"input":1000}});
    let tokens =
        json!({"total":31234,"input":1000,"output":29,"reasoning":5,"cache":{"read":200,"write":30000}});
    let opencode = json!({"type":"step_finish","sessionID":"s","part":{"type":"step-finish","reason":"stop","tokens":tokens}});
    let old = json!({"input":4,"output":34,"reasoning":0,"cache":{"read":0,"write":30000}});
    let old = json!({"type":"step_finish","sessionID":"s","part":{"type":"step-finish","reason":"stop","tokens":old}});
    let pi = json!({"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"x"}],"stopReason":"stop",
        "usage":{"input":4,"output":34,"cacheRead":7,"cacheWrite":30000,"totalTokens":30045}}});
    let copilot = json!({"type":"assistant.usage","data":{"inputTokens":4,"outputTokens":34,"cacheReadTokens":1,
        "cacheWriteTokens":30000,"reasoningTokens":5}});
    for (provider, line, expected) in [
        (Provider::ClaudeCode, claude, [30_004, 34, 7]),
        (Provider::Qwen, qwen, [1200, 34, 200]),
        (Provider::Codex, codex, [1200, 34, 200]),
        (Provider::Gemini, gemini, [1200, 39, 200]),
        (Provider::Opencode, opencode, [31_000, 34, 200]),
        (Provider::Opencode, old, [30_004, 34, 0]),
        (Provider::Pi, pi, [30_004, 34, 7]),
        (Provider::Copilot, copilot, [30_004, 39, 1]),
    ] {
        assert_eq!(used(provider, &[line]), expected, "{provider:?}");
    }
}
