use super::phase::{KILLED_WITHIN, READER_WITHIN};
use super::*;

const LIMITS: RunLimits = RunLimits {
    idle: Some(Duration::from_secs(10)),
    total: Some(Duration::from_secs(60)),
    kill_grace: Duration::from_secs(2),
    drain: Duration::from_millis(250),
};

fn at(start: Instant, seconds: f64) -> Instant {
    start + Duration::from_secs_f64(seconds)
}

fn watchdog() -> (Watchdog, Instant) {
    let start = Instant::now();
    (Watchdog::new(LIMITS, start), start)
}

#[test]
fn kills_at_once_after_silence_and_activity_puts_it_off() {
    let (mut dog, start) = watchdog();
    dog.on_activity(at(start, 7.0));
    assert_eq!(dog.on_time(at(start, 10.0)), Step::Nothing);
    assert_eq!(dog.deadline(), Some(at(start, 17.0)));
    assert_eq!(dog.on_time(at(start, 17.0)), Step::Kill);
    assert_eq!(dog.reason(), Some(StopReason::Idle));
}

#[test]
fn terminates_then_kills_at_the_wall_clock_whatever_the_activity() {
    let (mut dog, start) = watchdog();
    dog.on_activity(at(start, 59.0));
    assert_eq!(dog.on_time(at(start, 60.0)), Step::Signal(Signal::Term));
    assert_eq!(dog.reason(), Some(StopReason::TimedOut));
    assert_eq!(dog.on_time(at(start, 61.9)), Step::Nothing);
    assert_eq!(dog.on_time(at(start, 62.0)), Step::Kill);
}

#[test]
fn rests_while_a_slow_reader_holds_the_pipe_but_the_wall_clock_does_not() {
    let (mut dog, start) = watchdog();
    dog.on_pause(start);
    assert_eq!(dog.deadline(), Some(at(start, 60.0)));
    dog.on_resume(at(start, 50.0));
    assert_eq!(dog.deadline(), Some(at(start, 60.0)));
    dog.on_activity(at(start, 49.0));
    let (mut dog, start) = watchdog();
    dog.on_pause(start);
    dog.on_resume(at(start, 30.0));
    assert_eq!(dog.deadline(), Some(at(start, 40.0)), "the idle clock begins anew after the pause");
}

#[test]
fn the_end_of_an_environment_is_gentle_although_its_handles_go_with_it() {
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_stop(StopReason::HostClosing, at(start, 1.0)), Step::Signal(Signal::Term));
    assert_eq!(dog.on_stop(StopReason::Abandoned, at(start, 1.0)), Step::Nothing);
    assert_eq!(dog.deadline(), Some(at(start, 3.0)), "the grace");
    assert_eq!(dog.on_time(at(start, 3.0)), Step::Kill);
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_stop(StopReason::Abandoned, at(start, 1.0)), Step::Kill);
}

#[test]
fn the_first_reason_wins_and_a_later_one_only_hastens() {
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_stop(StopReason::Aborted, at(start, 1.0)), Step::Signal(Signal::Term));
    assert_eq!(dog.on_stop(StopReason::Killed, at(start, 1.1)), Step::Nothing);
    assert_eq!(dog.on_stop(StopReason::Abandoned, at(start, 1.2)), Step::Kill);
    assert_eq!(dog.reason(), Some(StopReason::Aborted));
}

#[test]
fn a_kill_without_grace_is_one_whatever_came_before() {
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_stop(StopReason::Killed, start), Step::Signal(Signal::Term));
    assert!(dog.is_in_grace());
    assert_eq!(dog.on_signal(StopReason::Killed, Signal::Kill, start), Step::Kill);
    assert!(!dog.is_in_grace());
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_stop(StopReason::InputFailed, start), Step::Kill);
}

#[test]
fn a_grace_of_zero_kills_at_once() {
    let start = Instant::now();
    let mut dog = Watchdog::new(RunLimits { kill_grace: Duration::ZERO, ..LIMITS }, start);
    assert_eq!(dog.on_stop(StopReason::Killed, start), Step::Kill);
}

#[test]
fn the_drain_ends_with_the_pipes_or_after_its_time() {
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_exit(at(start, 1.0)), Step::Nothing, "others may finish what they write");
    assert_eq!(dog.deadline(), Some(at(start, 1.25)));
    assert_eq!(dog.on_pipes_ended(), Step::EndDrain);
    assert_eq!(dog.on_pipes_ended(), Step::Nothing);

    let (mut dog, start) = watchdog();
    dog.on_exit(at(start, 1.0));
    assert_eq!(dog.on_time(at(start, 1.25)), Step::EndDrain);
    assert_eq!(dog.reason(), None);
}

