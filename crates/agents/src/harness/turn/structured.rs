//! PURE: an answer that fits a JSON Schema. The CLI's own flag is used if it supports this schema. Otherwise the prompt asks
//! for the answer, in the final message and in a file of the run's own. Every answer is validated here.

use crate::harness::level::Level;
use crate::harness::provider::Provider;
use crate::model::{NO_JSON, Reading, Schema};
use ground::error::{Error, ErrorCode};
use serde_json::Value;

/// The file that the agent is asked to write its answer to, in the run's own folder.
pub const ANSWER_FILE: &str = "answer.json";

/// The prompt, with what the answer has to look like. Only an agent that may write anywhere can write that file.
pub fn prompt_with_schema(prompt: &str, schema: &Value, file: &str, level: Level) -> String {
    let by_file = match level {
        Level::Auto => format!(
            " If the answer is too long to give in one piece, write the same JSON to the file {file} instead and answer with the word done."
        ),
        Level::Plan | Level::Edit | Level::Ask => String::new(),
    };
    format!(
        "{prompt}\n\n---\nYour final answer has to be one JSON value that is valid against this JSON Schema, and nothing else: no \
         explanation, no code fence.{by_file}\n\n{schema}"
    )
}

/// The prompt of the one re-ask, in the same session.
pub fn prompt_with_problems(problems: &[String], schema: &Value, by_flag: bool) -> String {
    let listed: String = problems.iter().map(|problem| format!("\n- {problem}")).collect();
    let shape = if by_flag { String::new() } else { format!("\n\nThe JSON Schema:\n{schema}") };
    format!(
        "Your last answer does not fit the JSON Schema that was asked for:{listed}\n\nGive the corrected answer: one JSON value \
         that is valid against the schema, and nothing else.{shape}"
    )
}

/// The message of the event that reports the one re-ask.
pub(crate) const REASKED: &str = "the answer does not match the schema: asking the agent once more";

/// The error of an answer that does not fit, after the one re-ask.
pub(crate) fn misfit(provider: Provider, problems: Vec<String>) -> Error {
    let message =
        format!("the answer of {} does not fit the schema: {}", provider.as_str(), problems.join("; "));
    Error::new(ErrorCode::AgentSchemaMismatch, message).with("problems", problems)
}

/// Sources of the answer, the most reliable first.
pub struct Candidates<'a> {
    /// From the CLI's own flag.
    pub given: Option<&'a Value>,
    /// Text of the file that the agent wrote.
    pub file: Option<&'a str>,
    /// Its final answer.
    pub text: &'a str,
}

/// The first source that fits the schema, or the problems of the likeliest one.
pub fn read_answer(schema: &Schema, candidates: &Candidates) -> Reading {
    let given = candidates.given.map(|given| schema.fit(given.clone()));
    let texts = candidates.file.into_iter().chain([candidates.text]).map(|text| schema.read(text));
    let mut misfit = vec![NO_JSON.to_owned()];
    for reading in given.into_iter().chain(texts) {
        match reading {
            Ok(value) => return Ok(value),
            Err(problems) if misfit == [NO_JSON] => misfit = problems,
            Err(_) => {}
        }
    }
    Err(misfit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(
            json!({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}),
            "schema",
        )
        .unwrap()
    }

    #[test]
    fn the_first_candidate_that_fits_is_the_answer() {
        let given = json!({"a":"x"});
        let candidates = Candidates {
            given: Some(&given),
            file: Some("nothing"),
            text: "It is:\n```json\n{\"a\": 5,}\n```",
        };
        assert_eq!(read_answer(&schema(), &candidates), Ok(json!({"a":5})));
    }

    #[test]
    fn without_one_that_fits_the_problems_are_those_of_the_surest() {
        let given = json!({"a":"x"});
        let reading = read_answer(&schema(), &Candidates { given: Some(&given), file: None, text: "{}" });
        let problems = reading.unwrap_err();
        assert!(problems[0].contains("/a"), "{problems:?}");
        assert_eq!(
            read_answer(&schema(), &Candidates { given: None, file: None, text: "done" }),
            Err(vec![NO_JSON.to_owned()])
        );
    }
}
