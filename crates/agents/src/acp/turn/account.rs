//! PURE: the sums of a turn so far: its text, its tokens, its counts.

use crate::acp::wire::update::TurnEnd;
use crate::harness::evidence::answer::append;
use crate::harness::evidence::counts::{Steps, Warnings};
use crate::harness::evidence::reset::Reset;
use crate::harness::evidence::turn_usage::TurnUsage;
use crate::harness::spending::Pricing;
use crate::harness::{AgentEvent, Usage};
use ground::json::Pieces;

#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The text since the last tool call.
    text: String,
    /// Start of the current message in `text`.
    message_at: usize,
    message: Option<String>,
    pieces: Pieces,
    thoughts: Pieces,
    /// Start of the last piece in `text`.
    piece_at: usize,
    /// The answer was cut at its longest length.
    is_cut: bool,
    is_cut_told: bool,
    steps: Steps,
    usage: TurnUsage,
    /// End of the account's usage limit, as the agent reported it during the turn.
    pub(crate) reset: Option<Reset>,
    warnings: Warnings,
}

impl Account {
    /// Words of the answer. A new message begins a new paragraph.
    pub(crate) fn on_text(&mut self, text: &str, message: Option<&str>, whole: bool) -> Option<AgentEvent> {
        let text = &*self.pieces.push(text);
        if text.is_empty() {
            return None;
        }
        self.steps.speaks();
        let is_same = self.message.as_deref() == message && message.is_some() && !self.text.is_empty();
        let is_next = self.message.as_deref() != message && !self.text.is_empty();
        self.message = message.map(str::to_owned);
        if is_next {
            self.append("\n\n");
            self.message_at = self.text.len();
        }
        if whole && is_same {
            let told = self.text[self.message_at..] == *text;
            self.text.truncate(self.message_at);
            self.append(text);
            return (!told).then(|| AgentEvent::Text { text: text.to_owned(), delta: false });
        }
        self.piece_at = self.text.len();
        self.append(text);
        Some(AgentEvent::Text { text: text.to_owned(), delta: !whole })
    }

    pub(crate) fn on_thought(&mut self, text: &str) -> Option<AgentEvent> {
        let text = &*self.thoughts.push(text);
        if text.is_empty() {
            return None;
        }
        self.steps.speaks();
        Some(AgentEvent::Reasoning { text: text.to_owned(), delta: true })
    }

    /// A call that was not known before: the answer is what is said after it.
    pub(crate) fn on_tool(&mut self) {
        self.steps.speaks();
        self.steps.answer_ends();
        self.steps.tool_calls += 1;
        self.text.clear();
        self.message_at = 0;
        self.message = None;
    }

    /// Costs are told by these prices.
    pub(crate) fn price_by(&mut self, pricing: Pricing) {
        self.usage.price_by(pricing);
    }

    pub(crate) fn on_passing_usage(&mut self, usage: Usage) {
        self.usage.add_passing(usage);
    }

    /// An end of turn, one of several if the agent woke up by itself. What it says of tokens, as an event.
    pub(crate) fn on_end(&mut self, usage: Option<Usage>, cost_usd: Option<f64>) -> Option<AgentEvent> {
        self.steps.answer_ends();
        let passing = self.usage.take_passing();
        let mut usage = usage.or(passing);
        if let Some(cost) = cost_usd.filter(|cost| *cost > 0.0) {
            usage = Some(Usage { cost_usd: Some(cost), ..usage.unwrap_or_default() });
        }
        let usage = usage?;
        Some(AgentEvent::Usage(self.usage.add(usage)))
    }

    pub(crate) fn warn(&mut self, message: &str) {
        self.warnings.add(message);
    }

    /// The answer is asked for once more: what was said so far is no part of it.
    pub(crate) fn ask_again(&mut self) {
        self.text.clear();
        self.message_at = 0;
        self.piece_at = 0;
        self.message = None;
        self.reset = None;
    }

    fn append(&mut self, text: &str) {
        append(&mut self.text, text, &mut self.is_cut);
    }

