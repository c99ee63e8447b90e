//! When a turn is over, as a table of events and clocks.

#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

use copilot::reported_error::ReportedError;
use copilot::session_event::{Background, TurnEvent};
use copilot::turn_state::{QUIET, SETTLE, TurnEnd, Turns};
use ground::error::{Error, ErrorCode};
use proptest::prelude::*;
use std::time::Duration;

const T0: Duration = Duration::from_secs(100);

fn at(millis: u64) -> Duration {
    T0 + Duration::from_millis(millis)
}

fn user(id: &str) -> TurnEvent {
    TurnEvent::UserMessage { message_id: Some(id.into()), continuation: false }
}

fn continuation(id: &str) -> TurnEvent {
    TurnEvent::UserMessage { message_id: Some(id.into()), continuation: true }
}

fn answer(origin: &str, text: &str) -> TurnEvent {
    TurnEvent::AssistantMessage { origin: Some(origin.into()), answer: Some(text.into()) }
}

fn idle() -> TurnEvent {
    TurnEvent::SessionIdle { background: Background::default(), aborted: false, autopilot: false }
}

fn busy_idle() -> TurnEvent {
    let background = Background { agents: vec!["a1".into()], shells: vec!["s1".into()] };
    TurnEvent::SessionIdle { background, aborted: false, autopilot: false }
}

fn autopilot_idle() -> TurnEvent {
    TurnEvent::SessionIdle { background: Background::default(), aborted: false, autopilot: true }
}

fn error(kind: &str) -> TurnEvent {
    TurnEvent::Error(Box::new(ReportedError {
        error_type: kind.into(),
        message: format!("{kind} error"),
        ..Default::default()
    }))
}

fn foreground_done() -> TurnEvent {
    TurnEvent::AssistantIdle { aborted: false }
}

/// The end of a lone turn "m" after these events, one a millisecond.
fn run(events: &[TurnEvent]) -> Option<TurnEnd> {
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, Some("m".into()), T0);
    for (index, event) in events.iter().enumerate() {
        turns.on_event(event, at(index as u64));
    }
    turns.take_end(turn, at(events.len() as u64))
}

/// As [`run`], of a message that was sent while nothing was being worked on; looked at after so long.
fn run_alone(events: &[TurnEvent], after: Duration) -> Option<TurnEnd> {
    let mut turns = Turns::default();
    let turn = turns.open(false, true);
    turns.on_reply(turn, Some("m".into()), T0);
    for (index, event) in events.iter().enumerate() {
        turns.on_event(event, at(index as u64));
    }
    turns.take_end(turn, at(events.len() as u64) + after)
}

fn answered(end: Option<TurnEnd>) -> Option<String> {
    end.expect("the turn is not over").expect("the turn failed")
}

fn failed(end: Option<TurnEnd>) -> ErrorCode {
    end.expect("the turn is not over").expect_err("the turn succeeded").code()
}

#[test]
fn an_idle_before_the_own_message_is_another_turns() {
    assert!(run(&[idle(), answer("x", "theirs"), idle()]).is_none());
    assert_eq!(answered(run(&[idle(), user("m"), answer("m", "mine"), idle()])), Some("mine".into()));
}

#[test]
fn a_message_that_is_refused_before_its_turn_begins_fails_after_the_next_idle() {
    let failing = [error("query"), foreground_done(), idle()];
    assert_eq!(failed(run_alone(&failing, QUIET)), ErrorCode::SessionError);
    assert_eq!(failed(run_alone(&failing[..2], QUIET)), ErrorCode::SessionError);
    assert_eq!(failed(run_alone(&[error("query"), idle()], QUIET)), ErrorCode::SessionError);
    // Its own message may still come: what was reported is then another turn's, or a tool server's.
    assert!(run_alone(&failing, Duration::ZERO).is_none());
    let late = [&failing[..], &[user("m"), answer("m", "mine"), idle()]].concat();
    assert_eq!(answered(run_alone(&late, QUIET)), Some("mine".into()));
    // Without an idle, an error says nothing.
    assert!(run_alone(&failing[..1], QUIET).is_none());
    assert!(run_alone(&[error("notification"), idle()], QUIET).is_none());
    assert!(run_alone(&[error("query"), idle(), TurnEvent::Work], QUIET).is_none());
}