#[test]
fn the_drain_rests_while_a_slow_reader_holds_text_back() {
    let (mut dog, start) = watchdog();
    dog.on_exit(at(start, 1.0));
    dog.on_pause(at(start, 1.1));
    assert_eq!(dog.on_time(at(start, 1.25)), Step::LookAtPipes);
    assert_eq!(dog.on_held(true), Step::Nothing);
    assert_eq!(dog.on_time(at(start, 5.0)), Step::Nothing);
    dog.on_resume(at(start, 5.1));
    assert_eq!(dog.deadline(), Some(at(start, 5.25)), "150 ms of the drain were left");
    dog.on_pause(at(start, 5.2));
    assert_eq!(dog.on_time(at(start, 5.25)), Step::LookAtPipes);
    assert_eq!(dog.on_held(false), Step::EndDrain, "nobody is held back by the reader");
}

#[test]
fn a_reader_that_never_comes_and_the_wall_clock_end_the_drain() {
    let (mut dog, start) = watchdog();
    dog.on_exit(at(start, 1.0));
    dog.on_pause(at(start, 1.0));
    dog.on_time(at(start, 1.25));
    dog.on_held(true);
    assert_eq!(dog.on_time(at(start, 1.0) + READER_WITHIN), Step::EndDrain);
    let (mut dog, start) = watchdog();
    dog.on_exit(at(start, 59.9));
    dog.on_pause(at(start, 59.9));
    assert_eq!(dog.on_time(at(start, 60.0)), Step::EndDrain, "`timeout` bounds the drain too");
    assert_eq!((dog.reason(), dog.kills_strays()), (None, false), "the program's own end stands");
}

#[test]
fn time_that_this_process_was_stopped_counts_for_the_wall_clock_alone() {
    let (mut dog, start) = watchdog();
    dog.on_activity(at(start, 5.0));
    dog.on_stopped(Duration::from_secs(30));
    assert_eq!(dog.deadline(), Some(at(start, 15.0)));
    dog.on_activity(at(start, 25.0));
    assert_eq!(dog.deadline(), Some(at(start, 30.0)), "60 s by the wall");
}

#[test]
fn what_is_dying_is_not_given_up() {
    let (mut dog, start) = watchdog();
    dog.on_stop(StopReason::Idle, at(start, 1.0));
    dog.on_dying(at(start, 12.0));
    assert_eq!(dog.on_time(at(start, 14.0)), Step::Nothing);
    assert_eq!(dog.on_time(at(start, 12.0) + KILLED_WITHIN), Step::GiveUp);
}

#[test]
fn pipes_that_end_before_the_exit_end_nothing() {
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_pipes_ended(), Step::Nothing);
    assert_eq!(dog.on_stop(StopReason::Killed, at(start, 1.0)), Step::Signal(Signal::Term));
    dog.on_exit(at(start, 1.5));
    assert_eq!(
        dog.on_stop(StopReason::Killed, at(start, 1.6)),
        Step::Nothing,
        "after the exit there is nothing to stop"
    );
}

#[test]
fn a_lost_guard_is_the_reason_also_when_the_exit_was_reported_first() {
    let (mut dog, start) = watchdog();
    dog.on_exit(at(start, 1.0));
    dog.on_lost();
    assert_eq!((dog.reason(), dog.deadline()), (Some(StopReason::Lost), None));
}

#[test]
fn endless_limits_never_fire() {
    let start = Instant::now();
    let limits = RunLimits { idle: None, total: Some(Duration::MAX), ..LIMITS };
    let mut dog = Watchdog::new(limits, start);
    assert_eq!(dog.deadline(), None);
    assert_eq!(dog.on_time(at(start, 1e6)), Step::Nothing);
}

#[test]
fn a_signal_of_the_users_choice_goes_out_again_and_sigkill_waits_for_nobody() {
    let int = Signal::Int;
    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_signal(StopReason::Killed, int, start), Step::Signal(int));
    assert_eq!(dog.deadline(), Some(at(start, 2.0)));
    assert_eq!(dog.on_signal(StopReason::Killed, int, at(start, 1.0)), Step::Signal(int));
    assert_eq!(dog.deadline(), Some(at(start, 2.0)), "another signal is no other grace");
    assert_eq!(dog.on_signal(StopReason::Killed, Signal::Kill, at(start, 1.5)), Step::Kill);
    assert_eq!(dog.on_signal(StopReason::Killed, int, at(start, 1.6)), Step::Nothing, "it is being killed");
    assert_eq!(dog.on_exit(at(start, 1.7)), Step::Sweep);
    assert_eq!(dog.reason(), Some(StopReason::Killed));

    let (mut dog, start) = watchdog();
    assert_eq!(dog.on_exit(start), Step::Nothing);
    assert_eq!(dog.on_signal(StopReason::Killed, int, start), Step::EndDrain, "nobody gets more time");
    assert_eq!(dog.reason(), None, "the program's own end stands");

    let (mut dog, start) = watchdog();
    dog.on_stop(StopReason::Aborted, start);
    assert_eq!(dog.on_exit(at(start, 1.0)), Step::LookAtGroup);
    assert_eq!(
        dog.on_signal(StopReason::Killed, int, at(start, 1.1)),
        Step::Signal(int),
        "to the rest of its group"
    );
    assert_eq!(dog.reason(), Some(StopReason::Aborted), "the first reason wins");
}
