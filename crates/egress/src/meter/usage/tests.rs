use super::super::scan::Scan;
use super::*;
use serde_json::{Value, json};

fn tokens(input: impl Into<Option<u64>>, cached: u64, output: impl Into<Option<u64>>) -> Option<Tokens> {
    Some(Tokens { input: input.into(), cached, output: output.into() })
}

fn all(text: &str) -> Vec<Told> {
    let mut scan = Scan::new(Facts::default());
    scan.push(text.as_bytes());
    scan.close();
    scan.reader.told
}

fn told(value: &Value) -> Told {
    all(&value.to_string()).pop().unwrap_or_default()
}

#[test]
fn whole_answers_of_each_api_tell_their_tokens() {
    let cases = [
        (
            json!({"type":"message","model":"claude-x","content":[{"type":"text","text":"hi"}],
                "usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":7}}),
            "claude-x",
            tokens(115, 100, 7),
        ),
        (
            json!({"object":"chat.completion","model":"gpt-x","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],
                "usage":{"prompt_tokens":20,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}),
            "gpt-x",
            tokens(20, 8, 4),
        ),
        (
            json!({"object":"response","model":"gpt-y","output":[],
                "usage":{"input_tokens":30,"output_tokens":6,"input_tokens_details":{"cached_tokens":9}}}),
            "gpt-y",
            tokens(30, 9, 6),
        ),
        (
            json!({"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"modelVersion":"gemini-x",
                "usageMetadata":{"promptTokenCount":40,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":11}}),
            "gemini-x",
            tokens(40, 11, 5),
        ),
        // An embedding has no choices.
        (
            json!({"object":"list","data":[],"model":"embed-x","usage":{"prompt_tokens":5,"total_tokens":5}}),
            "embed-x",
            tokens(5, 0, None),
        ),
        // Pictures and transcripts.
        (
            json!({"created":1,"data":[{"b64_json":"AAAA"}],"model":"image-x","usage":{"input_tokens":9,"output_tokens":8,"input_tokens_details":{"text_tokens":9}}}),
            "image-x",
            tokens(9, 0, 8),
        ),
        // Lines of a batch.
        (
            json!({"custom_id":"a","result":{"type":"succeeded","message":{"id":"msg_1","type":"message","model":"claude-x","usage":{"input_tokens":7,"output_tokens":6}}}}),
            "claude-x",
            tokens(7, 0, 6),
        ),
        (
            json!({"id":"batch_req_1","response":{"status_code":200,"body":{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-x",
                "choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}},"error":null}),
            "gpt-x",
            tokens(3, 0, 2),
        ),
        (
            json!({"output":{"message":{"content":[{"text":"hi"}]}},"model":"nova-x","usage":{"inputTokens":3,"outputTokens":2,"cacheReadInputTokens":4}}),
            "nova-x",
            tokens(7, 4, 2),
        ),
    ];
    for (value, model, expected) in cases {
        let told = told(&value);
        assert!(told.is_model && told.is_final, "{value}");
        assert_eq!((told.model.as_deref(), told.tokens), (Some(model), expected), "{value}");
    }
}

#[test]
fn events_tell_what_is_known_so_far() {
    let cases = [
        (
            json!({"type":"message_start","message":{"model":"m","usage":{"input_tokens":3,"output_tokens":1}}}),
            tokens(3, 0, 1),
            false,
            0,
        ),
        (json!({"type":"content_block_delta","delta":{"type":"text_delta","text":"four"}}), None, false, 4),
        (
            json!({"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}),
            None,
            false,
            2,
        ),
        (
            json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}),
            tokens(None, 0, 9),
            true,
            0,
        ),
        (
            json!({"object":"chat.completion.chunk","choices":[{"delta":{"content":"abc"}}],"usage":null}),
            None,
            false,
            3,
        ),
        (
            json!({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":1}"}}]}}]}),
            None,
            false,
            7,
        ),
        (
            json!({"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}),
            tokens(2, 0, 1),
            true,
            0,
        ),
        (json!({"type":"response.created","response":{"object":"response","model":"m"}}), None, false, 0),
        (json!({"type":"response.output_text.delta","delta":"words"}), None, false, 5),
        (
            json!({"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2}}}),
            tokens(1, 0, 2),
            true,
            0,
        ),
        (
            json!({"candidates":[{"content":{"parts":[{"text":"abc"}]}}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":1}}),
            tokens(4, 0, 1),
            false,
            3,
        ),
        (
            json!({"response":{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4}}}),
            tokens(4, 0, None),
            true,
            0,
        ),
    ];
    for (value, expected, is_final, text) in cases {
        let told = told(&value);
        assert!(told.is_model, "{value}");
        assert_eq!((told.tokens, told.is_final, told.text), (expected, is_final, text), "{value}");
    }
}

#[test]
fn other_answers_are_no_model_s() {
    for value in [
        json!({"type":"ping"}),
        json!({"type":"error","error":{"type":"overloaded_error"}}),
        json!({"error":{"message":"no"}}),
        json!({"object":"list","data":[{"id":"gpt-x"}]}),
        json!({"input_tokens": 5}),
        json!([]),
        json!(null),
    ] {
        assert!(!told(&value).is_model, "{value}");
    }
}

#[test]
fn numbers_are_read_in_any_notation_and_what_is_none_is_not_told() {
    let cases = [
        (json!(1000.0), Some(1000)),
        (json!("1000"), Some(1000)),
        (json!(999.2), Some(1000)),
        (json!(u64::MAX), Some(u64::MAX)),
        (json!(1e300), Some(u64::MAX)),
        (json!(-1000), None),
        (json!("many"), None),
        (json!(null), None),
        (json!(true), None),
        (json!([1]), None),
    ];
    for (number, expected) in cases {
        let told = told(&json!({"choices":[],"usage":{"prompt_tokens":number,"completion_tokens":1}}));
        assert_eq!(told.tokens, tokens(expected, 0, 1), "{number}");
    }
    let empty = told(&json!({"type":"message","usage":{}}));
    assert_eq!((empty.is_model, empty.tokens, empty.is_final), (true, None, false));
}

#[test]
fn sums_end_at_the_largest_number() {
    let most = u64::MAX;
    let anthropic = json!({"type":"message","usage":{"input_tokens":most,"cache_read_input_tokens":1,"output_tokens":most}});
    assert_eq!(told(&anthropic).tokens, tokens(most, 1, most));
    let gemini = json!({"usageMetadata":{"promptTokenCount":most,"toolUsePromptTokenCount":most,"candidatesTokenCount":most,"thoughtsTokenCount":2}});
    assert_eq!(told(&gemini).tokens, tokens(most, 0, most));
}

#[test]
fn each_value_of_a_text_is_told_and_the_beginning_of_a_torn_one() {
    let line = r#"{"result":{"message":{"id":"a","usage":{"input_tokens":1,"output_tokens":2}}}}"#;
    assert_eq!(all(&format!("{line}\n{line}\n")).len(), 2);
    let chunk = r#"{"responseId":"r","candidates":[{}],"usageMetadata":{"promptTokenCount":3}}"#;
    assert_eq!(all(&format!("[{chunk},\n{chunk}]")).len(), 2);
    let torn = all(r#"{"type":"message","id":"m","content":[{"type":"text","text":"eight by"#);
    assert_eq!((torn[0].is_model, torn[0].text, torn[0].is_final), (true, 8, false));
}

#[test]
fn a_tool_s_input_is_text_and_tells_no_tokens() {
    let value = json!({"type":"message","content":[{"type":"tool_use","input":{"command":"four","usage":{"input_tokens":9}}}]});
    assert_eq!((told(&value).tokens, told(&value).text), (None, 4));
}
