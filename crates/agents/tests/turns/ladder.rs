//! How an agent is ended that heeds some steps of the ladder, or none.

use crate::played::{Played, Ran, aborted, heard};
use crate::support::{code, millis, text};
use agents::harness::AgentEvent;
use agents::harness::clock::ClockLimits;
use std::time::Duration;

const GRACE: Duration = Duration::from_millis(500);

/// Agents by their answer to SIGTERM: whether they have to be killed for it, and the signal that ends them.
const AGENTS: [(&str, &str, bool, Option<&str>); 5] = [
    ("dies", "", false, Some("SIGTERM")),
    ("ignores it", "trap '' TERM", true, Some("SIGKILL")),
    ("ends well", "trap 'say Late. 1 1 0; over; exit 0' TERM", false, None),
    ("ends badly", "trap 'fail \"400 stopped\"; exit 3' TERM", false, None),
    ("goes on to talk", "trap 'say More. 1 1 0' TERM", true, Some("SIGKILL")),
];

/// A descendant that heeds nothing and has a session of its own.
const STRAY: &str =
    "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while :; do sleep 0.1; done' > /dev/null 2>&1 &";

fn agent(traps: &str, with_stray: bool) -> Played {
    let stray = if with_stray { STRAY } else { "" };
    let part =
        format!("{traps}\n{stray}\necho $$ >> pids; begin; say Begun. 1 1 0; while :; do sleep 0.05; done");
    Played::new(&[&part]).with(|turn| turn.agent.kill_grace = GRACE)
}

#[tokio::test]
async fn an_abort_gives_the_agent_its_grace_and_no_more_and_leaves_nothing() {
    for (name, traps, is_killed, signal) in AGENTS {
        for with_stray in [false, true] {
            let played = agent(traps, with_stray);
            let turn = played.start(&[]);
            heard(&turn, |event| matches!(event, AgentEvent::Text { .. })).await;
            let (outcome, time) = aborted(&turn).await;
            let name = format!("{name}, with a stray: {with_stray}");
            // The turn was aborted, whatever the agent says of its end.
            assert_eq!(code(&outcome), "AGENT_ABORTED", "{name}");
            let process = outcome.result().unwrap().facts.process.clone().unwrap();
            assert_eq!(process.signal.as_deref(), signal, "{name}");
            let least = if is_killed { GRACE } else { Duration::ZERO };
            assert!(time >= least && time < GRACE + millis(2_000), "{name}: {time:?}");
            let last = if name.starts_with("ends well") {
                "Late."
            } else if name.starts_with("goes on") {
                "More."
            } else {
                "Begun."
            };
            assert_eq!(text(&outcome), last, "{name}");
            played.is_gone();
        }
    }
}

#[tokio::test]
async fn every_stop_ends_the_tree_of_an_agent_that_heeds_nothing() {
    let limits = |set: fn(&mut ClockLimits)| {
        let mut limits = ClockLimits::default();
        set(&mut limits);
        limits
    };
    let cases = [
        ("AGENT_TIMED_OUT", limits(|limits| limits.total = Some(millis(600)))),
        ("AGENT_IDLE", limits(|limits| limits.idle = Some(millis(600)))),
    ];
    for (expected, limits) in cases {
        let played = agent("trap '' TERM HUP INT", true).with(|turn| turn.agent.limits = limits);
        let ran = played.run().await;
        assert_eq!(code(&ran.outcome), expected);
        let process = ran.outcome.result().unwrap().facts.process.clone().unwrap();
        assert_eq!(process.signal.as_deref(), Some("SIGKILL"));
    }
}

#[tokio::test]
async fn an_agent_that_does_not_leave_after_its_good_end_is_a_success_that_was_recovered() {
    for traps in ["", "trap '' TERM HUP INT"] {
        let part = format!(
            "{traps}\n{STRAY}\necho $$ >> pids; begin; say Done. 1 1 0; over; while :; do sleep 0.05; done"
        );
        let played = Played::new(&[&part]);
        let turn = played.start(&[]);
        let ran = Ran::of(&turn).await;
        assert_eq!((code(&ran.outcome).as_str(), text(&ran.outcome).as_str()), ("ok", "Done."));
        assert!(ran.outcome.result().unwrap().facts.recovered);
        played.is_gone();
    }
}
