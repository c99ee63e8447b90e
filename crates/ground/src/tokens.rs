//! PURE: the tokens that a service, a program or a log says it used, in all of their names.
//!
//! Some count tokens that were read from a cache, written to it, or thought, as a part of the input or output; others count them
//! beside it. The parts add up to the total where one is told. Otherwise the name says it.

use crate::json::Json;
use serde::Serialize;

/// The way in which tokens that were read from a cache are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedInput {
    /// They are part of the input tokens.
    Within,
    /// They are counted separately from the input tokens.
    Beside,
}

/// The tokens of an answer, a turn or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// With those that were written to a cache.
    #[serde(rename = "inputTokens")]
    pub input: u64,
    /// With those that were thought.
    #[serde(rename = "outputTokens")]
    pub output: u64,
    /// Those that were read from a cache.
    #[serde(rename = "cachedInputTokens")]
    pub cached: u64,
}

impl Tokens {
    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
        }
    }
}

/// A number that somebody tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Input,
    Output,
    Total,
    /// Alone it may be of anything.
    SomeTotal,
    /// Further input, such as the results of a server's own tools.
    More,
    /// A part of the input or output, which is counted beside it if nothing else is known.
    Beside(Part),
    /// A part of the input or output, which is counted within it if nothing else is known.
    Within(Part),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Written,
    Read,
    Thought,
}

impl Figure {
    const COUNT: usize = 11;

    const fn number(self) -> usize {
        match self {
            Figure::Input => 0,
            Figure::Output => 1,
            Figure::Total => 2,
            Figure::SomeTotal => 3,
            Figure::More => 4,
            Figure::Beside(part) => 5 + part as usize,
            Figure::Within(part) => 8 + part as usize,
        }
    }
}

/// The figures by their names; a point leads into an object. The first name of a figure that is told counts.
const NAMES: &[(&str, Figure)] = &[
    ("input_tokens", Figure::Input),
    ("inputTokens", Figure::Input),
    ("prompt_tokens", Figure::Input),
    ("promptTokens", Figure::Input),
    ("promptTokenCount", Figure::Input),
    ("input_token_count", Figure::Input),
    // Beside `input_tokens`, gemini tells here the part that is not from a cache.
    ("input", Figure::Input),
    ("output_tokens", Figure::Output),
    ("outputTokens", Figure::Output),
    ("completion_tokens", Figure::Output),
    ("completionTokens", Figure::Output),
    ("candidatesTokenCount", Figure::Output),
    ("output_token_count", Figure::Output),
    ("output", Figure::Output),
    ("total_tokens", Figure::Total),
    ("totalTokens", Figure::Total),
    ("totalTokenCount", Figure::Total),
    ("total_token_count", Figure::Total),
    ("total", Figure::SomeTotal),
    ("toolUsePromptTokenCount", Figure::More),
    ("cache_creation_input_tokens", Figure::Beside(Part::Written)),
    ("cacheCreationInputTokens", Figure::Beside(Part::Written)),
    ("cacheWriteInputTokens", Figure::Beside(Part::Written)),
    ("cachedWriteTokens", Figure::Beside(Part::Written)),
    ("cacheWriteTokens", Figure::Beside(Part::Written)),
    ("cacheWrite", Figure::Beside(Part::Written)),
    ("cache.write", Figure::Beside(Part::Written)),
    // codex: OpenAI counts it within.
    ("cache_write_input_tokens", Figure::Within(Part::Written)),
    ("prompt_tokens_details.cache_write_tokens", Figure::Within(Part::Written)),
    ("input_tokens_details.cache_write_tokens", Figure::Within(Part::Written)),
    ("cache_read_input_tokens", Figure::Beside(Part::Read)),
    ("cacheReadInputTokens", Figure::Beside(Part::Read)),
    ("cachedReadTokens", Figure::Beside(Part::Read)),
    ("cacheRead", Figure::Beside(Part::Read)),
    ("cache.read", Figure::Beside(Part::Read)),
    ("cacheReadTokens", Figure::Within(Part::Read)),
    ("cached_input_tokens", Figure::Within(Part::Read)),
    ("cachedInputTokens", Figure::Within(Part::Read)),
    ("cachedContentTokenCount", Figure::Within(Part::Read)),
    ("cached_content_token_count", Figure::Within(Part::Read)),
    ("prompt_tokens_details.cached_tokens", Figure::Within(Part::Read)),
    ("input_tokens_details.cached_tokens", Figure::Within(Part::Read)),
    ("prompt_cache_hit_tokens", Figure::Within(Part::Read)),
    ("cached", Figure::Within(Part::Read)),
    ("thoughtTokens", Figure::Beside(Part::Thought)),
    ("thoughtsTokenCount", Figure::Beside(Part::Thought)),
    ("thoughts_token_count", Figure::Beside(Part::Thought)),
    ("reasoningTokens", Figure::Beside(Part::Thought)),
    ("reasoning", Figure::Beside(Part::Thought)),
    ("thoughts", Figure::Beside(Part::Thought)),
    ("reasoning_output_tokens", Figure::Within(Part::Thought)),
    ("completion_tokens_details.reasoning_tokens", Figure::Within(Part::Thought)),
    ("output_tokens_details.reasoning_tokens", Figure::Within(Part::Thought)),
    ("output_tokens_details.thinking_tokens", Figure::Within(Part::Thought)),
];

