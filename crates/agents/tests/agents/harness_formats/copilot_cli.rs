use super::*;

#[test]
fn an_answer_in_chunks_is_one_answer_and_a_sub_agents_is_none() {
    let chunk = |index: u64, text: &str| {
        json!({"type": "assistant.message", "data": {"messageId": format!("m{index}"), "apiCallId": "c", "content": text,
            "model": "gpt", "chunkIndex": index, "chunkCount": 2}})
    };
    let replay = read(
        Provider::Copilot,
        &[
            chunk(0, "One, "),
            chunk(1, "two."),
            json!({"type": "assistant.message", "data": {"messageId": "s", "content": "mine", "parentToolCallId": "t"}}),
            json!({"type": "assistant.message", "agentId": "a", "data": {"messageId": "s", "content": "mine"}}),
            json!({"type": "result", "sessionId": "s", "exitCode": 0, "usage": {}}),
        ],
    );
    assert_eq!((replay.result.text.as_str(), replay.result.turns), ("One, two.", 1));
    assert!(replay.fault.is_none());
}

#[test]
fn a_turn_that_was_cancelled_is_no_success_whatever_its_exit_code() {
    let replay = read(
        Provider::Copilot,
        &[
            json!({"type": "assistant.idle", "data": {"aborted": true}}),
            json!({"type": "result", "sessionId": "s", "exitCode": 0}),
        ],
    );
    assert_eq!(replay.fault.unwrap().error.code().as_str(), "AGENT_FAILED");
}