#[test]
fn an_abort_takes_the_queued_messages_along_and_no_later_one() {
    let mut turns = Turns::default();
    let running = turns.open(false, true);
    turns.on_reply(running, Some("a".into()), T0);
    turns.on_event(&user("a"), T0);
    let queued = turns.open(false, false);
    turns.on_reply(queued, Some("b".into()), T0);
    let later = turns.open(false, false);
    turns.on_event(&TurnEvent::Abort, T0);
    turns.on_reply(later, Some("c".into()), T0);
    let aborted =
        TurnEvent::SessionIdle { background: Background::default(), aborted: true, autopilot: false };
    turns.on_event(&aborted, at(1));
    assert_eq!(failed(turns.take_end(running, at(1))), ErrorCode::SessionAborted);
    assert!(turns.take_end(queued, at(1)).is_none());
    assert_eq!(turns.deadline(queued), Some(at(1) + QUIET));
    assert_eq!(failed(turns.take_end(queued, at(1) + QUIET)), ErrorCode::SessionAborted);
    turns.on_event(&user("c"), at(5000));
    turns.on_event(&answer("c", "late"), at(5001));
    turns.on_event(&idle(), at(5002));
    assert_eq!(answered(turns.take_end(later, at(5002))), Some("late".into()));
}

#[test]
fn a_queued_message_that_outlives_an_abort_gets_its_answer() {
    let end = run_alone(
        &[TurnEvent::Abort, foreground_done(), idle(), user("m"), answer("m", "mine"), idle()],
        Duration::ZERO,
    );
    assert_eq!(answered(end), Some("mine".into()));
}

#[test]
fn an_error_while_others_are_worked_on_is_theirs_until_they_are_idle() {
    let theirs = [error("query"), foreground_done(), idle()];
    let looked_at = |events: &[TurnEvent]| {
        let mut turns = Turns::default();
        let turn = turns.open(false, false);
        turns.on_reply(turn, Some("m".into()), T0);
        events.iter().for_each(|event| turns.on_event(event, T0));
        turns.take_end(turn, at(1) + QUIET)
    };
    assert!(looked_at(&theirs).is_none());
    assert!(run_alone(&[&[user("x")], &theirs[..]].concat(), QUIET).is_none());
    assert_eq!(failed(looked_at(&[theirs.clone(), theirs].concat())), ErrorCode::SessionError);
}

#[test]
fn a_message_that_is_refused_before_its_reply_fails_too() {
    let mut turns = Turns::default();
    let turn = turns.open(false, true);
    for event in [error("query"), foreground_done(), idle()] {
        turns.on_event(&event, T0);
    }
    turns.on_reply(turn, Some("m".into()), at(1));
    assert_eq!(turns.deadline(turn), Some(at(1) + QUIET));
    assert!(turns.describe(turn).contains("query error"));
    assert_eq!(failed(turns.take_end(turn, at(1) + QUIET)), ErrorCode::SessionError);
}

#[test]
fn an_error_before_the_own_message_is_another_turns() {
    assert_eq!(answered(run(&[error("query"), user("m"), answer("m", "mine"), idle()])), Some("mine".into()));
}

#[test]
fn the_answer_is_the_last_that_belongs_to_the_message() {
    let empty = TurnEvent::AssistantMessage { origin: Some("m".into()), answer: None };
    let unnamed = TurnEvent::AssistantMessage { origin: None, answer: Some("unnamed".into()) };
    assert_eq!(
        answered(run(&[user("m"), answer("m", "one"), answer("m", "two"), empty, idle()])),
        Some("two".into())
    );
    assert_eq!(answered(run(&[user("m"), unnamed, idle()])), Some("unnamed".into()));
    assert_eq!(answered(run(&[user("m"), idle()])), None);
    assert_eq!(answered(run(&[user("m"), user("other"), answer("other", "theirs"), idle()])), None);
}

#[test]
fn background_work_keeps_the_turn_open() {
    assert!(run(&[user("m"), answer("m", "started"), busy_idle()]).is_none());
    let events = [user("m"), answer("m", "started"), busy_idle(), answer("m", "done"), idle()];
    assert_eq!(answered(run(&events)), Some("done".into()));
}

