use super::*;

fn item(state: &str, item: &Value) -> Value {
    json!({ "type": format!("item.{state}"), "item": item })
}

#[test]
fn each_kind_of_tool_has_a_name_an_input_and_an_output() {
    let call = |status: &str, result: Value, error: Value| {
        json!({ "id": "item_1", "type": "mcp_tool_call", "server": "docs", "tool": "find", "arguments": {"q": 1},
            "status": status, "result": result, "error": error })
    };
    let found = json!({ "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "structured_content": null });
    let replay = read(
        Provider::Codex,
        &[
            item("started", &call("in_progress", Value::Null, Value::Null)),
            item("completed", &call("completed", found, Value::Null)),
            item(
                "completed",
                &json!({"id": "item_2", "type": "mcp_tool_call", "server": "docs", "tool": "find", "arguments": null,
                    "status": "failed", "result": null, "error": {"message": "no such server"}}),
            ),
            item(
                "completed",
                &json!({"id": "item_3", "type": "file_change", "changes": [{"path": "a.txt", "kind": "add"}], "status": "completed"}),
            ),
            item(
                "completed",
                &json!({"id": "item_4", "type": "web_search", "query": "sheep", "action": {"type": "search", "query": "sheep"}}),
            ),
            item(
                "completed",
                &json!({"id": "item_5", "type": "collab_tool_call", "tool": "spawn_agent", "sender_thread_id": "t",
                    "receiver_thread_ids": ["u"], "prompt": "look", "agents_states": {}, "status": "completed"}),
            ),
            item(
                "started",
                &json!({"id": "item_6", "type": "todo_list", "items": [{"text": "a", "completed": false}]}),
            ),
            item("completed", &json!({"id": "item_7", "type": "agent_message", "text": "done"})),
            json!({"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}),
        ],
    );
    let starts: Vec<_> = events(&replay, "tool_start");
    let names: Vec<_> = starts.iter().map(|start| start["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["docs.find", "docs.find", "file_change", "web_search", "spawn_agent"]);
    assert_eq!(starts[0]["input"], json!({"q": 1}));
    assert_eq!(starts[2]["input"], json!({"changes": [{"path": "a.txt", "kind": "add"}]}));
    assert_eq!(starts[3]["input"]["query"], "sheep");
    assert_eq!(starts[4]["input"], json!({"prompt": "look", "receiver_thread_ids": ["u"]}));
    let ends = events(&replay, "tool_end");
    assert_eq!(ends[0]["output"], "onetwo");
    assert_eq!((&ends[1]["output"], &ends[1]["isError"]), (&json!("no such server"), &json!(true)));
    assert_eq!(replay.result.tool_calls, 5);
    assert!(replay.fault.is_none() && replay.result.text == "done");
}

#[test]
fn an_error_is_told_at_a_length_that_can_be_read() {
    let words = format!("unexpected status 401 {}", "x".repeat(5 << 20));
    let fault =
        read(Provider::Codex, &[json!({"type": "turn.failed", "error": {"message": words}})]).fault.unwrap();
    assert!(fault.error.message().len() < 300_000 && fault.error.message().ends_with("bytes left out ...]"));
    assert_eq!(fault.kind().unwrap().as_str(), "auth");
}

#[test]
fn the_words_of_earlier_versions_are_understood() {
    let replay = read(
        Provider::Codex,
        &[
            json!({"type": "session.created", "session_id": "s-1"}),
            item("completed", &json!({"id": "item_0", "item_type": "assistant_message", "text": "hello"})),
            json!({"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}),
        ],
    );
    assert_eq!(replay.result.session_id.as_deref(), Some("s-1"));
    assert_eq!(replay.result.text, "hello");
}

#[test]
fn a_plan_is_the_answer_of_a_turn_that_brings_one() {
    let replay = read(
        Provider::Codex,
        &[
            json!({"type": "item.plan.delta", "item_id": "item_0", "delta": "1."}),
            item("completed", &json!({"id": "item_0", "type": "plan", "text": "1. look"})),
            json!({"type": "turn.completed"}),
        ],
    );
    assert_eq!(replay.result.text, "1. look");
}
