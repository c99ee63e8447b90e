use super::*;
use crate::recordings::stdout_of;

fn message(id: &str, content: Value) -> Value {
    json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null,
        "message": {"id": id, "role": "assistant", "model": "m", "content": content, "usage": {"input_tokens": 5, "output_tokens": 1}}})
}

fn result(text: &str, tokens: u64, cost: f64) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": text, "session_id": "s",
        "total_cost_usd": cost, "usage": {"input_tokens": tokens, "output_tokens": 1, "cache_read_input_tokens": 0}})
}

fn delta(delta: &Value) -> Value {
    json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
        "event": {"type": "content_block_delta", "index": 0, "delta": delta}})
}

#[test]
fn several_results_are_summed_and_the_money_that_counts_on_is_not() {
    let replay = read(
        Provider::ClaudeCode,
        &[
            message("a", json!([{"type": "text", "text": "It runs."}])),
            result("It runs.", 100, 0.5),
            json!({"type": "system", "subtype": "task_notification", "session_id": "s"}),
            message("b", json!([{"type": "text", "text": "It is done."}])),
            result("It is done.", 40, 0.75),
        ],
    );
    assert_eq!(replay.result.text, "It is done.");
    assert_eq!(replay.result.turns, 2);
    let usage = replay.result.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cost_usd), (140, 2, Some(0.75)));
    assert_eq!(events(&replay, "end").len(), 1);
}

#[test]
fn thinking_comes_in_pieces_or_whole_never_both() {
    let start = json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
        "event": {"type": "message_start", "message": {"id": "a"}}});
    let thought = json!([{"type": "thinking", "thinking": "hm hm", "signature": "x"}]);
    let replay = read(
        Provider::ClaudeCode,
        &[
            start,
            delta(&json!({"type": "thinking_delta", "thinking": "hm "})),
            delta(&json!({"type": "thinking_delta", "thinking": "hm"})),
            message("a", thought.clone()),
            delta(&json!({"type": "text_delta", "text": "Yes."})),
            message("a", json!([{"type": "text", "text": "Yes."}])),
            result("Yes.", 5, 0.1),
        ],
    );
    let texts: Vec<_> = events(&replay, "reasoning").into_iter().map(|event| event["text"].clone()).collect();
    assert_eq!(texts, ["hm ", "hm"]);
    assert_eq!(events(&replay, "text").len(), 1);
    assert_eq!(events(&read(Provider::ClaudeCode, &[message("a", thought)]), "reasoning").len(), 1);
}

#[test]
fn a_tool_of_the_service_itself_is_a_tool() {
    let content = json!([
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sheep"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {"query": "dogs"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_2",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
        {"type": "text", "text": "Found."}
    ]);
    let replay = read(Provider::ClaudeCode, &[message("a", content), result("Found.", 5, 0.1)]);
    assert_eq!(replay.result.tool_calls, 2);
    let ends = events(&replay, "tool_end");
    assert_eq!(ends[0], json!({"type": "tool_end", "id": "srv_1", "name": "web_search", "isError": false}));
    assert_eq!(ends[1]["isError"], true);
    assert_eq!(replay.result.text, "Found.");
}

#[test]
fn a_sub_agent_works_but_does_not_answer() {
    let sub = |kind: &str, content: Value| json!({"type": kind, "session_id": "s", "parent_tool_use_id": "t1", "message": {"id": "x", "content": content}});
    let replay = read(
        Provider::ClaudeCode,
        &[
            message("a", json!([{"type": "tool_use", "id": "t1", "name": "Task", "input": {}}])),
            sub("user", json!([{"type": "text", "text": "look"}])),
            sub(
                "assistant",
                json!([{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]),
            ),
            sub("user", json!([{"type": "tool_result", "tool_use_id": "t2", "content": "file"}])),
            json!({"type": "user", "session_id": "s", "parent_tool_use_id": null,
                "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "seen"}]}]}}),
            json!({"type": "rate_limit_event", "session_id": "s", "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour"}}),
        ],
    );
    assert_eq!((replay.result.text.as_str(), replay.result.turns, replay.result.tool_calls), ("", 1, 2));
    assert_eq!(replay.result.warnings, ["the limit of the subscription is reached (five_hour)"]);
    assert_eq!(events(&replay, "tool_end").len(), 2);
    assert_eq!(replay.fault.unwrap().error.code().as_str(), "AGENT_TRUNCATED");
}

#[test]
fn a_turn_is_over_when_what_it_left_running_is_done_and_the_agent_has_answered_again() {
    let recorded = stdout_of(Provider::ClaudeCode, "background");
    let mut transcript = Transcript::new(Provider::ClaudeCode, false, None);
    let mut settled = Vec::new();
    for line in recorded.lines() {
        transcript.feed(format!("{line}\n").as_bytes());
        let line: Value = ground::json::read_own(line).unwrap();
        let digest = &transcript.digest;
        match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("result"), _) | (_, Some("task_notification")) => {
                settled.push((digest.end.terminal.is_some(), digest.end.is_settled()));
            }
            _ => {}
        }
    }
    // The first result, the end of the command, the second result.
    assert_eq!(settled, [(true, false), (true, false), (true, true)]);
    assert_eq!(transcript.digest.final_text(), "The fake model says hello.");
}

#[test]
fn a_hook_that_blocks_the_prompt_is_no_answer() {
    let blocked = json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 0, "session_id": "s",
        "result": "UserPromptSubmit operation blocked by hook:\nnot today", "total_cost_usd": 0.0,
        "usage": {"input_tokens": 0, "output_tokens": 0}});
    let replay = read(Provider::ClaudeCode, &[blocked]);
    let fault = replay.fault.unwrap();
    assert_eq!(fault.kind().map(|kind| kind.as_str()), Some("permission"));
    assert!(fault.error.message().contains("not today"), "{}", fault.error.message());
    // An answer that quotes one has cost tokens.
    let quoted = read(
        Provider::ClaudeCode,
        &[
            message("a", json!([{"type": "text", "text": "It said: operation blocked by hook"}])),
            result("It said: operation blocked by hook", 5, 0.1),
        ],
    );
    assert_eq!(quoted.fault, None);
}

#[test]
fn an_answer_without_a_model_is_told() {
    let own = |asked_ms: u64, tokens: u64| {
        json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 0, "session_id": "s",
            "duration_api_ms": asked_ms, "result": "/help isn't available", "total_cost_usd": 0.0,
            "usage": {"input_tokens": tokens, "output_tokens": 0}})
    };
    for provider in [Provider::ClaudeCode, Provider::Qwen] {
        let replay = read(provider, &[own(0, 0)]);
        assert_eq!(replay.result.warnings, ["no model took part in this turn: the answer is the CLI's own"]);
        for asked in [own(12, 0), own(0, 5), result("hi", 5, 0.1)] {
            assert!(read(provider, &[asked]).result.warnings.is_empty(), "{provider:?}");
        }
    }
}

#[test]
fn a_refusal_of_the_model_is_told_and_what_another_model_says_stands_in_its_place() {
    let refused =
        json!({"type": "system", "subtype": "model_refusal_fallback", "session_id": "s", "content": ""});
    let replay = read(
        Provider::ClaudeCode,
        &[
            json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
                "event": {"type": "message_start", "message": {"id": "a"}}}),
            delta(&json!({"type": "text_delta", "text": "Half an "})),
            refused,
            message("b", json!([{"type": "text", "text": "Whole."}])),
            result("Whole.", 5, 0.1),
        ],
    );
    assert_eq!(replay.result.text, "Whole.");
    assert_eq!(replay.result.warnings, ["the model refused to answer"]);
}