#[test]
fn an_error_belongs_to_the_turn_when_an_idle_follows() {
    assert_eq!(failed(run(&[user("m"), error("query"), foreground_done()])), ErrorCode::SessionError);
    assert_eq!(failed(run(&[user("m"), error("query"), idle()])), ErrorCode::SessionError);
    assert_eq!(
        failed(run(&[user("m"), error("query"), TurnEvent::Other, busy_idle()])),
        ErrorCode::SessionError
    );
}

#[test]
fn an_error_is_not_the_turns_when_the_agent_goes_on() {
    let events = [user("m"), error("mcp"), TurnEvent::Work, answer("m", "fine"), idle()];
    assert_eq!(answered(run(&events)), Some("fine".into()));
    assert_eq!(answered(run(&[user("m"), error("notification"), idle()])), None);
}

#[test]
fn an_error_and_then_silence_ends_the_turn_unless_a_tool_is_open() {
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, Some("m".into()), T0);
    turns.on_event(&user("m"), at(0));
    turns.on_event(&TurnEvent::Opened { id: "t".into(), name: "tool sleep".into() }, at(1));
    turns.on_event(&error("mcp"), at(2));
    assert_eq!(turns.deadline(turn), None);
    assert!(turns.take_end(turn, at(60_000)).is_none());
    turns.on_event(&error("mcp"), at(60_000));
    turns.on_event(&TurnEvent::Closed { id: "t".into() }, at(60_001));
    assert_eq!(failed(turns.take_end(turn, at(60_001) + QUIET)), ErrorCode::SessionError);
}

#[test]
fn two_turns_at_once_each_get_their_own() {
    let mut turns = Turns::default();
    let first = turns.open(false, false);
    turns.on_reply(first, Some("a".into()), T0);
    let second = turns.open(false, false);
    turns.on_reply(second, Some("b".into()), T0);
    for event in [user("a"), answer("a", "A"), user("b"), answer("b", "B"), idle()] {
        turns.on_event(&event, at(1));
    }
    assert_eq!(answered(turns.take_end(first, at(2))), Some("A".into()));
    assert_eq!(answered(turns.take_end(second, at(2))), Some("B".into()));
    assert!(turns.is_empty());
}

#[test]
fn the_late_idle_of_a_failed_turn_does_not_end_the_next() {
    let mut turns = Turns::default();
    let first = turns.open(false, false);
    turns.on_reply(first, Some("a".into()), T0);
    for event in [user("a"), error("query"), foreground_done()] {
        turns.on_event(&event, at(1));
    }
    assert_eq!(failed(turns.take_end(first, at(2))), ErrorCode::SessionError);
    let second = turns.open(false, false);
    turns.on_reply(second, Some("b".into()), at(3));
    turns.on_event(&user("b"), at(4));
    turns.on_event(&idle(), at(5));
    assert!(turns.take_end(second, at(6)).is_none());
    turns.on_event(&answer("b", "B"), at(7));
    assert!(turns.take_end(second, at(8)).is_none());
    turns.on_event(&idle(), at(9));
    assert_eq!(answered(turns.take_end(second, at(10))), Some("B".into()));
}

#[test]
fn a_turn_that_did_nothing_is_over_after_the_late_idle_all_the_same() {
    let mut turns = Turns::default();
    let first = turns.open(false, false);
    turns.on_reply(first, Some("a".into()), T0);
    for event in [user("a"), error("query"), foreground_done()] {
        turns.on_event(&event, at(1));
    }
    turns.take_end(first, at(2));
    let second = turns.open(false, false);
    turns.on_reply(second, Some("b".into()), at(3));
    turns.on_event(&user("b"), at(4));
    turns.on_event(&idle(), at(5));
    assert_eq!(turns.deadline(second), Some(at(5) + QUIET));
    assert_eq!(answered(turns.take_end(second, at(5) + QUIET)), None);
}

#[test]
fn events_that_overtake_the_reply_count() {
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    for event in [user("m"), answer("m", "early"), idle()] {
        turns.on_event(&event, at(1));
    }
    assert!(turns.take_end(turn, at(2)).is_none());
    turns.on_reply(turn, Some("m".into()), at(3));
    assert_eq!(answered(turns.take_end(turn, at(4))), Some("early".into()));
}

