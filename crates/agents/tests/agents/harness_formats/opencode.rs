use super::*;

#[test]
fn done_ends_a_turn_whose_last_step_said_nothing_of_it() {
    let line = |kind: &str, part: Value| json!({"type": kind, "sessionID": "ses_1", "part": part});
    let lines = [
        line("step_start", json!({"type": "step-start"})),
        line("text", json!({"type": "text", "messageID": "m", "text": "Hello."})),
        line(
            "step_finish",
            json!({"type": "step-finish", "reason": "other", "tokens": {"input": 1, "output": 1}}),
        ),
        json!({"type": "done", "sessionID": "ses_1", "reason": "idle", "rejected": ["bash"]}),
    ];
    let replay = read(Provider::Opencode, &lines);
    assert!(replay.fault.is_none());
    assert_eq!(replay.result.warnings, ["bash was denied permission"]);
    assert_eq!(read(Provider::Opencode, &lines[..3]).fault.unwrap().error.code().as_str(), "AGENT_TRUNCATED");
    assert!(read(Provider::Opencode, &lines[3..]).fault.is_some(), "nothing was said at all");
}
