use super::*;
use proptest::prelude::*;

fn assembled(chunks: &[Value]) -> Completion {
    let mut assembly = Assembly::default();
    for chunk in chunks {
        assembly.on_chunk(chunk).unwrap();
    }
    assembly.finish().unwrap()
}

fn delta(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn call(index: Option<u64>, id: &str, name: &str, arguments: Value) -> Value {
    let mut piece = json!({ "function": { "arguments": arguments } });
    if let Some(index) = index {
        piece["index"] = index.into();
    }
    if !id.is_empty() {
        piece["id"] = id.into();
    }
    if !name.is_empty() {
        piece["function"]["name"] = name.into();
    }
    delta(json!({ "tool_calls": [piece] }))
}

#[test]
fn adds_up_text_usage_and_the_reason() {
    let completion = assembled(&[
        delta(json!({ "role": "assistant", "content": "" })),
        delta(json!({ "content": "Hel" })),
        delta(json!({ "content": [{ "type": "text", "text": "lo" }] })),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "length" }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 3 } } }),
    ]);
    assert_eq!((completion.text.as_str(), completion.finish_reason.as_str()), ("Hello", "length"));
    assert_eq!(completion.usage, Some(Tokens { input: 7, output: 2, cached: 3 }));
}

#[test]
fn puts_calls_together_however_servers_number_them() {
    let numbered = assembled(&[
        call(Some(0), "a", "ls", json!("{\"p\":")),
        call(Some(1), "b", "cat", json!("")),
        call(Some(0), "", "", json!("1}")),
    ]);
    let all_zero =
        assembled(&[call(Some(0), "a", "ls", json!("{\"p\":1}")), call(Some(0), "b", "cat", json!("{}"))]);
    let unnumbered = assembled(&[
        call(None, "a", "ls", json!("{\"p\":")),
        call(None, "a", "", json!("1}")),
        call(None, "b", "cat", json!({})),
    ]);
    for completion in [numbered, all_zero, unnumbered] {
        assert_eq!(
            completion.tool_calls,
            [
                ToolCall { id: "a".into(), name: "ls".into(), arguments: json!({ "p": 1 }) },
                ToolCall { id: "b".into(), name: "cat".into(), arguments: json!({}) },
            ]
        );
        assert_eq!(completion.finish_reason, "tool_calls");
    }
}

#[test]
fn arguments_that_are_no_json_stay_text_and_a_missing_id_is_made() {
    let completion = assembled(&[call(None, "", "x", json!("{broken")), call(None, "", "y", Value::Null)]);
    assert_eq!(completion.tool_calls[0].arguments, "{broken");
    assert_eq!(
        completion.tool_calls[1],
        ToolCall { id: "call_1".into(), name: "y".into(), arguments: json!({}) }
    );
}

#[test]
fn takes_a_completion_in_one_piece() {
    let mut assembly = Assembly::default();
    let call = json!({ "id": "a", "type": "function", "function": { "name": "ls", "arguments": "{}" } });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    assembly
        .on_whole(&json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }))
        .unwrap();
    assert_eq!(assembly.finish().unwrap().tool_calls[0].name, "ls");
    assert!(matches!(Assembly::default().on_whole(&json!({ "object": "list" })), Err(Malformed::Wrong(_))));
}

#[test]
fn the_words_of_an_error_are_cut() {
    let long = "é".repeat(1_000_000);
    for error in [json!(long), json!({ "message": long, "code": long }), json!({ "detail": long })] {
        let told = ServerError::of(&error);
        assert!(told.message.chars().count() == MAX_TOLD_CHARACTERS, "{}", told.message.len());
        assert!(told.codes.iter().all(|code| code.chars().count() <= MAX_TOLD_CHARACTERS));
    }
    assert_eq!(ServerError::of_body(&long).message.chars().count(), MAX_TOLD_CHARACTERS);
}

#[test]
fn numbers_of_any_size_are_added() {
    let most = Tokens { input: u64::MAX, output: u64::MAX, cached: u64::MAX };
    assert_eq!(most.plus(most), most);
}

#[test]
fn a_refusal_is_the_text_when_there_is_no_other() {
    assert_eq!(assembled(&[delta(json!({ "content": null, "refusal": "I won't." }))]).text, "I won't.");
}