#[test]
fn a_runtime_that_names_no_messages_is_followed_in_order() {
    let unnamed = TurnEvent::UserMessage { message_id: None, continuation: false };
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, None, T0);
    for event in [unnamed, TurnEvent::AssistantMessage { origin: None, answer: Some("A".into()) }, idle()] {
        turns.on_event(&event, at(1));
    }
    assert_eq!(answered(turns.take_end(turn, at(2))), Some("A".into()));
}

#[test]
fn autopilot_is_over_when_it_says_so_or_does_not_go_on() {
    let legs = [user("m"), answer("m", "one"), foreground_done(), continuation("c"), answer("c", "two")];
    let mut said = legs.to_vec();
    said.extend([TurnEvent::AutopilotEnd, autopilot_idle()]);
    assert_eq!(answered(run(&said)), Some("two".into()));
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, Some("m".into()), T0);
    for event in [user("m"), answer("m", "one"), autopilot_idle()] {
        turns.on_event(&event, at(1));
    }
    assert!(turns.take_end(turn, at(2)).is_none());
    turns.on_event(&continuation("c"), at(3));
    assert!(turns.take_end(turn, at(3) + SETTLE * 2).is_none());
    turns.on_event(&answer("c", "two"), at(5000));
    turns.on_event(&autopilot_idle(), at(5001));
    assert_eq!(answered(turns.take_end(turn, at(5001) + SETTLE)), Some("two".into()));
}

#[test]
fn an_aborted_turn_says_so() {
    let aborted =
        TurnEvent::SessionIdle { background: Background::default(), aborted: true, autopilot: false };
    assert_eq!(failed(run(&[user("m"), answer("m", "half"), aborted])), ErrorCode::SessionAborted);
    assert_eq!(failed(run(&[user("m"), TurnEvent::Abort, idle()])), ErrorCode::SessionAborted);
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, Some("m".into()), T0);
    turns.on_event(&user("m"), at(1));
    turns.on_abort_requested(at(2));
    assert_eq!(failed(turns.take_end(turn, at(2) + QUIET)), ErrorCode::SessionAborted);
}

#[test]
fn a_shutdown_ends_turns_that_have_not_begun() {
    let end = run(&[TurnEvent::Shutdown { reason: Some("crash".into()) }]);
    let error = end.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionClosed);
    assert!(error.message().contains("crash"));
}

#[test]
fn the_first_end_counts() {
    let mut turns = Turns::default();
    let turn = turns.open(false, false);
    turns.on_reply(turn, Some("m".into()), T0);
    for event in [user("m"), answer("m", "A"), idle()] {
        turns.on_event(&event, at(1));
    }
    turns.fail_all(&Error::new(ErrorCode::ConnectionLost, "gone"));
    assert_eq!(answered(turns.take_end(turn, at(2))), Some("A".into()));
}

#[test]
fn steering_is_answered_by_the_turn_that_it_steers() {
    let mut turns = Turns::default();
    let first = turns.open(false, false);
    turns.on_reply(first, Some("a".into()), T0);
    turns.on_event(&user("a"), at(1));
    let steering = turns.open(true, false);
    turns.on_reply(steering, Some("s".into()), at(2));
    for event in [user("s"), answer("a", "steered"), idle()] {
        turns.on_event(&event, at(3));
    }
    assert_eq!(answered(turns.take_end(first, at(4))), Some("steered".into()));
    assert_eq!(answered(turns.take_end(steering, at(4))), Some("steered".into()));
}

fn any_event() -> impl Strategy<Value = TurnEvent> {
    prop_oneof![
        Just(user("m")),
        Just(user("other")),
        Just(continuation("c")),
        Just(answer("m", "mine")),
        Just(answer("other", "theirs")),
        Just(idle()),
        Just(busy_idle()),
        Just(autopilot_idle()),
        Just(foreground_done()),
        Just(error("query")),
        Just(error("notification")),
        Just(TurnEvent::Work),
        Just(TurnEvent::Abort),
        Just(TurnEvent::Opened { id: "t".into(), name: "tool".into() }),
        Just(TurnEvent::Closed { id: "t".into() }),
    ]
}

