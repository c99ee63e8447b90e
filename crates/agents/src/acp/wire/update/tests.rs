use super::*;
use serde_json::json;

#[test]
fn both_versions_say_the_same_in_the_end() {
    let cases = [
        (
            json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}),
            Update::Text { text: "hi".into(), message: None, whole: false, usage: None },
        ),
        (
            json!({"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}),
            Update::Text { text: "hi".into(), message: Some("m".into()), whole: true, usage: None },
        ),
        (
            json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}),
            Update::Thought { text: "hm".into() },
        ),
        (json!({"sessionUpdate":"current_mode_update","currentModeId":"plan"}), Update::Mode("plan".into())),
        (
            json!({"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}),
            Update::Used { cost: Some(0.5), context: Some((1, 2)), limit: None },
        ),
        (
            json!({"sessionUpdate":"usage_update","used":1,"size":2}),
            Update::Used { cost: None, context: Some((1, 2)), limit: None },
        ),
        (json!({"sessionUpdate":"session_info_update","title":"The fix"}), Update::Title("The fix".into())),
        (
            json!({"sessionUpdate":"usage_update","used":1,"_meta":{"_claude/rateLimit":{"status":"rejected","resetsAt":1777936568}}}),
            Update::Used { cost: None, context: None, limit: Reset::at_epoch(1_777_936_568) },
        ),
        (
            json!({"sessionUpdate":"usage_update","used":1,"_meta":{"_claude/rateLimit":{"status":"allowed","resetsAt":1777936568}}}),
            Update::Used { cost: None, context: None, limit: None },
        ),
        (
            json!({"sessionUpdate":"available_commands_update","availableCommands":[]}),
            Update::Commands(json!([])),
        ),
        (json!({"sessionUpdate":"something_new","x":1}), Update::Unknown),
        (json!(null), Update::Unknown),
        (json!({"sessionUpdate":"tool_call"}), Update::Unknown),
        (
            json!({"sessionUpdate":"terminal_update","terminalId":"t","output":{"data":"aGk="},"exitStatus":{"exitCode":3}}),
            Update::Terminal { id: "t".into(), data: Some("hi".into()), whole: true, exit_code: Some(3) },
        ),
        (
            json!({"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"active"},"error":{"message":"Reconnecting... 1/1","willRetry":true}}}}),
            Update::Retry { message: "Reconnecting... 1/1".into() },
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(Update::read(&json), expected, "{json}");
    }
}

#[test]
fn an_unknown_word_in_one_field_does_not_cost_the_others() {
    let update = json!({"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","kind":"teleport",
        "content":[{"type":"hologram","data":7},{"type":"content","content":{"type":"text","text":"ok"}}],"rawOutput":3});
    let Update::Tool(tool) = Update::read(&update) else { panic!("no tool") };
    assert_eq!((tool.status, tool.output.as_deref()), (Some(ToolStatus::Completed), Some("ok")));
}

#[test]
fn an_end_tells_its_reason_and_its_tokens_in_either_place() {
    let codex = json!({"stopReason":"end_turn","usage":{"inputTokens":1000,"cachedReadTokens":200,"outputTokens":34}});
    let gemini = json!({"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":1000,"output_tokens":34}}}});
    for (end, cached) in [(codex, 200), (gemini, 0)] {
        let usage = TurnEnd::read(&end).unwrap().usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens), (1000, 34, cached));
    }
    let none = json!({"stopReason":"end_turn","usage":null,"_meta":{"quota":{"token_count":null}}});
    assert_eq!(TurnEnd::read(&none).unwrap().usage, None);
    assert_eq!(TurnEnd::read(&json!({"messageId":"m"})), None);
}
