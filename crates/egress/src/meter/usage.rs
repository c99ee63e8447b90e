//! The tokens that an answer of a model says it used, in the words of four APIs. PURE.
//!
//! | API | a whole answer | events of a stream |
//! | --- | --- | --- |
//! | Anthropic messages | `usage` | `message_start` has the input, `message_delta` the output so far |
//! | OpenAI chat | `usage` | `usage` of the last chunk, if the program asked for it |
//! | OpenAI responses | `usage` | `response` of the last event |
//! | Gemini | `usageMetadata` | `usageMetadata` of each chunk, so far |
//!
//! Any other answer with a `usage` that tells tokens counts too: those for images and transcripts, and the lines of a batch.

use super::scan::Reader;
use ground::tokens::{self, CachedInput, Figure, Part};

/// Tokens of one answer. `input` includes `cached`. `None`: not told, or no number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub input: Option<u64>,
    pub cached: u64,
    pub output: Option<u64>,
}

impl Tokens {
    /// The larger of each: the end of a message tells its output alone.
    pub(super) fn max(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.max(other.input),
            cached: self.cached.max(other.cached),
            output: self.output.max(other.output),
        }
    }
}

/// The facts in an answer, or in an event of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// A model's answer, and no other text of its server.
    pub is_model: bool,
    /// The server says that it failed.
    pub is_error: bool,
    pub id: Option<String>,
    pub model: Option<String>,
    /// The tokens of the whole answer so far.
    pub tokens: Option<Tokens>,
    /// The tokens are the last word.
    pub is_final: bool,
    /// They are, if nothing comes behind them.
    pub is_final_at_end: bool,
    /// Bytes of the model's own text that are new.
    pub text: u64,
}

/// Reads answers, or the data of events. Each that is over is in `told`.
#[derive(Default)]
pub(super) struct Facts {
    pub told: Vec<Told>,
    kind: String,
    /// An object of OpenAI's responses.
    is_response: bool,
    is_error: bool,
    id: Option<String>,
    model: Option<String>,
    has_usage: bool,
    has_metadata: bool,
    /// By the names of the table of all figures.
    numbers: Vec<(&'static str, Figure, u64)>,
    has_choices: bool,
    choices: u64,
    has_candidates: bool,
    has_finished: bool,
    is_line_of_batch: bool,
    text: u64,
}

/// An object that is an answer, or has one in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Outer,
    Inner,
    /// A line of a batch's results.
    Batch,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Gemini streams a list where no events are asked for.
    Root,
    Message(Level),
    Kind(Level),
    Object,
    Id(Level),
    Model,
    Error,
    Usage,
    Metadata,
    /// An object with figures in it.
    Details(&'static str),
    Figure(&'static str, Figure),
    Choices,
    Candidates,
    Choice,
    Finish,
    /// Text of the model.
    Words,
    /// Texts are those behind certain keys.
    Within,
    /// All texts in it are the model's.
    All,
    Nothing,
}

impl Reader for Facts {
    type Place = Place;

    fn root(&self) -> Place {
        Place::Root
    }

    fn element(&mut self, list: Place) -> Place {
        match list {
            Place::Root => Place::Message(Level::Outer),
            Place::Choices => {
                self.choices = self.choices.saturating_add(1);
                Place::Choice
            }
            Place::Candidates => Place::Choice,
            Place::Words => Place::Words,
            Place::Within => Place::Within,
            Place::All => Place::All,
            _ => Place::Nothing,
        }
    }

    fn member(&mut self, object: Place, key: &str) -> Place {
        match object {
            Place::Root => of_message(Level::Outer, key),
            Place::Message(level) => of_message(level, key),
            Place::Usage | Place::Metadata => figure(key),
            Place::Details(object) => figure(&format!("{object}.{key}")),
            Place::Choice if matches!(key, "finish_reason" | "finishReason") => Place::Finish,
            Place::Choice | Place::Words | Place::Within => match key {
                "arguments" | "args" | "input" => Place::All,
                "text" | "content" | "thinking" | "partial_json" | "reasoning_content" | "reasoning"
                | "refusal" => Place::Words,
                _ => Place::Within,
            },
            Place::All => Place::All,
            _ => Place::Nothing,
        }
    }

    fn begin(&mut self, place: Place, is_list: bool) {
        match place {
            Place::Choices => self.has_choices |= is_list,
            Place::Candidates => self.has_candidates |= is_list,
            Place::Usage => self.has_usage |= !is_list,
            Place::Metadata => self.has_metadata |= !is_list,
            Place::Error => self.is_error = true,
            Place::Message(Level::Batch) => self.is_line_of_batch = true,
            _ => {}
        }
    }

    fn end(&mut self, place: Place) {
        // A list in no other one: its elements were told.
        if matches!(place, Place::Root | Place::Message(Level::Outer)) {
            let facts = std::mem::take(self);
            self.told = facts.told();
        }
    }

    fn text(&mut self, place: Place, start: &str, length: u64) {
        match place {
            Place::Kind(Level::Outer) => start.clone_into(&mut self.kind),
            Place::Object => self.is_response |= start == "response",
            // An inner one is the answer's own.
            Place::Id(Level::Outer) if self.id.is_some() => {}
            Place::Id(_) if (1..=200).contains(&length) => self.id = Some(start.to_owned()),
            Place::Model if (1..=200).contains(&length) => self.model = Some(start.to_owned()),
            Place::Figure(..) => self.plain(place, start),
            Place::Error => self.is_error = true,
            Place::Finish => self.has_finished = true,
            Place::Words | Place::All => self.text = self.text.saturating_add(length),
            _ => {}
        }
    }

    fn plain(&mut self, place: Place, word: &str) {
        let Place::Figure(name, figure) = place else { return };
        let Some(number) = number(word) else { return };
        match self.numbers.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., known)) => *known = (*known).max(number),
            None => self.numbers.push((name, figure, number)),
        }
    }
}

