//! The laws of the house that cargo cannot check (ARCHITECTURE.md). Cargo checks the direction of imports between crates.

#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

mod imports;
mod places;
mod source;
mod values;
mod waiting;
