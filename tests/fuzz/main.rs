//! The fuzz targets over the inputs of fuzz/corpus. `face` and `commands` run among the tests of `agents`, whose private parts they use.

#![expect(clippy::unwrap_used, reason = "a panic is a test's report, in its helpers too")]

mod kept;
mod targets;

use targets::{TARGETS, Target};
