//! PURE: warnings of a result about the end of its process: what was left running, what was changed, and what no limit counted.

use crate::harness::budget::allowance::Allowance;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::metered::{metered_words, usage_of};
use process::{Metered, Outcome};

/// The work behind its end of turn, or the first few of it.
pub(super) fn left_behind(digest: &Digest) -> Vec<String> {
    digest.end.names().take(10).map(str::to_owned).collect()
}

/// Warns of processes that were left, and of protected files that they changed.
pub(super) fn warn_of_tree(digest: &mut Digest, outcome: &Outcome, left: &[String], is_stopped: bool) {
    if digest.end.terminal.is_some() && !left.is_empty() {
        digest.warning(&format!("still running at the end of the turn, and killed: {}", left.join(", ")));
    } else if !is_stopped && let Some(message) = strays_of(outcome) {
        digest.warning(&message);
    }
    if let Some(message) = changed_of(outcome) {
        digest.warning(&message);
    }
}

/// Warns of usage that a limit does not count.
pub(crate) fn warn_of_usage(digest: &mut Digest, allowance: &Allowance, metered: &Metered) {
    let is_unknown = digest.usage.total().is_none() && metered.requests == 0 && digest.steps.turns > 0;
    let unknown = is_unknown.then(|| "the CLI reported no usage: no budget counts this attempt".to_owned());
    let unpriced = allowance.unpriced_words(digest.usage.total(), &usage_of(metered));
    for message in [unknown, unpriced, metered_words(metered)].into_iter().flatten() {
        digest.warning(&message);
    }
}

/// Files that run later, outside of the sandbox.
fn changed_of(outcome: &Outcome) -> Option<String> {
    let sandbox = outcome.result.as_ref()?.sandbox.as_ref()?;
    let (restored, left): (Vec<&str>, Vec<&str>) = sandbox
        .changed
        .iter()
        .map(String::as_str)
        .partition(|path| sandbox.restored.iter().any(|one| one == path));
    let of_left = (!left.is_empty()).then(|| {
        let list = left.join(", ");
        format!("the agent changed files that run later, outside of its sandbox; look at them first: {list}")
    });
    let of_restored = (!restored.is_empty()).then(|| {
        let list = restored.join(", ");
        format!("the agent changed files that run later, outside of its sandbox; they are again as they were: {list}")
    });
    match (of_left, of_restored) {
        (Some(left), Some(restored)) => Some(format!("{left}; {restored}")),
        (left, restored) => left.or(restored),
    }
}

/// A warning about processes that the CLI left running at its own end without reporting them: a shell's `&`, or a server.
fn strays_of(outcome: &Outcome) -> Option<String> {
    match outcome.result.as_ref().map_or(0, |result| result.strays_killed) {
        0 => None,
        1 => Some("a process that the agent started was still running at its end, and was killed".to_owned()),
        many => Some(format!(
            "{many} processes that the agent started were still running at its end, and were killed"
        )),
    }
}
