//! The tokens that an answer of a model says it used, in the words of four APIs. PURE.
//!
//! | API | a whole answer | events of a stream |
//! | --- | --- | --- |
//! | Anthropic messages | `usage` | `message_start` has the input, `message_delta` the output so far |
//! | OpenAI chat | `usage` | `usage` of the last chunk, if the program asked for it |
//! | OpenAI responses | `usage` | `response` of the last event |
//! | Gemini | `usageMetadata` | `usageMetadata` of each chunk, so far |

use serde_json::Value;

/// Tokens of one answer. `input` includes `cached`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

/// The facts in an answer, or in an event of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// A model's answer, and no other text of its server.
    pub is_model: bool,
    pub model: Option<String>,
    /// The tokens of the whole answer so far.
    pub tokens: Option<Tokens>,
    /// The tokens are the last word.
    pub is_final: bool,
    /// Bytes of the model's own text that are new.
    pub text: u64,
}

/// Reads a whole answer, or the data of one event.
pub(super) fn told(value: &Value) -> Told {
    let kind = value["type"].as_str().unwrap_or_default();
    match kind {
        "message" => anthropic(value, true),
        "message_start" => anthropic(&value["message"], false),
        "message_delta" => Told { is_final: true, ..anthropic(value, true) },
        "content_block_delta" => Told { is_model: true, text: text_in(&value["delta"]), ..Told::default() },
        "content_block_start" | "content_block_stop" | "message_stop" => {
            Told { is_model: true, ..Told::default() }
        }
        _ if value["object"] == "response" => responses(value, true),
        _ if kind.starts_with("response.") => {
            let is_final = matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
            let told = responses(&value["response"], is_final);
            let text = value["delta"].as_str().map_or(0, |delta| delta.len() as u64);
            Told { is_model: true, text, ..told }
        }
        _ if value["choices"].is_array() || value["usage"]["prompt_tokens"].is_u64() => chat(value),
        _ if value["candidates"].is_array() || value["usageMetadata"].is_object() => gemini(value),
        // Gemini's answers to those who signed in are one level deeper.
        _ if value["response"]["candidates"].is_array() || value["response"]["usageMetadata"].is_object() => {
            gemini(&value["response"])
        }
        _ => Told::default(),
    }
}

fn anthropic(message: &Value, is_final: bool) -> Told {
    let usage = &message["usage"];
    let cached = number(usage, "cache_read_input_tokens");
    let input = number(usage, "input_tokens") + number(usage, "cache_creation_input_tokens") + cached;
    let tokens = usage.is_object().then(|| Tokens { input, cached, output: number(usage, "output_tokens") });
    Told {
        is_model: true,
        model: model_of(&message["model"]),
        tokens,
        is_final,
        text: text_in(&message["content"]),
    }
}

fn chat(answer: &Value) -> Told {
    let usage = &answer["usage"];
    let tokens = usage.is_object().then(|| Tokens {
        input: number(usage, "prompt_tokens"),
        cached: number(&usage["prompt_tokens_details"], "cached_tokens"),
        output: number(usage, "completion_tokens"),
    });
    let text = text_in(&answer["choices"]);
    Told { is_model: true, model: model_of(&answer["model"]), is_final: tokens.is_some(), tokens, text }
}

fn responses(answer: &Value, is_final: bool) -> Told {
    let usage = &answer["usage"];
    let tokens = usage.is_object().then(|| Tokens {
        input: number(usage, "input_tokens"),
        cached: number(&usage["input_tokens_details"], "cached_tokens"),
        output: number(usage, "output_tokens"),
    });
    let is_final = is_final && tokens.is_some();
    let text = if is_final { 0 } else { text_in(&answer["output"]) };
    Told { is_model: true, model: model_of(&answer["model"]), tokens, is_final, text }
}

fn gemini(answer: &Value) -> Told {
    let usage = &answer["usageMetadata"];
    let tokens = usage.is_object().then(|| Tokens {
        input: number(usage, "promptTokenCount") + number(usage, "toolUsePromptTokenCount"),
        cached: number(usage, "cachedContentTokenCount"),
        output: number(usage, "candidatesTokenCount") + number(usage, "thoughtsTokenCount"),
    });
    let finished = answer["candidates"][0]["finishReason"].is_string();
    let text = text_in(&answer["candidates"]);
    let model = model_of(&answer["modelVersion"]);
    Told { is_model: true, model, is_final: finished && tokens.is_some(), tokens, text }
}

fn model_of(value: &Value) -> Option<String> {
    value.as_str().filter(|model| !model.is_empty() && model.len() <= 200).map(str::to_owned)
}

fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_default()
}

/// Members that hold words of a model, whatever the API.
const WORDS: [&str; 9] = [
    "text",
    "content",
    "thinking",
    "partial_json",
    "arguments",
    "reasoning_content",
    "reasoning",
    "refusal",
    "input",
];

/// Bytes of the texts below a message, a delta or a list of them.
fn text_in(value: &Value) -> u64 {
    match value {
        Value::Array(all) => all.iter().map(text_in).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| match member {
                Value::String(text) if WORDS.contains(&name.as_str()) => text.len() as u64,
                Value::Object(_) | Value::Array(_) => text_in(member),
                _ => 0,
            })
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tokens(input: u64, cached: u64, output: u64) -> Option<Tokens> {
        Some(Tokens { input, cached, output })
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
                json!({"object":"chat.completion","model":"gpt-x","choices":[{"message":{"content":"hi"}}],
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
                tokens(5, 0, 0),
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
            (
                json!({"type":"content_block_delta","delta":{"type":"text_delta","text":"four"}}),
                None,
                false,
                4,
            ),
            (
                json!({"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}),
                None,
                false,
                2,
            ),
            (
                json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}),
                tokens(0, 0, 9),
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
                tokens(4, 0, 0),
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
    fn numbers_that_are_none_count_nothing() {
        let told = told(&json!({"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":"x"}}));
        assert_eq!(told.tokens, tokens(0, 0, 0));
    }
}
