//! PURE: what is counted in a turn, whichever way its CLI is run.

/// The model's answers and tool calls of a turn.
#[derive(Debug, Default)]
pub struct Steps {
    pub turns: u64,
    pub tool_calls: u64,
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
