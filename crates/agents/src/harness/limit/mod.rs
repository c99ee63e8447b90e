//! Limits on turns: slots of concurrency, and the usage limits of accounts.
//!
//! The `scheduler` gives out slots, and a `hold` keeps them back for an account at its `usage_limit`. For CLIs whose
//! figures count on over a session, `ledger` knows the usage before the turn.

pub(crate) mod hold;
pub(crate) mod ledger;
pub mod scheduler;
pub(crate) mod usage_limit;
