//! PURE: the reports of an agent over a protocol, whose messages join to one answer, and whose calls of tools are known elsewhere.

use super::Digest;
use crate::harness::event::{AgentEvent, Usage};

impl Digest {
    /// A call that was not known before, of an agent whose answer is what it says after the last one.
    pub(crate) fn tool_called(&mut self) {
        self.steps.speaks();
        self.steps.answer_ends();
        self.steps.tool_calls += 1;
        self.answer.clear();
    }

    /// Words of the message `key`, a piece or all of them, of an agent whose messages join.
    pub(crate) fn words(&mut self, key: Option<&str>, text: &str, whole: bool) {
        let Some(text) = self.answer.join(key, text, whole) else { return };
        self.steps.speaks();
        self.emit(|| AgentEvent::Text { text: text.into_owned(), delta: !whole });
        self.output_ended();
    }

    /// A piece of the thoughts of such an agent.
    pub(crate) fn thought(&mut self, text: &str) {
        if !text.is_empty() {
            self.steps.speaks();
            self.reasoning(text, true);
        }
    }

    /// The answer is asked for once more: the words so far are no part of it.
    pub(crate) fn begin_answer(&mut self) {
        self.answer.clear();
        self.trouble.reset = None;
    }

    /// The agent asks its model again by itself.
    pub(crate) fn asked_again(&mut self, message: String) {
        self.begin_answer();
        self.emit(|| AgentEvent::Retry { message, until: None });
    }

    /// An end of turn, one of several if the agent woke up by itself, with the usage since the one before.
    pub(crate) fn part_ends(&mut self, usage: Option<Usage>, cost_usd: Option<f64>) {
        self.steps.answer_ends();
        self.answer.pieces_end();
        let passing = self.usage.take_passing();
        let mut usage = usage.or(passing);
        if let Some(cost) = cost_usd.filter(|cost| *cost > 0.0) {
            usage = Some(Usage { cost_usd: Some(cost), ..usage.unwrap_or_default() });
        }
        if let Some(usage) = usage {
            self.usage(usage);
        }
    }
}
