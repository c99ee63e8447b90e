//! PURE: the tokens and the money for which an agent's usage counts in a budget.
//!
//! Tokens are `inputTokens` plus `outputTokens`, as in the `usage` of events and results. Money is computed from the tokens by
//! `prices`, or without prices taken from the CLI's report. A token that was read from a cache costs `cachedPerMillion`, or
//! `inputPerMillion` without it.

use crate::harness::event::{CostSource, Usage};
use ground::error::{Error, ErrorCode};
pub use ground::tokens::CachedInput;
use serde::{Deserialize, Serialize};

/// Prices of a million tokens, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prices {
    pub input_per_million: f64,
    pub output_per_million: f64,
    pub cached_per_million: Option<f64>,
}

/// The usage figures that a CLI reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    #[default]
    Nothing,
    Tokens(CachedInput),
    /// Tokens and money.
    TokensAndMoney(CachedInput),
}

/// The caller's prices, if there are some, and what they are multiplied with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pricing {
    pub prices: Option<Prices>,
    pub accounting: Accounting,
}

impl Pricing {
    /// The same for tokens that the meter of a sandbox counted.
    pub(crate) fn metered(self) -> Pricing {
        Pricing { accounting: METERED, ..self }
    }

    /// The usage as it is told to the caller: with the cost that counts in budgets, and its source.
    pub(crate) fn of(self, usage: Usage) -> Usage {
        match &self.prices {
            Some(prices) => {
                let spent = Spent::of(&usage, Some(prices), self.accounting);
                Usage { cost_usd: Some(spent.cost_usd()), cost_source: Some(CostSource::Prices), ..usage }
            }
            None => Usage { cost_source: usage.cost_usd.map(|_| CostSource::Agent), ..usage },
        }
    }
}

/// How the meter of a sandbox counts.
pub(crate) const METERED: Accounting = Accounting::Tokens(CachedInput::Within);

impl Accounting {
    fn is_beside(self) -> bool {
        matches!(
            self,
            Accounting::Tokens(CachedInput::Beside) | Accounting::TokensAndMoney(CachedInput::Beside)
        )
    }
}

/// Tokens, and money in billionths of a dollar: whole numbers, so that no order of adding makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    pub nano_usd: u64,
}

const NANO: f64 = 1e9;

impl Spent {
    pub fn of(usage: &Usage, prices: Option<&Prices>, accounting: Accounting) -> Spent {
        let tokens = usage.tokens();
        let money = match prices {
            Some(prices) => prices.of(usage, accounting),
            None => usage.cost_usd.unwrap_or(0.0),
        };
        // A float that is no number, or too large, becomes the nearest that there is.
        Spent { tokens, nano_usd: (money * NANO).round() as u64 }
    }

    /// Metered tokens, as the CLI would count them: otherwise a cap would mean something else where a sandbox meters.
    pub(crate) fn of_metered(metered: &Usage, prices: Option<&Prices>, accounting: Accounting) -> Spent {
        if !accounting.is_beside() {
            return Spent::of(metered, prices, METERED);
        }
        let input_tokens = metered.input_tokens.saturating_sub(metered.cached_input_tokens);
        Spent::of(&Usage { input_tokens, ..*metered }, prices, accounting)
    }

    pub fn plus(self, other: Spent) -> Spent {
        Spent {
            tokens: self.tokens.saturating_add(other.tokens),
            nano_usd: self.nano_usd.saturating_add(other.nano_usd),
        }
    }

    /// The larger of each: what one of two meters did not see, the other may have.
    pub(crate) fn max(self, other: Spent) -> Spent {
        Spent { tokens: self.tokens.max(other.tokens), nano_usd: self.nano_usd.max(other.nano_usd) }
    }

    pub fn minus(self, other: Spent) -> Spent {
        Spent {
            tokens: self.tokens.saturating_sub(other.tokens),
            nano_usd: self.nano_usd.saturating_sub(other.nano_usd),
        }
    }

    pub fn cost_usd(self) -> f64 {
        self.nano_usd as f64 / NANO
    }
}

