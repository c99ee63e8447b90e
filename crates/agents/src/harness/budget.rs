//! Limits on what turns may use together. All clones of a [`Budget`] share one sum, within one turn or over many.
//!
//! Each attempt opens an [`Account`] in every budget that applies to it. It sets its usage there whenever it learns more; a later
//! figure replaces an earlier one. When the sum exceeds the limit, all tasks that wait in [`Budget::crossed`] are woken.

pub(crate) mod allowance;

use crate::harness::event::Usage;
use crate::harness::spending::{Accounting, Cap, Caps, Prices, Spent};
use ground::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// A limit on usage, and the usage so far.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    caps: Caps,
    prices: Option<Prices>,
    spent: Mutex<Spent>,
    crossed: watch::Sender<bool>,
}

impl Budget {
    /// `prices`: for turns that have none of their own.
    pub fn new(caps: Caps, prices: Option<Prices>) -> Self {
        Budget(Arc::new(BudgetState {
            caps,
            prices,
            spent: Mutex::new(Spent::default()),
            crossed: watch::Sender::new(false),
        }))
    }

    pub fn caps(&self) -> &Caps {
        &self.0.caps
    }

    pub fn spent(&self) -> Spent {
        *self.lock()
    }

    /// The cap that leaves nothing to begin with.
    pub(crate) fn used_up(&self) -> Option<Cap> {
        self.0.caps.used_up(self.spent())
    }

    /// Resolves when more was used than is allowed.
    pub(crate) async fn crossed(&self) {
        // The sender lives as long as this borrow of it.
        let _ = self.0.crossed.subscribe().wait_for(|crossed| *crossed).await;
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        lock(&self.0.spent)
    }
}

/// The usage of one attempt in one budget.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    prices: Option<Prices>,
    accounting: Accounting,
    counted: Spent,
}

impl Account {
    /// `prices` are those of the turn; without them the budget's prices count.
    pub(crate) fn open(budget: &Budget, prices: Option<&Prices>, accounting: Accounting) -> Self {
        let prices = prices.or(budget.0.prices.as_ref()).copied();
        Account { budget: budget.clone(), prices, accounting, counted: Spent::default() }
    }

    /// All that was used so far, as the CLI says and as its traffic was metered. The cap that is crossed now, if this is news.
    pub(crate) fn set(&mut self, usage: &Usage, metered: &Usage) -> Option<Cap> {
        let told = Spent::of(usage, self.prices.as_ref(), self.accounting);
        let spent = told.max(Spent::of_metered(metered, self.prices.as_ref(), self.accounting));
        if spent == self.counted {
            return None;
        }
        let mut all = self.budget.lock();
        *all = all.minus(self.counted).plus(spent);
        let crossed = self.budget.0.caps.crossed(*all);
        drop(all);
        self.counted = spent;
        // A later figure may correct an earlier one that was too high. Then the flag is cleared, so that no later turn is
        // stopped for it.
        self.budget
            .0
            .crossed
            .send_if_modified(|is| std::mem::replace(is, crossed.is_some()) != crossed.is_some());
        crossed
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::budget::*;
    use crate::harness::spending::CachedInput;

    const TOKENS: Accounting = Accounting::Tokens(CachedInput::Within);

    fn budget(max_tokens: u64) -> Budget {
        Budget::new(Caps { max_tokens: Some(max_tokens), max_cost_usd: None }, None)
    }

    fn usage(input_tokens: u64) -> Usage {
        Usage { input_tokens, ..Usage::default() }
    }

    #[test]
    fn a_later_figure_replaces_an_earlier_one_and_attempts_add_up() {
        let budget = budget(100);
        let mut first = Account::open(&budget, None, TOKENS);
        let mut second = Account::open(&budget, None, TOKENS);
        for (input, sum) in [(10, 10), (40, 40), (30, 30)] {
            assert_eq!(first.set(&usage(input), &Usage::default()), None);
            assert_eq!(budget.spent().tokens, sum);
        }
        assert_eq!(second.set(&usage(70), &Usage::default()), None);
        assert_eq!((budget.spent().tokens, budget.used_up()), (100, Some(Cap::Tokens)));
        assert_eq!(first.set(&usage(30), &Usage::default()), None, "no news");
        assert_eq!(first.set(&usage(31), &Usage::default()), Some(Cap::Tokens));
    }

    #[tokio::test]
    async fn all_who_share_it_learn_that_it_is_crossed() {
        let budget = budget(10);
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let budget = budget.clone();
                ground::task::spawn(async move { budget.crossed().await })
            })
            .collect();
        tokio::task::yield_now().await;
        let mut account = Account::open(&budget, None, TOKENS);
        account.set(&usage(10), &Usage::default());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "all of it may be used");
        account.set(&usage(11), &Usage::default());
        for waiting in waiting {
            waiting.await.unwrap();
        }
        budget.crossed().await;
        account.set(&usage(9), &Usage::default());
        let late = tokio::time::timeout(std::time::Duration::from_millis(20), budget.crossed()).await;
        assert!(late.is_err(), "it was corrected");
    }

    #[test]
    fn a_turn_s_own_prices_count_before_the_budget_s() {
        let price = |input_per_million| Prices {
            input_per_million,
            output_per_million: 0.0,
            cached_per_million: None,
        };
        let budget = Budget::new(Caps { max_tokens: None, max_cost_usd: Some(5.0) }, Some(price(1.0)));
        Account::open(&budget, None, TOKENS).set(&usage(1_000_000), &Usage::default());
        Account::open(&budget, Some(&price(2.0)), TOKENS).set(&usage(1_000_000), &Usage::default());
        assert_eq!(budget.spent().cost_usd(), 3.0);
    }

    #[test]
    fn the_larger_of_what_is_told_and_what_is_metered_counts() {
        let budget = budget(100);
        let mut account = Account::open(&budget, None, TOKENS);
        for (told, metered, spent) in [(0, 10, 10), (20, 10, 20), (20, 50, 50), (60, 50, 60)] {
            account.set(&usage(told), &usage(metered));
            assert_eq!(budget.spent().tokens, spent);
        }
    }
}
