//! PURE: what a session has used over all its turns.

use crate::acp::wire::update::TurnEnd;
use crate::harness::Usage;
use crate::harness::event::exact;

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

    /// Usage of a session that is resumed, and that had cost so much.
    pub(crate) fn after(cost: Option<f64>) -> SessionUsage {
        let cost = cost.unwrap_or(0.0);
        SessionUsage { cost, cost_told: cost, ..SessionUsage::default() }
    }

    /// The money of the session so far. A lower sum than before was begun anew, by a process that does not count on.
    pub(crate) fn on_cost(&mut self, cost: f64) {
        if cost < self.cost_told {
            self.cost_told = 0.0;
        }
        self.cost = cost;
    }

    /// The money of the session so far, where the agent tells it.
    pub(crate) fn cost(&self) -> Option<f64> {
        Some(self.cost).filter(|cost| *cost > 0.0)
    }

    /// A turn is over that used this.
    pub(crate) fn on_turn(&mut self, usage: Option<Usage>) {
        self.spent = self.spent.plus(usage.unwrap_or_default());
    }

    /// All that the session has used since it was opened, with a turn under way that used this so far.
    pub(crate) fn so_far(&self, turn: Option<Usage>) -> Usage {
        let tokens = self.spent.plus(turn.unwrap_or_default());
        let untold = self.cost - self.cost_told;
        if untold > 0.0 { tokens.plus(Usage { cost_usd: Some(untold), ..Usage::default() }) } else { tokens }
    }

    /// The money since the last time that this was asked.
    pub(crate) fn cost_of_turn(&mut self) -> Option<f64> {
        let spent = self.cost - self.cost_told;
        self.cost_told = self.cost;
        (spent > 0.0).then(|| exact(spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::wire::update::StopReason;

    #[test]
    fn counted_on_tokens_and_money_are_differenced() {
        let mut session = SessionUsage::default();
        let end = |input_tokens| TurnEnd {
            reason: StopReason::EndTurn,
            usage: Some(Usage { input_tokens, output_tokens: 1, ..Usage::default() }),
        };
        assert_eq!(session.of_turn(&end(10), true).map(|usage| usage.input_tokens), Some(10));
        assert_eq!(session.of_turn(&end(25), true).map(|usage| usage.input_tokens), Some(15));
        session.on_cost(0.5);
        assert_eq!((session.cost_of_turn(), session.cost_of_turn()), (Some(0.5), None));
        for (before, told, spent) in
            [(0.5, 0.75, 0.25), (0.5, 0.5, 0.0), (0.5, 0.125, 0.125), (0.0, 0.5, 0.5)]
        {
            let mut session = SessionUsage::after(Some(before));
            session.on_cost(told);
            assert_eq!(session.so_far(None).cost_usd.unwrap_or(0.0), spent, "{before} {told}");
            assert_eq!(session.cost_of_turn().unwrap_or(0.0), spent, "{before} {told}");
        }
    }
}