/// Metered tokens whose cost the CLI did not report; 0 if its report covers them.
pub(crate) fn uncovered(told: &Usage, metered: &Usage, accounting: Accounting) -> u64 {
    let beside = if accounting.is_beside() { told.cached_input_tokens } else { 0 };
    let told_tokens = told.tokens().saturating_add(beside);
    // Tokens without money are those of a turn that was stopped before it told its cost.
    let covered = told.cost_usd.map_or(0, |_| told_tokens);
    let all = metered.tokens();
    // Estimates and a model that names a session make a small difference.
    Some(all.saturating_sub(covered)).filter(|more| *more > covered / 10).unwrap_or(0)
}

impl Prices {
    fn of(&self, usage: &Usage, accounting: Accounting) -> f64 {
        let cached = usage.cached_input_tokens;
        let fresh = usage.input_tokens.saturating_sub(if accounting.is_beside() { 0 } else { cached });
        let cached_price = self.cached_per_million.unwrap_or(self.input_per_million);
        let sum = fresh as f64 * self.input_per_million
            + cached as f64 * cached_price
            + usage.output_tokens as f64 * self.output_per_million;
        sum / 1e6
    }
}

/// Limits on tokens and cost. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    pub max_tokens: Option<u64>,
    pub max_cost_usd: Option<f64>,
}

ground::named! {
    /// A cap, by its option.
    pub enum Cap {
        Tokens = "maxTokens",
        Cost = "maxCostUsd",
    }
}

impl Caps {
    pub fn is_empty(&self) -> bool {
        *self == Caps::default()
    }

    fn max_nano_usd(&self) -> Option<u64> {
        self.max_cost_usd.map(|cost| (cost * NANO).round() as u64)
    }

    /// The cap that more was used than it allows.
    pub fn crossed(&self, spent: Spent) -> Option<Cap> {
        self.first(|max_tokens| spent.tokens > max_tokens, |max| spent.nano_usd > max)
    }

    /// The cap that leaves nothing to begin with.
    pub fn used_up(&self, spent: Spent) -> Option<Cap> {
        self.first(|max_tokens| spent.tokens >= max_tokens, |max| spent.nano_usd >= max)
    }

    fn first(&self, tokens: impl Fn(u64) -> bool, money: impl Fn(u64) -> bool) -> Option<Cap> {
        let tokens = self.max_tokens.filter(|max| tokens(*max)).map(|_| Cap::Tokens);
        tokens.or_else(|| self.max_nano_usd().filter(|max| money(*max)).map(|_| Cap::Cost))
    }

    /// `AGENT_BUDGET` for this cap. `words` makes the message of the figures.
    pub(crate) fn error(
        &self,
        cap: Cap,
        spent: Spent,
        is_shared: bool,
        words: impl FnOnce(String) -> String,
    ) -> Error {
        let figures = match cap {
            Cap::Tokens => format!("{} of {} tokens", spent.tokens, self.max_tokens.unwrap_or_default()),
            Cap::Cost => format!("${} of ${}", spent.cost_usd(), self.max_cost_usd.unwrap_or_default()),
        };
        let mut error = Error::new(ErrorCode::AgentBudget, words(figures))
            .with("cap", cap.as_str())
            .with("shared", is_shared)
            .with("usedTokens", spent.tokens)
            .with("usedCostUsd", spent.cost_usd());
        if let Some(max) = self.max_tokens {
            error = error.with("maxTokens", max);
        }
        if let Some(max) = self.max_cost_usd {
            error = error.with("maxCostUsd", max);
        }
        error
    }

    /// The remaining tokens and dollars, never below zero.
    pub fn left(&self, spent: Spent) -> (Option<u64>, Option<f64>) {
        let tokens = self.max_tokens.map(|max| max.saturating_sub(spent.tokens));
        let cost = self.max_nano_usd().map(|max| max.saturating_sub(spent.nano_usd) as f64 / NANO);
        (tokens, cost)
    }

