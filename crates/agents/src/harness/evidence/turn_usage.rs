//! PURE. The tokens of a turn. An agent reports them at its ends; some report them in passing too, call by call, and repeat them at
//! the next end. What was reported in passing counts until that end comes: a budget must not wait for it.

use crate::harness::event::Usage;
use crate::harness::spending::Pricing;

/// The tokens of a turn so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnUsage {
    /// Tokens that ends of the turn reported.
    ended: Option<Usage>,
    /// Tokens reported since the last end.
    passing: Option<Usage>,
    /// How the cost is told from here on.
    pub pricing: Pricing,
}

impl TurnUsage {
    /// Adds the tokens of one end, which include those reported in passing before it. Returns them as they are told.
    pub(crate) fn add(&mut self, usage: Usage) -> Usage {
        self.passing = None;
        self.ended = Some(self.ended.unwrap_or_default().plus(usage));
        self.pricing.of(usage)
    }

    /// Sets the tokens of the whole turn. Returns what is new of them.
    pub(crate) fn set(&mut self, total: Usage) -> Usage {
        self.passing = None;
        let new = self.ended.map_or(total, |known| total.since(known));
        self.ended = Some(total);
        self.pricing.of(new)
    }

    /// Adds tokens of one call, reported in passing.
    pub(crate) fn add_passing(&mut self, usage: Usage) {
        self.set_passing(self.passing.unwrap_or_default().plus(usage));
    }

    /// Sets all tokens reported in passing since the last end.
    pub(crate) fn set_passing(&mut self, since: Usage) {
        self.passing = Some(since);
    }

    /// Tokens reported in passing that no end has told yet, as they are told.
    pub(crate) fn untold(&self) -> Usage {
        self.pricing.of(self.passing.unwrap_or_default())
    }

    /// Takes the tokens reported in passing, for an end that reports none itself.
    pub(crate) fn take_passing(&mut self) -> Option<Usage> {
        self.passing.take()
    }

    /// All tokens so far. `None`: nothing was reported.
    pub(crate) fn total(&self) -> Option<Usage> {
        let total = match (self.ended, self.passing) {
            (Some(ended), Some(passing)) => Some(ended.plus(passing)),
            (ended, passing) => ended.or(passing),
        };
        total.map(|total| self.pricing.of(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input_tokens: u64) -> Usage {
        Usage { input_tokens, ..Usage::default() }
    }

    #[test]
    fn tokens_in_passing_count_at_once_and_once() {
        let mut usage = TurnUsage::default();
        let so_far = |usage: &TurnUsage| usage.total().map(|usage| usage.input_tokens);
        assert_eq!(so_far(&usage), None);
        usage.add_passing(tokens(3));
        usage.add_passing(tokens(4));
        assert_eq!(so_far(&usage), Some(7));
        usage.add(tokens(7));
        assert_eq!(so_far(&usage), Some(7), "the end repeats them");
        usage.add_passing(tokens(5));
        assert_eq!(so_far(&usage), Some(12), "they count before the next end");
        usage.set_passing(tokens(6));
        assert_eq!(so_far(&usage), Some(13));
        assert_eq!(usage.set(tokens(20)), tokens(13));
        assert_eq!(so_far(&usage), Some(20));
    }
}