    /// Something of the answer was left out, and nobody was told yet.
    pub(crate) fn is_newly_cut(&mut self) -> bool {
        self.is_cut && !std::mem::replace(&mut self.is_cut_told, self.is_cut)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn last_piece(&self) -> &str {
        self.text.get(self.piece_at..).unwrap_or_default()
    }

    pub(crate) fn take_text(&mut self) -> String {
        self.text.push_str(self.pieces.end());
        std::mem::take(&mut self.text)
    }

    pub(crate) fn turns(&self) -> u64 {
        self.steps.turns
    }

    pub(crate) fn tool_calls(&self) -> u64 {
        self.steps.tool_calls
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage.total()
    }

    /// The work done so far, in figures that only grow: tool calls, and tokens of a model that answered.
    pub(crate) fn work(&self) -> (u64, u64) {
        let tokens = self.usage().map_or(0, |usage| usage.input_tokens + usage.output_tokens);
        (self.steps.tool_calls, tokens)
    }

    pub(crate) fn warnings(&self) -> &[String] {
        self.warnings.all()
    }
}

/// Usage of the session over all its turns, for agents that count on.
#[derive(Debug, Default)]
pub(crate) struct SessionUsage {
    counted: Option<Usage>,
    cost: f64,
    cost_told: f64,
    /// Usage of the turns that are over.
    spent: Usage,
}

impl SessionUsage {
    /// The tokens of the turn alone. `counts_on`: what the agent tells is the session's.
    pub(crate) fn of_turn(&mut self, end: &TurnEnd, counts_on: bool) -> Option<Usage> {
        let told = end.usage?;
        if !counts_on {
            return Some(told);
        }
        let before = self.counted.replace(told);
        Some(before.map_or(told, |before| told.since(before)))
    }

    /// The money of the session so far.
    pub(crate) fn on_cost(&mut self, cost: f64) {
        self.cost = cost;
    }

    /// A turn is over that used this.
    pub(crate) fn on_turn(&mut self, usage: Option<Usage>) {
        self.spent = self.spent.plus(usage.unwrap_or_default());
    }

    /// All that the session has used, with a turn under way that used this so far. A resumed session's money counts on from
    /// before; that is not this session's.
    pub(crate) fn so_far(&self, turn: Option<Usage>) -> Usage {
        let tokens = self.spent.plus(turn.unwrap_or_default());
        let untold = self.cost - self.cost_told;
        if untold > 0.0 { tokens.plus(Usage { cost_usd: Some(untold), ..Usage::default() }) } else { tokens }
    }

    /// The money since the last time that this was asked.
    pub(crate) fn cost_of_turn(&mut self) -> Option<f64> {
        let spent = self.cost - self.cost_told;
        self.cost_told = self.cost;
        (spent > 0.0).then(|| (spent * 1e9).round() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::evidence::answer::MAX_ANSWER_BYTES;

    #[test]
    fn the_answer_is_what_was_said_after_the_last_tool_call() {
        let mut account = Account::default();
        account.on_text("I will ", None, false);
        account.on_text("look.", None, false);
        account.on_tool();
        assert_eq!(account.text(), "");
        account.on_text("It is ", Some("a"), false);
        account.on_text("done.", Some("a"), false);
        account.on_text("And more.", Some("b"), false);
        assert_eq!(account.text(), "It is done.\n\nAnd more.");
        assert_eq!((account.turns(), account.tool_calls()), (2, 1));
    }

    #[test]
    fn a_whole_message_replaces_its_pieces_and_is_not_told_twice() {
        let mut account = Account::default();
        account.on_text("Hel", Some("a"), false);
        account.on_text("lo", Some("a"), false);
        assert_eq!(account.on_text("Hello", Some("a"), true), None);
        assert!(account.on_text("Hello!", Some("a"), true).is_some());
        assert_eq!(account.text(), "Hello!");
    }

    #[test]
    fn tokens_of_several_ends_are_summed_and_counted_on_ones_differenced() {
        let usage = |tokens| Usage { input_tokens: tokens, output_tokens: 1, ..Usage::default() };
        let mut account = Account::default();
        account.on_passing_usage(usage(5));
        account.on_end(Some(usage(10)), Some(0.5));
        account.on_passing_usage(usage(7));
        assert_eq!(account.usage().map(|usage| usage.input_tokens), Some(17), "before the next end");
        account.on_end(None, None);
        assert_eq!(account.usage().map(|usage| (usage.input_tokens, usage.cost_usd)), Some((17, Some(0.5))));
        let mut session = SessionUsage::default();
        let end = |tokens| TurnEnd {
            reason: crate::acp::wire::update::StopReason::EndTurn,
            usage: Some(usage(tokens)),
        };
        assert_eq!(session.of_turn(&end(10), true).map(|usage| usage.input_tokens), Some(10));
        assert_eq!(session.of_turn(&end(25), true).map(|usage| usage.input_tokens), Some(15));
        session.on_cost(0.5);
        assert_eq!((session.cost_of_turn(), session.cost_of_turn()), (Some(0.5), None));
    }

    #[test]
    fn an_answer_without_end_is_kept_within_bounds() {
        let mut account = Account::default();
        for _ in 0..20 {
            account.on_text(&"\u{e9}".repeat(1 << 20), None, false);
        }
        assert!(account.text().len() <= MAX_ANSWER_BYTES);
        assert!(account.is_newly_cut() && !account.is_newly_cut());
        account.on_text("more", None, false);
        assert!(!account.is_newly_cut(), "once a turn");
    }
}
