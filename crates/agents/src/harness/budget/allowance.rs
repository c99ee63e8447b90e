//! The budgets of one turn: its own caps, which count all its attempts, and a [`Budget`] that it shares with others.

use crate::harness::budget::{Account, Budget};
use crate::harness::event::Usage;
use crate::harness::provider::Provider;
use crate::harness::spending::{Accounting, Cap, Caps, Prices, Pricing, uncovered};
use ground::error::{Error, ErrorCode};
use std::future::pending;

/// The budgets of a turn; none is the usual case.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    provider: Provider,
    accounting: Accounting,
    prices: Option<Prices>,
    own: Option<Budget>,
    shared: Option<Budget>,
}

impl Allowance {
    /// `caps` and `prices`: the turn's (or session's) own. `INVALID_OPTION` when this CLI can't be held to them.
    pub(crate) fn new(
        provider: Provider,
        accounting: Accounting,
        caps: Caps,
        prices: Option<Prices>,
        shared: Option<&Budget>,
    ) -> Result<Self, Error> {
        let name = provider.as_str();
        caps.check("", name, accounting, prices.as_ref())?;
        if let Some(shared) = shared {
            shared.caps().check("budget.", name, accounting, prices.as_ref().or(shared.0.prices.as_ref()))?;
        }
        let own = (!caps.is_empty()).then(|| Budget::new(caps, prices));
        Ok(Allowance { provider, accounting, prices, own, shared: shared.cloned() })
    }

    /// The prices by which the turn's own usage is told: its own, or those of the budget that it shares.
    pub(crate) fn pricing(&self) -> Pricing {
        let shared = self.shared.as_ref().and_then(|shared| shared.0.prices);
        Pricing { prices: self.prices.or(shared), accounting: self.accounting }
    }

    /// Every budget of the turn.
    fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.own.iter().chain(&self.shared)
    }

    /// Whether there is anything to count for.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.budgets().next().is_none()
    }

    /// A warning that a cap of money does not count all tokens: the CLI reported no cost of them, and they have no price.
    pub(crate) fn unpriced_words(&self, told: Option<Usage>, metered: &Usage) -> Option<String> {
        let is_unpriced = |budget: &Budget| {
            budget.caps().max_cost_usd.is_some()
                && self.prices.as_ref().or(budget.0.prices.as_ref()).is_none()
        };
        let budget = self.budgets().find(|budget| is_unpriced(budget))?;
        let more = uncovered(&told.unwrap_or_default(), metered, self.accounting);
        let place = if self.is_shared(budget) { "budget." } else { "" };
        let words = format!(
            "{place}maxCostUsd: {more} metered tokens count as free, because the CLI did not report their cost; give `prices` to count them"
        );
        (more > 0).then_some(words)
    }

    fn is_shared(&self, budget: &Budget) -> bool {
        self.shared.as_ref().is_some_and(|shared| std::ptr::eq(shared, budget))
    }

    /// `AGENT_BUDGET` when nothing is left to begin with.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.budgets().find_map(|budget| Some((budget, budget.used_up()?))) {
            Some((budget, cap)) => Err(self.error(budget, cap, "was not started: nothing is left of")),
            None => Ok(()),
        }
    }

    /// The error of a turn that was stopped because it used more than its limit.
    pub(crate) fn exceeded(&self) -> Error {
        let crossed = |budget: &'_ Budget| budget.caps().crossed(budget.spent());
        let found = self.budgets().find_map(|budget| Some((budget, crossed(budget)?)));
        // A later usage figure may have corrected the sum to below the cap since the stop. Then the first budget is named.
        let found = found.or_else(|| self.budgets().next().map(|budget| (budget, Cap::Tokens)));
        match found {
            Some((budget, cap)) => self.error(budget, cap, "used more than"),
            None => Error::new(ErrorCode::AgentBudget, "the turn used more than its limit"),
        }
    }

    fn error(&self, budget: &Budget, cap: Cap, what: &str) -> Error {
        let is_shared = self.is_shared(budget);
        let (provider, place) = (self.provider.as_str(), if is_shared { "budget." } else { "" });
        budget.caps().error(cap, budget.spent(), is_shared, |figures| {
            let cap = cap.as_str();
            format!(
                "the {provider} turn {what} {place}{cap} ({figures} are used); give it a larger one to go on"
            )
        })
    }

    /// The accounts of an attempt.
    pub(crate) fn open(&self) -> Accounts {
        let open = |budget| Account::open(budget, self.prices.as_ref(), self.accounting);
        let accounts = self.budgets().map(open).collect();
        Accounts { accounts, has_crossed: false, told: Usage::default(), metered: Usage::default() }
    }

    /// Resolves when more was used than is allowed, whoever used it.
    pub(crate) async fn crossed(&self) {
        match (&self.own, &self.shared) {
            (None, None) => pending().await,
            (Some(budget), None) | (None, Some(budget)) => budget.crossed().await,
            (Some(own), Some(shared)) => tokio::select! {
                () = own.crossed() => {}
                () = shared.crossed() => {}
            },
        }
    }
}

