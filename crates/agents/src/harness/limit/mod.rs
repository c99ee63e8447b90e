//! Limits on turns: slots of concurrency, budgets of tokens and money, and the usage limits of accounts.
//!
//! The `scheduler` gives out slots, and a `hold` keeps them back for an account at its `usage_limit`. `reset` reads when such a
//! limit ends, and `wait_policy` decides whether to wait. A `budget` sums up what turns spend; an `allowance` holds those of one
//! turn, and `spending` computes the figures. For CLIs whose figures count on over a session, `ledger` and `session_log` know the
//! usage before the turn.

pub(crate) mod hold;
pub(crate) mod ledger;
pub mod scheduler;
pub(crate) mod usage_limit;
pub(crate) mod wait_policy;