fn of_message(level: Level, key: &str) -> Place {
    let inner = if level == Level::Batch { Level::Batch } else { Level::Inner };
    match key {
        "type" => Place::Kind(level),
        "object" => Place::Object,
        "id" | "responseId" => Place::Id(level),
        "model" | "modelVersion" => Place::Model,
        "error" => Place::Error,
        "usage" => Place::Usage,
        "usageMetadata" => Place::Metadata,
        "message" | "response" | "body" => Place::Message(inner),
        "result" => Place::Message(Level::Batch),
        "choices" => Place::Choices,
        "candidates" => Place::Candidates,
        "content" | "delta" | "output" => Place::Words,
        _ => Place::Nothing,
    }
}

fn figure(path: &str) -> Place {
    match (tokens::named(path), tokens::object(path)) {
        (Some((name, figure)), _) => Place::Figure(name, figure),
        (None, Some(object)) => Place::Details(object),
        (None, None) => Place::Nothing,
    }
}

/// A number of tokens, also as a text, or with a fraction. What is below zero is none.
fn number(word: &str) -> Option<u64> {
    let word = word.trim();
    let float =
        || word.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| number.ceil() as u64);
    word.parse().ok().or_else(float)
}

impl Facts {
    fn has_number(&self, names: &[&str]) -> bool {
        self.numbers.iter().any(|(known, ..)| names.contains(known))
    }

    fn tokens(&self) -> Option<Tokens> {
        let is_input = |figure: &Figure| {
            use Part::{Read, Written};
            matches!(figure, Figure::Input | Figure::More)
                || matches!(figure, Figure::Beside(Read | Written) | Figure::Within(Read | Written))
        };
        let is_output = |figure: &Figure| matches!(figure, Figure::Output | Figure::Beside(Part::Thought));
        let tells = |is: &dyn Fn(&Figure) -> bool| self.numbers.iter().any(|(_, figure, _)| is(figure));
        let (has_input, has_output) = (tells(&is_input), tells(&is_output));
        if !has_input && !has_output {
            return None;
        }
        let get =
            |name: &str| self.numbers.iter().find(|(known, ..)| *known == name).map(|(.., number)| *number);
        // A part alone is told too.
        let told =
            tokens::told(|name| get(name).or((name == "input").then_some(0)), Some(CachedInput::Within));
        let told = told.unwrap_or_default();
        Some(Tokens {
            input: has_input.then_some(told.input),
            cached: told.cached.min(told.input),
            output: has_output.then_some(told.output),
        })
    }

    fn told(self) -> Vec<Told> {
        let tokens = self.tokens();
        let has_tokens = tokens.is_some();
        let (is_model, is_final, is_final_at_end) = match self.kind.as_str() {
            "message" | "message_delta" => (true, true, true),
            "message_start"
            | "content_block_delta"
            | "content_block_start"
            | "content_block_stop"
            | "message_stop" => (true, false, false),
            "response.completed" | "response.incomplete" | "response.failed" => (true, true, true),
            kind if kind.starts_with("response.") => (true, false, false),
            _ if self.is_response => (true, true, true),
            _ if self.has_choices
                || self.has_number(&["prompt_tokens", "promptTokenCount"]) && self.has_usage =>
            {
                (true, self.has_finished || self.choices == 0, true)
            }
            _ if self.has_candidates || self.has_metadata => (true, self.has_finished, false),
            _ if self.is_line_of_batch => (has_tokens, true, true),
            _ => (self.has_usage && has_tokens, true, true),
        };
        // The last event of OpenAI's responses repeats what the others said.
        let is_repeated = is_final && self.kind.starts_with("response.");
        let told = Told {
            is_model,
            is_error: !is_model && (self.is_error || self.kind == "error"),
            id: self.id,
            model: self.model,
            tokens,
            is_final: is_final && has_tokens,
            is_final_at_end: is_final_at_end && has_tokens,
            text: if is_repeated { 0 } else { self.text },
        };
        let mut all = self.told;
        // The brackets of a list tell nothing.
        if told != Told::default() {
            all.push(told);
        }
        all
    }
}

#[cfg(test)]
mod tests {
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
}
