//! Agents that say one thing and do another: whatever they print, a turn has one verdict, at most one end, and leaves nothing.

use crate::played::{Played, Ran};
use crate::support::{code, millis, text};
use serde_json::Value;
use std::time::Instant;

const CHATTER: &str = "while :; do echo working; sleep 0.005; done";

/// Each play, the code of its turn, and the text.
const PLAYS: &[(&str, &str, &str)] = &[
    // Ends that contradict each other, and the exit.
    ("begin; say A. 1 1 0; over; say B. 1 1 0; over", "ok", "B."),
    ("begin; say A. 1 1 0; over; over; over", "ok", "A."),
    ("begin; say A. 1 1 0; over; fail '400 bad'", "AGENT_FAILED invalid_request", "A."),
    ("begin; fail '400 bad'; say A. 1 1 0; over", "ok", "A."),
    ("begin; say A. 1 1 0; over; exit 1", "AGENT_CRASHED", "A."),
    ("begin; fail '400 bad'; exit 0", "AGENT_FAILED invalid_request", ""),
    ("begin; say A. 1 1 0; over; kill -SEGV $$", "AGENT_CRASHED", "A."),
    ("begin; say A. 1 1 0; over; kill -9 $$", "ok", "A."),
    // Ends before the beginning, and without any.
    ("over; begin; say A. 1 1 0", "AGENT_TRUNCATED unknown", "A."),
    ("over", "AGENT_FAILED unknown", ""),
    ("exit 0", "AGENT_TRUNCATED", ""),
    ("begin; say A. 1 1 0; exit 0", "AGENT_TRUNCATED", "A."),
    ("exec >&- 2>&-; exit 0", "AGENT_TRUNCATED", ""),
    // Lines that are torn, joined, interleaved, doubled, or no text at all.
    ("begin; say A. 1 1 0; printf %s \"$(over)\"", "ok", "A."),
    ("begin; say A. 1 1 0; printf '{\"type\":\"agent_end\",\"mess'", "AGENT_TRUNCATED", "A."),
    (
        "begin; printf '{\"type\":\"agent_'; echo torn >&2; sleep 0.1; printf 'end\"}\\n'; say A. 1 1 0; over",
        "ok",
        "A.",
    ),
    ("begin; printf '%s%s\\n' \"$(say A. 1 1 0)\" \"$(over)\"", "ok", "A."),
    ("begin; { say A. 1 1 0; over; } | sed 's/$/\\r/'", "ok", "A."),
    ("begin; printf '\\357\\273\\277'; say A. 1 1 0; over", "ok", "A."),
    (
        "begin; printf '\\000\\001\\377\\n\\n\\n[1]\\nnull\\n\"\"\\n7\\n{}\\n{\"type\":7}\\n'; say A. 1 1 0; over",
        "ok",
        "A.",
    ),
    (
        "begin; begin; tool; tool; echo '{\"type\":\"tool_execution_end\",\"toolCallId\":\"x\"}'; say A. 1 1 0; over",
        "ok",
        "A.",
    ),
    (
        "begin; printf '{\"type\":\"tool_execution_start\",\"toolCallId\":\"d\",\"toolName\":\"t\",\"args\":'; head -c 200000 /dev/zero | tr '\\0' '['; echo; say A. 1 1 0; over",
        "ok",
        "A.",
    ),
    ("begin; head -c 80000000 /dev/zero | tr '\\0' 'x'; echo; say A. 1 1 0; over", "ok", "A."),
    // Figures that are none.
    ("begin; say A. -5 1e30 -1; say B. 99999999999999999999 1 1e400; over", "ok", "B."),
    // Streams that are closed while the process lives, and held open behind its end.
    ("begin; say A. 1 1 0; over; exec >&- 2>&-; sleep 600", "ok", "A."),
    ("begin; say A. 1 1 0; over; exec >&-; while :; do echo x >&2; sleep 0.1; done", "ok", "A."),
    ("begin; say A. 1 1 0; over; sleep 600 & exit 0", "ok", "A."),
    ("begin; say A. 1 1 0; over; (while :; do say B. 1 1 0; sleep 0.1; done) & exit 0", "", ""),
    ("begin; exec >&- 2>&-; sleep 600", "AGENT_IDLE", ""),
    // Work without an end behind a good one.
    ("begin; say A. 1 1 0; over; while :; do echo working; sleep 0.02; done", "ok", "A."),
];

fn number(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn whatever_an_agent_prints_its_turn_has_one_verdict_and_leaves_nothing() {
    let mut wrong = Vec::new();
    for (part, expected, last) in PLAYS {
        let played = Played::new(&[part]).with(|turn| {
            turn.retry.attempts = 1;
            turn.agent.limits.idle = Some(millis(1_500));
            turn.agent.limits.total = Some(millis(30_000));
        });
        let begun = Instant::now();
        let ran = played.run().await;
        assert!(begun.elapsed() < millis(20_000), "{part}: {:?}", begun.elapsed());
        let seen = (code(&ran.outcome), text(&ran.outcome));
        if !expected.is_empty() && seen != ((*expected).to_owned(), (*last).to_owned()) {
            wrong.push(format!("{part}: {seen:?} {:?}", ran.outcome.error().map(ToString::to_string)));
        }
        let ends: Vec<usize> = (0..ran.events.len()).filter(|at| ran.events[*at]["type"] == "end").collect();
        assert!(
            ends.is_empty() || ends == [ran.events.len() - 1],
            "{part}: {ends:?} of {}",
            ran.events.len()
        );
        let told = ran.events.iter().filter(|event| event["type"] == "usage");
        let told = told.fold((0, 0), |sum: (u64, u64), event| {
            (
                sum.0.saturating_add(number(event, "inputTokens")),
                sum.1.saturating_add(number(event, "outputTokens")),
            )
        });
        let usage = ran.outcome.result().unwrap().facts.usage.unwrap_or_default();
        assert_eq!((usage.input_tokens, usage.output_tokens), told, "{part}");
        assert!(usage.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0), "{part}: {usage:?}");
        if let Some(error) = ran.outcome.error() {
            assert!(error.message().len() < 8_192, "{part}: a message of {}", error.message().len());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn chatter_ends_for_want_of_progress_with_a_turn_and_without_one() {
    for part in [CHATTER.to_owned(), format!("begin; {CHATTER}")] {
        let played = Played::new(&[&part]).with(|turn| turn.agent.limits.start = Some(millis(1_000)));
        let ran = Ran::of(&played.start(&[])).await;
        assert_eq!(code(&ran.outcome), "AGENT_NO_PROGRESS");
        played.is_gone();
    }
}
