//! A JSON Schema, and the search for a fitting value in a model's answer. PURE.
//!
//! Models wrap JSON in prose and fences, add commas and comments, break lines inside strings. [`Schema::read`] takes the outermost
//! objects and arrays of the text, unchanged or with those faults repaired, and never looks inside of one. The content of strings
//! is never changed, and missing content is never invented: a truncated answer does not count.

use super::repair::repair;
use ground::error::Error;
use ground::json;
use serde_json::Value;
use std::fmt;

/// Most problems that are reported for a value.
const MAX_PROBLEMS: usize = 20;
/// Longest text of a problem. It quotes the value, which may have any length.
const MAX_PROBLEM_CHARACTERS: usize = 300;

/// A valid schema.
pub struct Schema {
    source: Value,
    validator: jsonschema::Validator,
}

/// The value that fits, or the problems of the likeliest one, each with its place.
pub type Reading = Result<Value, Vec<String>>;

/// The problem of a text without any value.
pub(crate) const NO_JSON: &str = "/: the answer holds no complete JSON value";

impl Schema {
    /// Compiles a schema. `INVALID_OPTION` at `option_path` when it is invalid. References to other documents can't be resolved,
    /// because no network is used.
    pub fn compile(source: Value, option_path: &str) -> Result<Self, Error> {
        if !source.is_object() {
            return Err(Error::invalid_option(option_path, "expected a JSON Schema, an object"));
        }
        // Also what `format` says, which the standard leaves open.
        match jsonschema::options().should_validate_formats(true).build(&source) {
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
    pub fn problems(&self, value: &Value) -> Vec<String> {
        self.validator
            .iter_errors(value)
            .take(MAX_PROBLEMS)
            .map(|error| {
                let path = error.instance_path().to_string();
                format!("{}: {}", if path.is_empty() { "/" } else { &path }, shorten(&error))
            })
            .collect()
    }

    /// The fitting value in the text. When there are several, the last one: models reason before they answer.
    pub fn read(&self, text: &str) -> Reading {
        let mut likeliest = None;
        for value in whole(text).into_iter().chain(outermost(text)) {
            match self.fit(value) {
                Ok(value) => return Ok(value),
                Err(problems) => _ = likeliest.get_or_insert(problems),
            }
        }
        Err(likeliest.unwrap_or_else(|| vec![NO_JSON.to_owned()]))
    }

    /// The value itself, if it fits.
    pub fn fit(&self, value: Value) -> Reading {
        let problems = self.problems(&value);
        if problems.is_empty() { Ok(value) } else { Err(problems) }
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
        let Some(value) = read(candidate) else { continue };
        let inner = value.as_str().and_then(read);
        values.push(value);
        values.extend(inner);
    }
    values
}

/// The outermost objects and arrays of the text, the last first, repaired where they need it.
///
/// Nothing inside of a value is looked at, whether the value could be read or not. A bracket without its partner says that the
/// text was cut, or that a slip hides where a value begins or ends: what stands before it may be a part of that value.
fn outermost(text: &str) -> Vec<Value> {
    let mut values = Vec::new();
    let mut at = 0;
    while let Some(place) = text[at..].find(['{', '[', '}', ']']).map(|offset| at + offset) {
        at = place + 1;
        if is_quoted(text, place) {
            continue;
        }
        if text[place..].starts_with(['}', ']']) {
            values.clear();
            continue;
        }
        let (repaired, length) = repair(&text[place..]);
        let Some(repaired) = repaired else { return Vec::new() };
        at = place + length;
        values.extend(read(&text[place..at]).or_else(|| read(&repaired)));
    }
    values.reverse();
    values
}

/// Whether prose names the bracket: "{".
fn is_quoted(text: &str, place: usize) -> bool {
    let mut behind = text[place + 1..].chars();
    match (text[..place].chars().next_back(), behind.next(), behind.next()) {
        (Some('\''), Some('\''), _) | (Some('`'), Some('`'), _) => true,
        // A name in an object begins with neither.
        (Some('"'), Some('"'), Some(next)) => next == ' ' || ",.;)".contains(next),
        _ => false,
    }
}

/// A whole value. One that is too deep to be built whole is none.
fn read(text: &str) -> Option<Value> {
    let value = json::read(text).ok()?;
    json::depth(text.as_bytes()).is_none_or(|depth| depth <= json::MAX_DEPTH).then_some(value)
}

#[cfg(test)]
#[path = "tests/schema.rs"]
mod tests;