#[test]
fn an_error_in_place_of_an_answer_is_read() {
    let chunk = json!({ "error": { "message": "slow down", "type": "rate_limit_error", "code": 429 } });
    let Err(Malformed::Error(error)) = Assembly::default().on_chunk(&chunk) else { panic!("no error") };
    assert_eq!(error.status, Some(429));
    assert_eq!((error.message.as_str(), error.codes), ("slow down", vec!["rate_limit_error".to_owned()]));
    assert_eq!(ServerError::of_body("  <h1>Bad</h1> ").message, "<h1>Bad</h1>");
    assert_eq!(ServerError::of_body("{\"message\":\"m\",\"code\":\"c\"}").codes, ["c"]);
    assert_eq!(ServerError::of_body("{\"error\":\"just words\"}").message, "just words");
}

#[test]
fn an_error_without_content_is_none() {
    for empty in [
        json!(null),
        json!(false),
        json!(0),
        json!(" "),
        json!({}),
        json!([]),
        json!({ "message": "", "code": null }),
    ] {
        let mut assembly = Assembly::default();
        let message = json!({ "content": "Hi", "error": empty });
        assembly
            .on_whole(&json!({ "error": empty, "choices": [{ "error": empty, "message": message }] }))
            .unwrap();
        assert_eq!(assembly.finish().unwrap().text, "Hi", "{empty}");
    }
    for told in
        [json!(true), json!("no"), json!(500), json!({ "code": 1 }), json!({ "details": [{ "a": "b" }] })]
    {
        assert!(Assembly::default().on_chunk(&json!({ "error": told })).is_err(), "{told}");
    }
}

#[test]
fn reading_takes_time_in_proportion_to_the_number_of_calls() {
    let calls = (0..200_000u64)
        .map(|index| json!({ "index": index, "id": index.to_string(), "function": { "name": "f" } }));
    let chunk = delta(json!({ "tool_calls": calls.collect::<Vec<_>>() }));
    let start = std::time::Instant::now();
    assert_eq!(assembled(&[chunk.clone(), chunk]).tool_calls.len(), 200_000);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z{\"]{0,5}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let names = prop::sample::select(vec![
            "choices",
            "delta",
            "message",
            "content",
            "tool_calls",
            "function",
            "arguments",
            "name",
            "id",
            "index",
            "usage",
            "error",
            "finish_reason",
            "text",
            "refusal",
            "prompt_tokens",
            "code",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..5).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

#[test]
fn an_answer_with_nothing_in_it_is_none_and_a_broken_one_is_an_error() {
    let read = |chunks: &[Value]| {
        let mut assembly = Assembly::default();
        chunks.iter().try_for_each(|chunk| assembly.on_chunk(chunk)).and_then(|()| assembly.finish())
    };
    let chunk =
        |delta: Value, reason: Value| json!({ "choices": [{ "delta": delta, "finish_reason": reason }] });
    let thought = chunk(json!({ "reasoning_content": "The answer is 42." }), Value::Null);
    assert!(matches!(
        read(&[thought, chunk(json!({ "content": "" }), json!("stop"))]),
        Err(Malformed::Wrong(_))
    ));
    assert!(matches!(read(&[chunk(json!({}), json!("stop"))]), Err(Malformed::Wrong(_))));
    for reason in ["length", "content_filter"] {
        assert!(read(&[chunk(json!({}), json!(reason))]).is_ok(), "{reason}");
    }
    assert!(read(&[chunk(json!({ "refusal": "no" }), json!("stop"))]).is_ok());
    let half = chunk(json!({ "content": "Half an ans" }), Value::Null);
    let broken = read(&[half.clone(), chunk(json!({}), json!("error"))]);
    assert!(matches!(broken, Err(Malformed::Error(ServerError { status: Some(502), .. }))), "{broken:?}");
    let told = json!({ "choices": [{ "delta": {}, "finish_reason": "error", "error": { "code": 429, "message": "slow" } }] });
    let broken = read(&[half, told]);
    assert!(matches!(broken, Err(Malformed::Error(ServerError { status: Some(429), .. }))), "{broken:?}");
}

proptest! {
    #[test]
    fn any_json_is_taken(chunks in prop::collection::vec(any_json(), 0..6), whole in any_json()) {
        let mut assembly = Assembly::default();
        for chunk in &chunks {
            let _ = assembly.on_chunk(chunk);
        }
        let _ = assembly.on_whole(&whole);
        let _ = assembly.finish();
    }
}
