//! PURE: the sums over all attempts of a turn.

use crate::harness::event::Usage;
use crate::harness::evidence::metered::{plus, told, usage_of};
use crate::harness::spending::Pricing;
use crate::harness::verdict::result::{TurnFacts, TurnSandbox};
use process::{Metered, Refused};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub attempts: u32,
    pub tool_calls: u64,
    usage: Option<Usage>,
    turns: u64,
    /// A model answered, or a tool ran.
    pub has_worked: bool,
    /// The last attempt counts only if no other follows.
    is_free: bool,
    warnings: Vec<String>,
    /// Targets that the sandboxes of the attempts refused; absent without a sandbox.
    refused: Option<Vec<Refused>>,
    metered: Metered,
    /// How costs are told.
    pub pricing: Pricing,
}

impl Tally {
    /// An attempt is over.
    pub(crate) fn count(&mut self, facts: &TurnFacts, has_worked: bool) {
        self.attempts = (self.attempts + facts.attempts).saturating_sub(u32::from(self.is_free));
        self.is_free = false;
        self.has_worked |= has_worked;
        self.turns = self.turns.saturating_add(facts.turns);
        self.tool_calls += facts.tool_calls;
        if let Some(usage) = facts.usage {
            self.usage = Some(self.usage.unwrap_or_default().plus(usage));
        }
        for warning in &facts.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }

    /// Its sandbox refused these.
    pub(crate) fn count_refused(&mut self, refused: &[Refused]) {
        let all = self.refused.get_or_insert_default();
        for new in refused {
            match all.iter_mut().find(|known| known.kind == new.kind && known.what == new.what) {
                Some(known) => known.count = known.count.saturating_add(new.count),
                None => all.push(new.clone()),
            }
        }
    }

    /// These tokens were metered.
    pub(crate) fn count_metered(&mut self, metered: &Metered) {
        self.metered = plus(std::mem::take(&mut self.metered), metered);
    }

    /// The last attempt met a limit that is waited out: it is none if another follows.
    pub(crate) fn uncount(&mut self) {
        self.is_free = true;
    }

    /// Writes the sums into the result.
    pub(crate) fn fill(&self, facts: &mut TurnFacts) {
        facts.attempts = self.attempts;
        let metered = told(self.metered.clone());
        // The meter's tokens are used if the CLI reports none.
        let by_meter = || metered.as_ref().map(|metered| self.pricing.metered().of(usage_of(metered)));
        facts.usage = self.usage.or_else(by_meter);
        facts.turns = self.turns;
        facts.tool_calls = self.tool_calls;
        facts.warnings.clone_from(&self.warnings);
        facts.metered = metered;
        facts.sandbox = self.refused.clone().map(|refused| TurnSandbox { refused });
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::evidence::digest::Digest;
    use crate::harness::provider::Provider;
    use crate::harness::verdict::tally::*;

    #[test]
    fn attempts_are_summed_and_each_warning_is_told_once() {
        let mut tally = Tally::default();
        for tokens in [5, 7] {
            let mut digest = Digest::new(false);
            digest.usage(Usage { input_tokens: tokens, ..Usage::default() });
            digest.tool_start("1", "bash", || serde_json::Value::Null);
            digest.model_answered();
            digest.warning("cut");
            tally.count(&TurnFacts::of(Provider::Codex, &digest, false), true);
        }
        tally.uncount();
        assert_eq!(tally.attempts, 2, "no other follows");
        for _ in 0..2 {
            tally.count(&TurnFacts::of(Provider::Codex, &Digest::new(false), false), false);
        }
        assert_eq!((tally.attempts, tally.tool_calls, tally.turns), (3, 2, 2));
        assert_eq!(tally.usage.map(|usage| usage.input_tokens), Some(12));
        assert_eq!(tally.warnings, ["cut"]);
    }

    #[test]
    fn a_target_that_two_attempts_were_refused_is_counted_once() {
        let refused = |what: &str, count| Refused {
            kind: process::RefusedKind::Host,
            what: what.to_owned(),
            program: None,
            count,
        };
        let mut tally = Tally::default();
        tally.count_refused(&[refused("a", 2)]);
        tally.count_refused(&[refused("b", 1), refused("a", 3)]);
        assert_eq!(tally.refused, Some(vec![refused("a", 5), refused("b", 1)]));
    }
}