proptest! {
    #[test]
    fn nothing_ends_a_turn_before_its_own_message(events in proptest::collection::vec(any_event(), 0..40)) {
        let before: Vec<_> = events.into_iter().filter(|event| *event != user("m") && *event != answer("m", "mine")).collect();
        prop_assert!(run(&before).is_none());
    }

    #[test]
    fn an_answer_is_never_anothers(events in proptest::collection::vec(any_event(), 0..40)) {
        if let Some(Ok(Some(answer))) = run(&events) {
            // "theirs" can only be taken for ours when nobody said whose it was.
            let announced = events.iter().position(|event| *event == user("other"));
            let first = events.iter().position(|event| *event == self::answer("other", "theirs"));
            let own = events.iter().position(|event| *event == user("m"));
            if own.is_some() && own < announced && announced < first {
                prop_assert_ne!(answer, "theirs");
            }
        }
    }

    #[test]
    fn a_running_turn_ends_with_a_clean_idle_and_time(events in proptest::collection::vec(any_event(), 0..40)) {
        let mut turns = Turns::default();
        let turn = turns.open(false, false);
        turns.on_reply(turn, Some("m".into()), T0);
        turns.on_event(&user("m"), T0);
        for (index, event) in events.iter().enumerate() {
            turns.on_event(event, at(index as u64));
        }
        turns.on_event(&idle(), at(100));
        prop_assert!(turns.take_end(turn, at(100) + QUIET + SETTLE).is_some());
    }
}

fn error_of(origin: &str) -> TurnEvent {
    TurnEvent::Error(Box::new(ReportedError {
        error_type: "query".into(),
        message: format!("{origin} failed"),
        origin: Some(origin.into()),
        ..Default::default()
    }))
}

fn stopped(request: &str, reason: &str) -> TurnEvent {
    TurnEvent::AutopilotStopped { request: request.into(), reason: reason.into() }
}

#[test]
fn an_error_that_names_its_message_fails_that_turn_alone_and_at_once() {
    let mut turns = Turns::default();
    let first = turns.open(false, true);
    turns.on_reply(first, Some("m1".into()), T0);
    let second = turns.open(false, false);
    turns.on_reply(second, Some("m2".into()), T0);
    turns.on_event(&user("m1"), T0);
    turns.on_event(&error_of("m2"), T0);
    assert!(turns.take_end(first, T0).is_none());
    let error = turns.take_end(second, T0).expect("the second turn failed").unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::SessionError, "m2 failed"));
    turns.on_event(&answer("m1", "fine"), T0);
    turns.on_event(&idle(), T0);
    // The idle may have been that of the failed turn; this one has done something since.
    assert_eq!(answered(turns.take_end(first, T0)).as_deref(), Some("fine"));
}

#[test]
fn an_error_that_names_nobodys_message_fails_no_turn() {
    assert!(run(&[user("m"), error_of("other")]).is_none());
    let end = run(&[user("m"), error_of("other"), answer("m", "a"), idle()]);
    assert_eq!(answered(end).as_deref(), Some("a"));
}

#[test]
fn an_autopilot_that_stops_on_a_message_ends_its_turn_by_the_reason() {
    let worked = [user("m"), answer("m", "a")];
    let end = |reason| run(&[worked[0].clone(), worked[1].clone(), stopped("m", reason)]);
    assert_eq!(answered(end("completed")).as_deref(), Some("a"));
    assert_eq!(end("error").expect("an end").unwrap_err().code(), ErrorCode::SessionError);
    assert_eq!(end("aborted").expect("an end").unwrap_err().code(), ErrorCode::SessionAborted);
    assert!(run(&[user("m"), stopped("other", "error")]).is_none());
}

#[test]
fn a_prompt_that_a_policy_blocks_ends_with_the_next_idle() {
    let blocked = TurnEvent::PromptBlocked { origin: "m".into() };
    assert!(matches!(run(&[blocked, idle()]), Some(Ok(None))));
    let other = TurnEvent::PromptBlocked { origin: "other".into() };
    assert!(run(&[other, idle()]).is_none());
}