/// The name as the table has it, and its figure. A point leads into an object.
pub fn named(path: &str) -> Option<(&'static str, Figure)> {
    NAMES.iter().find(|(known, _)| *known == path).copied()
}

/// The name of an object with figures in it, as the table has it.
pub fn object(name: &str) -> Option<&'static str> {
    NAMES.iter().filter_map(|(path, _)| Some(path.split_once('.')?.0)).find(|object| *object == name)
}

/// A part, and how many tokens it is.
#[derive(Clone, Copy)]
struct Counted {
    part: Part,
    tokens: u64,
    is_beside: bool,
}

/// The tokens, by a function that finds a number by its name; a total alone counts as input. `None`: none of them is told.
/// `cached`: how tokens that were read from a cache are to be counted; `None`: as they are told.
pub fn told(get: impl Fn(&str) -> Option<u64>, cached: Option<CachedInput>) -> Option<Tokens> {
    sum(|wanted| NAMES.iter().filter(|(_, figure)| *figure == wanted).find_map(|(name, _)| get(name)), cached)
}

/// The tokens that an object tells. Its members are read once, because they are few and the names many.
pub fn told_in(object: Json, cached: Option<CachedInput>) -> Option<Tokens> {
    let mut found = [None; Figure::COUNT];
    let mut keep = |place: usize, tokens: Option<u64>| {
        let found = &mut found[NAMES[place].1.number()];
        if let Some(tokens) = tokens.filter(|_| found.is_none_or(|(first, _)| place <= first)) {
            *found = Some((place, tokens));
        }
    };
    for (key, value) in object.members() {
        if value.is_object() {
            for (place, (path, _)) in NAMES.iter().enumerate() {
                if let Some(name) = inside(path, key) {
                    keep(place, value.field(name).count());
                }
            }
        } else if let Some(place) = NAMES.iter().position(|(name, _)| name.as_bytes() == key) {
            keep(place, value.count());
        }
    }
    sum(|wanted| found[wanted.number()].map(|(_, tokens)| tokens), cached)
}

/// The name behind the point of a path that leads into `object`.
fn inside<'a>(path: &'a str, object: &[u8]) -> Option<&'a str> {
    // Most end here, without a look at all of the name.
    if path.as_bytes().get(object.len()) != Some(&b'.') {
        return None;
    }
    path.split_once('.').filter(|(outer, _)| outer.as_bytes() == object).map(|(_, name)| name)
}

/// `first`: the number of the first name of a figure that is told.
fn sum(first: impl Fn(Figure) -> Option<u64>, cached: Option<CachedInput>) -> Option<Tokens> {
    let (input, output) = (first(Figure::Input), first(Figure::Output));
    if input.is_none() && output.is_none() {
        return first(Figure::Total).map(|total| Tokens { input: total, ..Tokens::default() });
    }
    let mut input = input.unwrap_or(0).saturating_add(first(Figure::More).unwrap_or(0));
    let mut output = output.unwrap_or(0);
    let mut parts = [Part::Written, Part::Read, Part::Thought].map(|part| {
        match (first(Figure::Beside(part)), first(Figure::Within(part))) {
            (Some(tokens), _) => Counted { part, tokens, is_beside: true },
            (None, tokens) => Counted { part, tokens: tokens.unwrap_or(0), is_beside: false },
        }
    });
    if let Some(total) = first(Figure::Total).or_else(|| first(Figure::SomeTotal)) {
        output = output.saturating_add(fit(&mut parts, total.saturating_sub(input.saturating_add(output))));
    }
    for Counted { part, tokens, is_beside } in parts {
        match (part, is_beside, cached) {
            (Part::Written, true, _) | (Part::Read, true, Some(CachedInput::Within)) => {
                input = input.saturating_add(tokens);
            }
            (Part::Read, false, Some(CachedInput::Beside)) => input = input.saturating_sub(tokens),
            (Part::Thought, true, _) => output = output.saturating_add(tokens),
            _ => {}
        }
    }
    Some(Tokens { input, output, cached: parts[1].tokens })
}

