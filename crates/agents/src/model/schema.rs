//! A JSON Schema, and the search for a fitting value in a model's answer. PURE.
//!
//! Models wrap JSON in prose and fences, add commas and comments, break lines inside strings. [`Schema::read`] tries every
//! position where an object or array may begin, first with the text unchanged, then with those faults repaired. The content of
//! strings is never changed, and missing content is never invented: a truncated answer does not count.

use super::repair::repair;
use ground::error::Error;
use ground::json;
use serde_json::{Deserializer, Value};
use std::fmt;

/// Most problems that are reported for a value.
const MAX_PROBLEMS: usize = 20;
/// Longest text of a problem. It quotes the value, which may have any length.
const MAX_PROBLEM_CHARACTERS: usize = 300;
/// Most positions that are tried as the beginning of a value.
const MAX_STARTS: usize = 2000;
/// Work limit of the repair: it reads at most this many times the length of the text.
const MENDED_READS: usize = 10;

/// A valid schema.
pub struct Schema {
    source: Value,
    validator: jsonschema::Validator,
}

/// A part of a value that does not fit, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the value; empty for the value itself.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(formatter, "{path}: {}", self.message)
    }
}

/// The result of searching a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Fits(Value),
    /// The likeliest value, and its problems.
    Misfits {
        value: Value,
        problems: Vec<Problem>,
    },
    NoJson,
}

impl Reading {
    /// The problems as texts, for an error or for the model. Empty if the value fits.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Reading::Fits(_) => Vec::new(),
            Reading::Misfits { problems, .. } => problems.iter().map(Problem::to_string).collect(),
            Reading::NoJson => vec!["/: the answer holds no complete JSON value".to_owned()],
        }
    }
}

impl Schema {
    /// Compiles a schema. `INVALID_OPTION` at `option_path` when it is invalid. References to other documents can't be resolved,
    /// because no network is used.
    pub fn compile(source: Value, option_path: &str) -> Result<Self, Error> {
        if !source.is_object() {
            return Err(Error::invalid_option(option_path, "expected a JSON Schema, an object"));
        }
        match jsonschema::validator_for(&source) {
            Ok(validator) => Ok(Schema { source, validator }),
            Err(error) => {
                let at = error.instance_path().to_string();
                let place = if at.is_empty() { String::new() } else { format!(" at {at}") };
                Err(Error::invalid_option(
                    option_path,
                    format!("invalid JSON Schema{place}: {}", shorten(&error)),
                ))
            }
        }
    }

    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The reasons why the value does not fit; empty when it does.
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        self.validator
            .iter_errors(value)
            .take(MAX_PROBLEMS)
            .map(|error| Problem { path: error.instance_path().to_string(), message: shorten(&error) })
            .collect()
    }

    /// The fitting value in the text. When there are several, the last one: models reason before they answer.
    pub fn read(&self, text: &str) -> Reading {
        let mut best = None;
        for value in whole(text).into_iter().chain(inside(text)).chain(mended(text)) {
            let problems = self.problems(&value);
            if problems.is_empty() {
                return Reading::Fits(value);
            }
            best.get_or_insert((value, problems));
        }
        match best {
            Some((value, problems)) => Reading::Misfits { value, problems },
            None => Reading::NoJson,
        }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Schema").field(&self.source).finish()
    }
}

fn shorten(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    match text.char_indices().nth(MAX_PROBLEM_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The values of the whole text: the text itself, the content of its fence, and the JSON inside a JSON string.
fn whole(text: &str) -> Vec<Value> {
    let text = text.trim().trim_start_matches('\u{feff}');
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")).and_then(|rest| {
        // The word after the opening fence is the language.
        rest.split_once('\n').map(|(_, body)| body)
    });
    let mut values = Vec::new();
    for candidate in [Some(text), fenced].into_iter().flatten() {
        let Ok(value) = json::read::<Value>(candidate) else { continue };
        let inner = value.as_str().and_then(|inner| json::read::<Value>(inner).ok());
        values.push(value);
        values.extend(inner);
    }
    values
}

/// Complete objects and arrays inside the text, the last first.
fn inside(text: &str) -> Vec<Value> {
    let mut values = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_STARTS {
        let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) else { break };
        let mut stream = Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                at = start + stream.byte_offset();
                values.push(value);
            }
            _ => at = start + 1,
        }
    }
    values.reverse();
    values
}

/// The same values after the repair. A beginning without an end makes the repair read far, so its total work is limited.
fn mended(text: &str) -> Vec<Value> {
    let mut values = Vec::new();
    let mut at = 0;
    let mut budget = text.len().saturating_mul(MENDED_READS);
    while let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) {
        let (mended, read) = repair(&text[start..]);
        match mended.and_then(|mended| json::read::<Value>(&mended).ok()) {
            Some(value) => {
                at = start + read;
                values.push(value);
            }
            None => at = start + 1,
        }
        match budget.checked_sub(read) {
            Some(left) => budget = left,
            None => break,
        }
    }
    values.reverse();
    values
}

#[cfg(test)]
#[path = "tests/schema.rs"]
mod tests;
