//! PURE: what is counted in a turn, and its warnings, whichever way its CLI is run.

use crate::harness::clip::clip;

/// Most warnings of one turn.
const MAX_WARNINGS: usize = 100;

/// Warnings of a turn, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    pub(crate) fn add(&mut self, message: &str) {
        if self.0.len() < MAX_WARNINGS && !self.0.iter().any(|known| known == message) {
            self.0.push(clip(message).into_owned());
        }
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }
}

/// The model's answers and tool calls of a turn.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) turns: u64,
    pub(crate) tool_calls: u64,
    in_answer: bool,
    /// The model answered in what was read, whatever count of turns the CLI reports.
    pub(crate) has_answered: bool,
}

impl Steps {
    /// The model began an answer, or goes on with it.
    pub(crate) fn speaks(&mut self) {
        if !std::mem::replace(&mut self.in_answer, true) {
            self.answers();
        }
    }

    /// One answer of the model.
    pub(crate) fn answers(&mut self) {
        self.has_answered = true;
        self.turns = self.turns.saturating_add(1);
    }

    /// The answer ends: with the end of a tool, or of the turn.
    pub(crate) fn answer_ends(&mut self) {
        self.in_answer = false;
    }
}