    /// `INVALID_OPTION` for caps that could not be held, because the CLI would not report that they are crossed. `place`: text
    /// before the caps' names in the message.
    pub fn check(
        &self,
        place: &str,
        name: &str,
        accounting: Accounting,
        prices: Option<&Prices>,
    ) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let cap = if self.max_tokens.is_some() { Cap::Tokens } else { Cap::Cost };
        match accounting {
            Accounting::Nothing => {
                let path = format!("{place}{}", cap.as_str());
                Err(Error::invalid_option(
                    &path,
                    format!(
                        "{name} does not report its usage: a budget limits it only in a sandbox with `network: {{ hosts }}`, which meters it"
                    ),
                ))
            }
            Accounting::Tokens(_) if self.max_cost_usd.is_some() && prices.is_none() => {
                let path = format!("{place}{}", Cap::Cost.as_str());
                let problem = format!(
                    "{name} reports its tokens but not their cost: give `prices` ({{ inputPerMillion, outputPerMillion }}), or limit the tokens"
                );
                Err(Error::invalid_option(&path, problem))
            }
            Accounting::Tokens(_) | Accounting::TokensAndMoney(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::spending::*;

    fn usage(input_tokens: u64, cached_input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cached_input_tokens, cost_usd: None, cost_source: None }
    }

    const WITHIN: Accounting = Accounting::Tokens(CachedInput::Within);
    const BESIDE: Accounting = Accounting::TokensAndMoney(CachedInput::Beside);

    #[test]
    fn tokens_are_those_of_the_usage_and_money_follows_the_prices() {
        let prices = |cached_per_million| Prices {
            input_per_million: 3.0,
            output_per_million: 15.0,
            cached_per_million,
        };
        let cases = [
            (usage(1_000_000, 0, 0), WITHIN, None, 1_000_000, 3.0),
            (usage(0, 0, 1_000_000), WITHIN, None, 1_000_000, 15.0),
            (usage(1000, 200, 100), WITHIN, None, 1100, 0.0045),
            (usage(1000, 200, 100), WITHIN, Some(0.3), 1100, 0.00396),
            (usage(1000, 200, 100), WITHIN, Some(0.0), 1100, 0.0039),
            (usage(1000, 200, 100), BESIDE, None, 1100, 0.0051),
            (usage(1000, 200, 100), BESIDE, Some(0.3), 1100, 0.00456),
            // More tokens from the cache than there were must not make the cost negative.
            (usage(100, 200, 0), WITHIN, Some(0.0), 100, 0.0),
        ];
        for (usage, accounting, cached, tokens, cost) in cases {
            let spent = Spent::of(&usage, Some(&prices(cached)), accounting);
            assert_eq!((spent.tokens, spent.cost_usd()), (tokens, cost), "{usage:?} {cached:?}");
        }
    }

    #[test]
    fn metered_tokens_count_as_the_cli_counts_its_own() {
        let prices =
            Prices { input_per_million: 3.0, output_per_million: 15.0, cached_per_million: Some(0.3) };
        // The meter's 1,000 tokens of input have the 900 of the cache in them.
        let metered = usage(1000, 900, 10);
        for (accounting, told) in [
            (BESIDE, usage(100, 900, 10)),
            (WITHIN, usage(1000, 900, 10)),
            (Accounting::Nothing, usage(1000, 900, 10)),
        ] {
            let expected = Spent::of(&told, Some(&prices), accounting);
            assert_eq!(Spent::of_metered(&metered, Some(&prices), accounting), expected, "{accounting:?}");
        }
    }

    #[test]
    fn without_prices_the_cli_s_own_money_counts_and_with_them_it_does_not() {
        let told = Usage { cost_usd: Some(0.1), ..usage(1_000_000, 0, 0) };
        assert_eq!(Spent::of(&told, None, BESIDE).cost_usd(), 0.1);
        let free = Prices { input_per_million: 0.0, output_per_million: 0.0, cached_per_million: None };
        assert_eq!(Spent::of(&told, Some(&free), BESIDE).cost_usd(), 0.0);
        assert_eq!(Spent::of(&usage(5, 0, 5), None, BESIDE), Spent { tokens: 10, nano_usd: 0 });
    }

    #[test]
    fn metered_tokens_that_the_cli_s_money_does_not_cover_are_known() {
        let told = |usage, cost_usd| Usage { cost_usd, ..usage };
        let cases = [
            (told(usage(100, 0, 10), Some(0.001)), usage(10_000_000, 0, 0), BESIDE, 9_999_890),
            (told(usage(100, 900, 10), Some(0.001)), usage(1000, 900, 10), BESIDE, 0),
            (told(usage(100, 0, 10), Some(0.001)), usage(110, 0, 10), BESIDE, 0),
            // Stopped before it told its cost.
            (told(usage(100, 0, 10), None), usage(100, 0, 10), BESIDE, 110),
            (told(usage(0, 0, 0), None), usage(0, 0, 0), BESIDE, 0),
        ];
        for (told, metered, accounting, expected) in cases {
            assert_eq!(uncovered(&told, &metered, accounting), expected, "{told:?}");
        }
    }

    #[test]
    fn a_sum_of_many_small_costs_is_exact() {
        let told = Usage { cost_usd: Some(0.1), ..Usage::default() };
        let sum = (0..10).fold(Spent::default(), |sum, _| sum.plus(Spent::of(&told, None, BESIDE)));
        let caps = Caps { max_tokens: None, max_cost_usd: Some(1.0) };
        assert_eq!((caps.crossed(sum), caps.used_up(sum)), (None, Some(Cap::Cost)));
    }

    #[test]
    fn numbers_that_an_agent_made_up_end_at_the_largest_there_is() {
        let mad = Usage { cost_usd: Some(f64::INFINITY), ..usage(u64::MAX, 0, u64::MAX) };
        let spent = Spent::of(&mad, None, WITHIN);
        assert_eq!(spent, Spent { tokens: u64::MAX, nano_usd: u64::MAX });
        assert_eq!(spent.plus(spent), spent);
        let nonsense = Usage { cost_usd: Some(f64::NAN), ..Usage::default() };
        assert_eq!(Spent::of(&nonsense, None, WITHIN), Spent::default());
        let negative = Usage { cost_usd: Some(-5.0), ..Usage::default() };
        assert_eq!(Spent::of(&negative, None, WITHIN), Spent::default());
    }

    #[test]
    fn a_cap_is_crossed_by_more_than_it_allows_and_used_up_by_all_of_it() {
        let caps = Caps { max_tokens: Some(10), max_cost_usd: Some(0.5) };
        let spent = |tokens, nano_usd| Spent { tokens, nano_usd };
        let cases = [
            (spent(0, 0), None, None),
            (spent(9, 499_999_999), None, None),
            (spent(10, 0), None, Some(Cap::Tokens)),
            (spent(0, 500_000_000), None, Some(Cap::Cost)),
            (spent(11, 0), Some(Cap::Tokens), Some(Cap::Tokens)),
            (spent(0, 500_000_001), Some(Cap::Cost), Some(Cap::Cost)),
        ];
        for (spent, crossed, used_up) in cases {
            assert_eq!((caps.crossed(spent), caps.used_up(spent)), (crossed, used_up), "{spent:?}");
        }
        assert_eq!(caps.left(spent(12, 100_000_000)), (Some(0), Some(0.4)));
        assert_eq!(Caps::default().left(spent(12, 0)), (None, None));
    }

    #[test]
    fn a_cap_that_could_not_be_held_is_refused_by_its_path() {
        let prices = Prices { input_per_million: 1.0, output_per_million: 1.0, cached_per_million: None };
        let caps = |max_tokens, max_cost_usd| Caps { max_tokens, max_cost_usd };
        let cases = [
            (caps(None, None), Accounting::Nothing, None, ""),
            (caps(Some(1), None), WITHIN, None, ""),
            (caps(Some(1), None), Accounting::Nothing, None, "maxTokens: "),
            (caps(None, Some(1.0)), WITHIN, None, "maxCostUsd: "),
            (caps(None, Some(1.0)), WITHIN, Some(prices), ""),
            (caps(None, Some(1.0)), BESIDE, None, ""),
            (caps(None, Some(1.0)), Accounting::Nothing, Some(prices), "maxCostUsd: "),
        ];
        for (caps, accounting, prices, path) in cases {
            let checked = caps.check("", "codex", accounting, prices.as_ref());
            match checked {
                Ok(()) => assert_eq!(path, "", "{caps:?} {accounting:?}"),
                Err(error) => assert!(!path.is_empty() && error.message().starts_with(path), "{error}"),
            }
        }
    }
}