/// Decides which parts are counted beside the rest, so that they are `missing` tokens together. Returns those that no part tells.
fn fit(parts: &mut [Counted; 3], missing: u64) -> u64 {
    let beside = |ways: u8, parts: &[Counted; 3]| {
        let is_beside = |at: usize| parts[at].is_beside != (ways & (1 << at) != 0);
        let tokens = (0..3).filter(|&at| is_beside(at)).map(|at| parts[at].tokens);
        tokens.fold(0, u64::saturating_add)
    };
    // The meaning of the names is tried first, then changes of one part, then of more.
    let found = [0_u8, 1, 2, 4, 3, 5, 6, 7].into_iter().find(|ways| beside(*ways, parts) == missing);
    if let Some(ways) = found {
        for (at, part) in parts.iter_mut().enumerate() {
            part.is_beside ^= ways & (1 << at) != 0;
        }
    }
    missing.saturating_sub(beside(0, parts))
}

/// Tokens that the answers of models to a program used, as seen on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metered {
    /// Those read from a cache included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
    /// Answers of models, those included that are still to come.
    pub requests: u64,
    /// Those among them that did not say their tokens, so that they were estimated.
    pub estimated: u64,
    /// Answers that could not be read.
    pub unread: u64,
    /// The models, as they name themselves.
    pub models: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(usage: &Value, cached: Option<CachedInput>) -> Option<Tokens> {
        let told =
            told(|path| path.split('.').try_fold(usage, |inner, name| inner.get(name))?.as_u64(), cached);
        let text = usage.to_string();
        let mut index = crate::json::Index::default();
        assert_eq!(told_in(index.read(text.as_bytes()).unwrap().json(), cached), told, "{text}");
        told
    }

    #[test]
    fn the_parts_add_up_to_the_total_whatever_they_are_called() {
        let (within, beside) = (Some(CachedInput::Within), Some(CachedInput::Beside));
        for (usage, cached, [input, output, read_tokens]) in [
            // Recordings.
            (
                json!({"inputTokens":1200,"outputTokens":34,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200}),
                within,
                [1200, 34, 200],
            ),
            (
                json!({"inputTokens":1000,"outputTokens":29,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200}),
                within,
                [1200, 34, 200],
            ),
            (
                json!({"inputTokens":1000,"outputTokens":34,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200}),
                beside,
                [1000, 34, 200],
            ),
            (
                json!({"total_tokens":1239,"input_tokens":1200,"output_tokens":34,"cached":200,"input":1000}),
                within,
                [1200, 39, 200],
            ),
            (
                json!({"input_tokens":1200,"output_tokens":34,"cache_read_input_tokens":200,"total_tokens":1234}),
                within,
                [1200, 34, 200],
            ),
            // Every figure above zero.
            (
                json!({"total":31300,"input":1000,"output":29,"reasoning":71,"cache":{"write":30000,"read":200}}),
                beside,
                [31_000, 100, 200],
            ),
            (
                json!({"input":4,"output":34,"cacheRead":7,"cacheWrite":30000,"totalTokens":30045}),
                beside,
                [30_004, 34, 7],
            ),
            (
                json!({"input_tokens":4,"cache_creation_input_tokens":30000,"cache_read_input_tokens":9,"output_tokens":34}),
                beside,
                [30_004, 34, 9],
            ),
            (
                json!({"input_tokens":900,"cached_input_tokens":200,"cache_write_input_tokens":300,"output_tokens":34,"reasoning_output_tokens":5}),
                within,
                [900, 34, 200],
            ),
            (
                json!({"inputTokens":4,"outputTokens":34,"cacheReadTokens":1,"cacheWriteTokens":30000,"reasoningTokens":5}),
                within,
                [30_004, 39, 1],
            ),
            (
                json!({"inputTokens":10,"outputTokens":34,"cachedReadTokens":20,"cachedWriteTokens":30,"thoughtTokens":5}),
                None,
                [40, 39, 20],
            ),
            (
                json!({"prompt_tokens":100,"completion_tokens":20,"total_tokens":170,"completion_tokens_details":{"reasoning_tokens":50},"prompt_tokens_details":{"cached_tokens":60}}),
                within,
                [100, 70, 60],
            ),
            (
                json!({"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":50,"toolUsePromptTokenCount":7,"cachedContentTokenCount":60,"totalTokenCount":177}),
                within,
                [107, 70, 60],
            ),
            // No total.
            (
                json!({"input":4,"output":34,"reasoning":0,"cache":{"read":0,"write":30000}}),
                beside,
                [30_004, 34, 0],
            ),
        ] {
            let expected = Tokens { input, output, cached: read_tokens };
            assert_eq!(read(&usage, cached), Some(expected), "{usage}");
        }
    }

    #[test]
    fn what_is_not_told_is_not_made_up() {
        assert_eq!(read(&json!({ "premiumRequests": 3, "total": 7 }), None), None);
        let total = Tokens { input: 342, ..Tokens::default() };
        assert_eq!(read(&json!({ "totalTokens": 342 }), None), Some(total));
        let mad = json!({ "input_tokens": u64::MAX, "output_tokens": u64::MAX, "total_tokens": 1, "cache_creation_input_tokens": u64::MAX });
        assert_eq!(read(&mad, None), Some(Tokens { input: u64::MAX, output: u64::MAX, cached: 0 }));
    }
}
