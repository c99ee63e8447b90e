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
    /// The one that is read, as far as it tells of itself.
    next: Told,
    kind: String,
    /// An object of OpenAI's responses.
    is_response: bool,
    has_usage: bool,
    has_metadata: bool,
    /// By the names of the table of all figures.
    numbers: Vec<(&'static str, Figure, u64)>,
    /// Number of the choices; `None`: no list of them.
    choices: Option<u64>,
    has_candidates: bool,
    has_finished: bool,
    is_line_of_batch: bool,
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
                self.choices = self.choices.map(|count| count.saturating_add(1));
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
            Place::Choices if is_list => self.choices = self.choices.or(Some(0)),
            Place::Candidates => self.has_candidates |= is_list,
            Place::Usage => self.has_usage |= !is_list,
            Place::Metadata => self.has_metadata |= !is_list,
            Place::Error => self.next.is_error = true,
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
            Place::Id(Level::Outer) if self.next.id.is_some() => {}
            Place::Id(_) if (1..=200).contains(&length) => self.next.id = Some(start.to_owned()),
            Place::Model if (1..=200).contains(&length) => self.next.model = Some(start.to_owned()),
            Place::Figure(..) => self.plain(place, start),
            Place::Error => self.next.is_error = true,
            Place::Finish => self.has_finished = true,
            Place::Words | Place::All => self.next.text = self.next.text.saturating_add(length),
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
            _ if self.choices.is_some()
                || self.has_number(&["prompt_tokens", "promptTokenCount"]) && self.has_usage =>
            {
                (true, self.has_finished || self.choices.unwrap_or_default() == 0, true)
            }
            _ if self.has_candidates || self.has_metadata => (true, self.has_finished, false),
            _ if self.is_line_of_batch => (has_tokens, true, true),
            _ => (self.has_usage && has_tokens, true, true),
        };
        // The last event of OpenAI's responses repeats what the others said.
        let is_repeated = is_final && self.kind.starts_with("response.");
        let told = Told {
            is_model,
            is_error: !is_model && (self.next.is_error || self.kind == "error"),
            tokens,
            is_final: is_final && has_tokens,
            is_final_at_end: is_final_at_end && has_tokens,
            text: if is_repeated { 0 } else { self.next.text },
            ..self.next
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
mod tests;
