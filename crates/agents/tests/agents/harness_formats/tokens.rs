use super::*;
use crate::recordings::stdout_of;
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

/// Recordings of the real CLIs. Their model told 1,500 tokens of input, of which 500 were read from a cache and 300 written to it,
/// and 34 of output, of which 5 were thought. Each CLI tells the figures that are named here, all of them above zero.
#[test]
fn the_parts_of_recorded_figures_add_up_to_their_total() {
    let beside = "cached tokens stand beside the input";
    let within = "they are part of it";
    for (provider, cached, names) in [
        (
            Provider::ClaudeCode,
            beside,
            "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens thinking_tokens",
        ),
        (
            Provider::Codex,
            within,
            "input_tokens cached_input_tokens cache_write_input_tokens output_tokens reasoning_output_tokens",
        ),
        (Provider::Gemini, within, "total_tokens input_tokens output_tokens cached input"),
        (Provider::Opencode, beside, "total input output reasoning write read"),
        (Provider::Pi, beside, "input output cacheRead cacheWrite totalTokens"),
        (Provider::Qwen, within, "input_tokens output_tokens cache_read_input_tokens total_tokens"),
    ] {
        let text = stdout_of(provider, "tokens");
        for name in names.split(' ') {
            let field = format!("\"{name}\":");
            let mut told = text.split(&field).skip(1).filter_map(|rest| rest.bytes().next());
            assert!(told.any(|digit| digit.is_ascii_digit() && digit != b'0'), "{provider:?} {name}");
        }
        let lines: Vec<Value> = text.lines().map(|line| ground::json::read_own(line).unwrap()).collect();
        let [input, output, read] = used(provider, &lines);
        assert_eq!((output, read > 0), (34, true), "{provider:?}");
        let total = input + output + if cached == beside { read } else { 0 };
        assert_eq!(total, 1534, "{provider:?}: {cached}");
    }
}
