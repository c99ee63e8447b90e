use super::*;

fn answered(text: &str, stop: &str) -> Value {
    json!({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}], "model": "m",
        "usage": {"input": 9, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.1}}, "stopReason": stop,
        "errorMessage": if stop == "error" { Some("prompt is too long: 300000 tokens") } else { None }}})
}

fn compaction(reason: &str, will_retry: Option<bool>) -> Value {
    match will_retry {
        None => json!({"type": "compaction_start", "reason": reason}),
        Some(will_retry) => {
            json!({"type": "compaction_end", "reason": reason, "aborted": false, "willRetry": will_retry})
        }
    }
}

#[test]
fn a_compaction_takes_the_end_back_only_where_the_turn_goes_on() {
    let end = json!({"type": "agent_end", "messages": []});
    let start = [answered("It is done.", "stop"), end.clone(), compaction("threshold", None)];
    let open = read(Provider::Pi, &start);
    assert!(open.fault.is_none(), "the answer was given: the compaction is the CLI's own business");
    let [a, b, c] = start;
    assert!(read(Provider::Pi, &[a, b, c, compaction("threshold", Some(false))]).fault.is_none());
    let stuck = [answered("", "error"), end.clone(), compaction("overflow", None)];
    assert_eq!(
        read(Provider::Pi, &stuck).fault.unwrap().error.code().as_str(),
        "AGENT_FAILED",
        "its reason is not lost"
    );
    let overflow = [
        answered("", "error"),
        end.clone(),
        compaction("overflow", None),
        compaction("overflow", Some(true)),
        json!({"type": "agent_start"}),
        answered("It is done now.", "stop"),
        end,
    ];
    let replay = read(Provider::Pi, &overflow);
    assert!(replay.fault.is_none());
    assert_eq!(replay.result.text, "It is done now.");
    let given_up = read(
        Provider::Pi,
        &[overflow[0].clone(), overflow[1].clone(), overflow[2].clone(), compaction("overflow", Some(false))],
    );
    assert_eq!(given_up.fault.unwrap().kind().unwrap().as_str(), "context_length");
}

#[test]
fn an_answer_at_the_limit_of_tokens_is_told_as_such() {
    let replay = read(Provider::Pi, &[answered("It is", "length"), json!({"type": "agent_end"})]);
    assert!(replay.fault.is_none());
    assert!(replay.result.warnings[0].contains("limit of output tokens"));
}