/// The accounts of one attempt, one in each budget of its turn.
#[derive(Debug)]
pub(crate) struct Accounts {
    accounts: Vec<Account>,
    has_crossed: bool,
    told: Usage,
    metered: Usage,
}

impl Accounts {
    /// Sets the attempt's usage so far, as its CLI reports it. Returns whether it has crossed a budget, now or before.
    pub(crate) fn set(&mut self, usage: Option<Usage>) -> bool {
        self.told = usage.unwrap_or_default();
        self.count()
    }

    /// The same for the usage that was metered.
    pub(crate) fn meter(&mut self, usage: Usage) -> bool {
        self.metered = usage;
        self.count()
    }

    fn count(&mut self) -> bool {
        for account in &mut self.accounts {
            self.has_crossed |= account.set(&self.told, &self.metered).is_some();
        }
        self.has_crossed
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::budget::allowance::*;

    fn caps(max_tokens: u64) -> Caps {
        Caps { max_tokens: Some(max_tokens), max_cost_usd: None }
    }

    fn of(provider: Provider, caps: Caps, shared: Option<&Budget>) -> Result<Allowance, Error> {
        Allowance::new(provider, provider.descriptor().accounting, caps, None, shared)
    }

    fn usage(input_tokens: u64) -> Option<Usage> {
        Some(Usage { input_tokens, ..Usage::default() })
    }

    #[test]
    fn attempts_count_together_and_the_error_says_which_cap_it_was() {
        let shared = Budget::new(caps(100), None);
        let one = of(Provider::Codex, caps(50), Some(&shared)).unwrap();
        let other = of(Provider::Codex, Caps::default(), Some(&shared)).unwrap();
        assert!(!one.open().set(usage(30)));
        assert!(one.check().is_ok());
        assert!(!one.open().set(usage(20)));
        let error = one.check().unwrap_err();
        assert_eq!(error.facts()["shared"], false);
        assert_eq!((&error.facts()["usedTokens"], &error.facts()["maxTokens"]), (&50.into(), &50.into()));
        assert!(error.message().contains("maxTokens (50 of 50 tokens"), "{error}");
        let mut crossing = other.open();
        assert!(crossing.set(usage(51)));
        assert!(crossing.set(usage(51)), "and it stays so");
        let error = other.exceeded();
        assert_eq!(error.facts()["shared"], true);
        assert!(error.message().contains("used more than budget.maxTokens (101 of 100"), "{error}");
    }

    #[test]
    fn a_cli_that_can_t_be_held_to_a_budget_is_refused() {
        let cost = Caps { max_tokens: None, max_cost_usd: Some(1.0) };
        let shared = Budget::new(cost, None);
        let message =
            |provider, caps, shared| of(provider, caps, shared).err().map(|error| error.message().to_owned());
        assert!(message(Provider::Codex, cost, None).unwrap().starts_with("maxCostUsd: "));
        assert!(
            message(Provider::Codex, Caps::default(), Some(&shared))
                .unwrap()
                .starts_with("budget.maxCostUsd: ")
        );
        assert!(message(Provider::Kimi, caps(5), None).unwrap().starts_with("maxTokens: "));
        assert_eq!(message(Provider::ClaudeCode, cost, Some(&shared)), None);
        assert_eq!(message(Provider::Kimi, Caps::default(), None), None);
    }

    #[test]
    fn metered_tokens_without_a_price_are_told_where_money_is_limited() {
        let cost = Caps { max_tokens: None, max_cost_usd: Some(1.0) };
        let told = Some(Usage { cost_usd: Some(0.001), ..usage(100).unwrap() });
        let metered = usage(10_000_000).unwrap();
        let words = |caps, shared: Option<&Budget>| {
            of(Provider::ClaudeCode, caps, shared).unwrap().unpriced_words(told, &metered)
        };
        assert!(words(cost, None).unwrap().starts_with("maxCostUsd: 9999900 metered tokens"));
        let shared = Budget::new(cost, None);
        assert!(words(Caps::default(), Some(&shared)).unwrap().starts_with("budget.maxCostUsd: "));
        assert_eq!(words(caps(5), None), None);
        let prices = Prices { input_per_million: 1.0, output_per_million: 1.0, cached_per_million: None };
        assert_eq!(words(Caps::default(), Some(&Budget::new(cost, Some(prices)))), None);
        let all = of(Provider::ClaudeCode, cost, None).unwrap();
        assert_eq!(all.unpriced_words(told, &usage(100).unwrap()), None);
    }
}
