//! The time between the attempts of a turn: events, slots, and an abort in each wait.

use crate::played::{Played, Ran, aborted, heard, is_retry};
use crate::support::{PATIENCE, code, millis, text};
use agents::harness::{AgentEvent, ConcurrencyLimit, Turn, start};
use ground::error::{Error, ErrorCode};
use ground::retry::RetryPolicy;
use serde_json::json;
use std::time::Instant;

const BUSY: &str = "begin; say Part. 10 3 0; fail '503 overloaded'";
const FINE: &str = "begin; say Fine. 1 1 0; over";
const LIMITED: &str = "begin; fail 'Rate limit reached. Please try again in 3600s.'";

fn long(attempts: u32) -> RetryPolicy {
    RetryPolicy { attempts, base_delay: PATIENCE * 10, max_delay: PATIENCE * 10 }
}

#[tokio::test]
async fn the_last_events_of_an_attempt_are_told_if_no_other_follows() {
    let all = ["retry", "error", "end", "text", "usage"];
    let cases: [(&str, &[&str], &[&str]); 7] = [
        ("none failed", &[FINE], &["usage", "text", "end"]),
        ("one failed", &[BUSY, FINE], &["usage", "text", "retry", "usage", "text", "end"]),
        ("all failed", &[BUSY], &["usage", "text", "retry", "usage", "text", "error", "end"]),
        ("it ends without a word", &[BUSY, "exit 3"], &["usage", "text", "retry"]),
        ("the other is killed", &[BUSY, "kill -9 $$"], &["usage", "text", "retry"]),
        ("it said its end, then died", &["begin; say A. 1 1 0; over; exit 7"], &["usage", "text", "end"]),
        ("it begins no turn", &["begin"], &[]),
    ];
    for (name, parts, expected) in cases {
        let played = Played::new(parts).with(|turn| turn.retry.attempts = 2);
        let ran = played.run().await;
        assert_eq!(ran.told(&all), expected, "{name}: {:?}", ran.events);
        let end = ran.events.iter().find(|event| event["type"] == "end");
        let is_ok = ran.outcome.error().is_none() || name.starts_with("it said");
        assert!(end.is_none_or(|end| end["ok"] == json!(is_ok)), "{name}: {:?}", ran.events);
        if let Some(error) = ran.outcome.error() {
            let kept: Vec<_> = error.facts()["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["type"].clone())
                .collect();
            assert_eq!(
                kept.iter().filter(|kind| *kind == "end").count(),
                end.iter().count(),
                "{name}: {kept:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_time_in_the_queue_is_that_before_the_first_start() {
    let limit = [ConcurrencyLimit::new(1)];
    let first = Played::new(&["begin; sleep 0.6; say Fine. 1 1 0; over"]);
    let retried = Played::new(&[BUSY, FINE]).with(|turn| {
        turn.retry.base_delay = millis(400);
        turn.retry.max_delay = millis(400);
    });
    let long = Played::new(&["begin; sleep 1; say Fine. 1 1 0; over"]);
    let (first, retried, long) = (first.start(&limit), retried.start(&limit), long.start(&limit));
    let begun = Instant::now();
    let facts = |ran: &Ran| ran.outcome.result().unwrap().facts.clone();
    let (first, ran, long) = tokio::join!(Ran::of(&first), Ran::of(&retried), Ran::of(&long));
    let whole = begun.elapsed().as_secs_f64() * 1e3;
    let (first, retried, long) = (facts(&first), facts(&ran), facts(&long));
    assert!(first.queued_ms < 500.0 && first.duration_ms >= 600.0, "{first:?}");
    // It waited for the first, and its second attempt for the long one: that is a part of its duration.
    assert_eq!((text(&ran.outcome).as_str(), retried.attempts), ("Fine.", 2));
    assert!(retried.queued_ms >= 590.0 && retried.queued_ms < first.duration_ms + 300.0, "{retried:?}");
    assert!(retried.duration_ms >= 1_000.0, "{retried:?}");
    assert!(retried.queued_ms + retried.duration_ms <= whole + 1.0, "{retried:?} {whole}");
    assert!(long.queued_ms >= 600.0, "the pause holds no slot, and is not waited for: {long:?}");
}

/// A wait of a turn: how it is brought into it.
struct Case {
    name: &'static str,
    played: Played,
    /// Events before the abort, and all of them.
    until: usize,
    told: &'static [&'static str],
    attempts: u32,
    /// The limit has no room.
    is_full: bool,
}

fn cases() -> Vec<Case> {
    let case =
        |name, played, until, told, attempts| Case { name, played, until, told, attempts, is_full: false };
    let after_one = &["session", "usage", "text", "retry", "error", "end"];
    vec![
        case(
            "the pause before a retry",
            Played::new(&[BUSY]).with(|turn| turn.retry = long(3)),
            1,
            after_one,
            1,
        ),
        case(
            "the wait for a limit",
            Played::new(&[LIMITED]).with(|turn| turn.wait_for_reset = PATIENCE * 100),
            1,
            &["session", "retry", "error", "end"],
            1,
        ),
        Case { is_full: true, ..case("the queue", Played::new(&[FINE]), 0, &[], 0) },
        Case {
            is_full: true,
            ..case(
                "the queue of a second attempt",
                Played::new(&[BUSY, FINE]).with(|turn| {
                    turn.retry = RetryPolicy { attempts: 3, base_delay: millis(200), max_delay: millis(200) };
                }),
                1,
                after_one,
                1,
            )
        },
    ]
}

/// Events of the turn up to so many retries.
async fn retries(turn: &Turn, count: usize) {
    let mut events = turn.events();
    let mut seen = 0;
    while seen < count {
        let more = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap();
        seen += more.iter().filter(|event| is_retry(event)).count();
    }
}

#[tokio::test]
async fn an_abort_ends_each_wait_at_once_and_leaves_nothing() {
    for is_dropped in [false, true] {
        for Case { name, played, until, told, attempts, is_full } in cases() {
            let limit = ConcurrencyLimit::new(1);
            let blocker = Played::new(&["begin; sleep 600"]);
            let before = (is_full && until == 0).then(|| blocker.start(std::slice::from_ref(&limit)));
            let turn = played.start(std::slice::from_ref(&limit));
            retries(&turn, until).await;
            let behind = (is_full && until > 0).then(|| blocker.start(std::slice::from_ref(&limit)));
            if is_full {
                tokio::time::sleep(millis(400)).await;
            }
            if is_dropped {
                drop(turn);
                while std::fs::read_dir(played.path("tmp")).unwrap().next().is_some() {
                    tokio::time::sleep(millis(5)).await;
                }
            } else {
                let (outcome, time) = aborted(&turn).await;
                assert!(time < millis(1_000), "{name}: {time:?}");
                assert_eq!(code(&outcome), "AGENT_ABORTED", "{name}");
                let result = outcome.result().unwrap();
                assert_eq!(result.facts.attempts, attempts, "{name}");
                let is_begun = told.contains(&"session");
                assert_eq!(result.facts.session_id.as_deref(), is_begun.then_some("s"), "{name}");
                let kept = outcome.error().unwrap().facts()["events"].as_array().unwrap().clone();
                let mut kinds: Vec<_> = kept.iter().map(|event| event["type"].as_str().unwrap()).collect();
                kinds.sort_unstable();
                let mut expected = told.to_vec();
                expected.sort_unstable();
                assert_eq!(kinds, expected, "{name}");
                drop(turn);
            }
            drop((before, behind));
            played.is_gone();
            // The slot is free.
            let next = Played::new(&[FINE]);
            let ran = Ran::of(&next.start(&[limit])).await;
            assert_eq!(code(&ran.outcome), "ok", "{name}");
        }
    }
}

#[tokio::test]
async fn a_listener_hears_the_last_events_of_a_turn_that_was_aborted_while_it_waited() {
    for Case { name, played, until, told, .. } in cases().into_iter().filter(|case| !case.is_full) {
        let turn = played.start(&[]);
        let events = ground::task::spawn({
            let turn = turn.clone();
            async move { Ran::of(&turn).await }
        });
        while played.starts() < until {
            tokio::time::sleep(millis(5)).await;
        }
        tokio::time::sleep(millis(600)).await;
        turn.abort();
        let ran = events.await.unwrap();
        let kinds = ran.told(&["session", "usage", "text", "retry", "error", "end"]);
        assert_eq!(kinds, told, "{name}");
    }
}

#[tokio::test]
async fn an_abort_while_something_is_prepared_starts_nothing() {
    let played = Played::new(&[FINE]);
    let limit = ConcurrencyLimit::new(1);
    let endless = Box::pin(std::future::pending());
    let turn = start(played.request.clone(), vec![limit.clone()], Some(endless));
    tokio::time::sleep(millis(50)).await;
    let (outcome, time) = aborted(&turn).await;
    assert!(time < millis(1_000));
    assert_eq!((code(&outcome).as_str(), played.starts()), ("AGENT_ABORTED", 0));
    let failed = Box::pin(async { Err(Error::new(ErrorCode::WorktreeFailed, "no checkout")) });
    let turn = start(played.request.clone(), vec![limit.clone()], Some(failed));
    assert_eq!(code(&Ran::of(&turn).await.outcome), "WORKTREE_FAILED");
    assert_eq!(code(&Ran::of(&Played::new(&[FINE]).start(&[limit])).await.outcome), "ok");
}

#[tokio::test]
async fn a_budget_that_others_cross_ends_a_wait() {
    use agents::harness::Budget;
    use agents::harness::spending::Caps;
    let waits = [
        Played::new(&[BUSY]).with(|turn| turn.retry = long(3)),
        Played::new(&[LIMITED]).with(|turn| turn.wait_for_reset = PATIENCE * 100),
    ];
    for waiting in waits {
        let budget = Budget::new(Caps { max_tokens: Some(100), max_cost_usd: None }, None);
        let share = |turn: &mut agents::harness::TurnRequest| turn.agent.budget = Some(budget.clone());
        let waiting = waiting.with(share);
        let turn = waiting.start(&[]);
        heard(&turn, is_retry).await;
        let other = Played::new(&["begin; say Much. 100 1 0; over"]).with(share);
        assert_eq!(code(&other.run().await.outcome), "AGENT_BUDGET");
        let begun = Instant::now();
        let outcome = tokio::time::timeout(millis(5_000), turn.outcome()).await.unwrap();
        assert!(begun.elapsed() < millis(1_000));
        assert_eq!(code(&outcome), "AGENT_BUDGET");
        waiting.is_gone();
    }
}

#[tokio::test]
async fn what_a_listener_misses_is_what_came_after_it_left() {
    let played = Played::new(&[BUSY, FINE]);
    let turn = played.start(&[]);
    let first = heard(&turn, |event| matches!(event, AgentEvent::Text { .. })).await;
    assert_eq!(first[0]["type"], "session");
    // The one reader was dropped: another takes over, and a third hears the end alone.
    let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
    assert_eq!(code(&outcome), "ok");
    let late = Ran::of(&turn).await;
    assert!(late.events.len() < 8, "{:?}", late.events);
}
