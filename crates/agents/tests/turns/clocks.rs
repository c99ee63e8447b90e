//! The clocks of a turn by a command, with the facts of their errors.

use crate::played::Played;
use crate::support::{code, millis};
use agents::harness::clock::ClockLimits;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

type Set = fn(&mut ClockLimits, Option<Duration>);

const START: (&str, Set) = ("startTimeoutMs", |limits, limit| limits.start = limit);
const IDLE: (&str, Set) = ("idleTimeoutMs", |limits, limit| limits.idle = limit);
const TOOL_IDLE: (&str, Set) = ("toolIdleTimeoutMs", |limits, limit| limits.tool_idle = limit);
const TOTAL: (&str, Set) = ("timeoutMs", |limits, limit| limits.total = limit);

/// The clock, the play, and code and words of its error.
const CASES: [((&str, Set), &str, &str, &str); 8] = [
    (START, "sleep 600", "AGENT_IDLE", "printed nothing"),
    (START, "echo Trust?; sleep 600", "AGENT_IDLE", "Trust?"),
    (IDLE, "begin; sleep 600", "AGENT_IDLE", "was silent"),
    (IDLE, "begin; say A. 1 1 0; echo Sure? >&2; sleep 600", "AGENT_IDLE", "Sure?"),
    (TOOL_IDLE, "begin; tool; sleep 600", "AGENT_IDLE", "its tool bash"),
    (TOTAL, "sleep 600", "AGENT_TIMED_OUT", "had not finished"),
    (TOTAL, "begin; tool; sleep 600", "AGENT_TIMED_OUT", "had not finished"),
    (TOTAL, "begin; while :; do say A. 1 1 0; sleep 0.01; done", "AGENT_TIMED_OUT", "had not finished"),
];

#[tokio::test]
async fn each_clock_ends_the_attempt_and_names_its_limit() {
    for ((option, set), part, expected, words) in CASES {
        let played = Played::new(&[&format!("echo $$ >> pids; {part}")])
            .with(|turn| set(&mut turn.agent.limits, Some(millis(400))));
        let begun = Instant::now();
        let ran = played.run().await;
        let error = ran.outcome.error().unwrap();
        assert_eq!(code(&ran.outcome), expected, "{part}: {error}");
        assert!(error.message().contains(words) && error.message().contains(option), "{part}: {error}");
        assert_eq!(ran.fact(option), json!(400.0), "{part}");
        let others = ["startTimeoutMs", "idleTimeoutMs", "toolIdleTimeoutMs", "timeoutMs"];
        assert!(others.iter().all(|other| *other == option || ran.fact(other) == Value::Null), "{error:?}");
        assert!((millis(400)..millis(4_000)).contains(&begun.elapsed()), "{part}: {:?}", begun.elapsed());
        // A clock is no reason to try again.
        assert_eq!((played.starts(), ran.outcome.result().unwrap().facts.attempts), (1, 1), "{part}");
        // And with a deadline that has passed nothing is started.
        let late = Played::new(&[part]).with(|turn| set(&mut turn.agent.limits, Some(Duration::ZERO)));
        let ran = late.run().await;
        assert_eq!((code(&ran.outcome).as_str(), late.starts()), (expected, 0), "{part}");
        assert_eq!(ran.fact(option), json!(0), "{part}");
    }
}

#[tokio::test]
async fn the_clocks_of_each_attempt_begin_anew() {
    // Each attempt lasts longer than half of the limit.
    let busy = "begin; sleep 0.6; fail '503 overloaded'";
    let played = Played::new(&[busy, busy, "begin; sleep 0.6; say Fine. 1 1 0; over"])
        .with(|turn| turn.agent.limits.total = Some(millis(1_500)));
    let ran = played.run().await;
    assert_eq!((code(&ran.outcome).as_str(), played.starts()), ("ok", 3));
}
