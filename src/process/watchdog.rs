//! PURE. The clocks of a run and the ladder of its end.
//!
//! | state | what ends it | what is done |
//! |---|---|---|
//! | running | no activity for `idle_timeout` (not while paused) | SIGKILL to the tree |
//! | running | `timeout` since the spawn | SIGTERM to the group, state stopping |
//! | running | abort, kill | SIGTERM, or the signal asked for, to the group, state stopping |
//! | running, stopping | line too long, a failed input, SIGKILL by the user, the host's end | SIGKILL to the tree |
//! | stopping | `kill_grace` since the SIGTERM | SIGKILL to the tree |
//! | running | the command's exit | state draining |
//! | stopping | the command's exit | state parting |
//! | parting | the group is gone, or `kill_grace` since the SIGTERM | sweep the strays, state draining |
//! | killing | the command's exit | sweep the strays, state draining |
//! | killing | nothing for long: it can't be killed | report what is known |
//! | any | the guard's loss | nothing: the tree is gone |
//! | draining | both pipes at their end | sweep the strays |
//! | draining | `drain` since the exit, not counting while a slow reader holds text back | close the pipes, sweep the strays |
//! | draining | the reader took nothing for [`READER_PATIENCE`], or `timeout` since the spawn | the same |
//!
//! A stop that comes while draining ends the drain: the program's own end stands, but nobody gets more time.
//!
//! Times are those of a clock that rests while this process is stopped ([`Watchdog::on_stopped`]); `timeout` alone counts all.
//!
//! The first reason wins: later ones can only make the end harsher, never rename it.

use super::spec::StopReason;
use std::time::{Duration, Instant};

/// What the runner has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// SIGTERM to the process group.
    Terminate,
    /// SIGKILL to the whole tree.
    Kill,
    /// Look whether the process group that was told to end still lives, and say so with [`Watchdog::on_group`].
    LookAtGroup,
    /// Sweep what is left of the tree; its pipes end by that.
    Sweep,
    /// The tree can't be killed, or nobody answers: report what is known.
    GiveUp,
    /// Look whether text waits in a pipe that a slow reader keeps from being read, and say so with [`Watchdog::on_held`].
    LookAtPipes,
    /// The drain is over: close the pipes, sweep what is left of the tree.
    EndDrain,
}

/// The limits of a run; `None` is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub kill_grace: Duration,
    pub drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was sent at this time.
    Stopping(Instant),
    /// It obeyed; the rest of its group has until the end of the grace.
    Parting {
        terminated: Instant,
        next_look: Instant,
    },
    /// SIGKILL was sent at this time.
    Killing(Instant),
    /// The command exited. `None`: no clock ends it.
    Draining {
        ends: Option<Instant>,
        held: Option<Held>,
    },
    Over,
}

/// A slow reader keeps the pipes from being read: the drain rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    since: Instant,
    /// Text was seen waiting.
    looked: bool,
}

#[derive(Debug)]
pub(crate) struct Watchdog {
    limits: RunLimits,
    started: Instant,
    last_activity: Instant,
    /// A slow reader keeps us from reading.
    paused: bool,
    phase: Phase,
    reason: Option<StopReason>,
    /// Somebody wants the end of the drain: strays are not kept.
    hastened: bool,
}

/// How often a group that was told to end is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// A tree that does not end by SIGKILL for so long can't be killed by us (the guards give up after ten seconds).
const KILL_PATIENCE: Duration = Duration::from_secs(12);
/// What strays wrote waits in the pipe for a slow reader; one that takes nothing for so long is none.
const READER_PATIENCE: Duration = Duration::from_secs(30);

impl Watchdog {
    pub(crate) fn new(limits: RunLimits, now: Instant) -> Self {
        Watchdog {
            limits,
            started: now,
            last_activity: now,
            paused: false,
            phase: Phase::Running,
            reason: None,
            hastened: false,
        }
    }

    /// Why the run was stopped; `None` as long as it was not.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// Whether what the command left behind is killed although strays are to be kept: the run was stopped.
    pub(crate) fn kills_strays(&self) -> bool {
        self.reason.is_some() || self.hastened
    }

    /// When [`Watchdog::on_time`] has something to do next. Lazy: activity does not move a timer, the check at its end does.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => {
                let idle = if self.paused { None } else { after(self.last_activity, self.limits.idle) };
                let total = after(self.started, self.limits.total);
                [idle, total].into_iter().flatten().min()
            }
            Phase::Stopping(since) => after(since, Some(self.limits.kill_grace)),
            Phase::Parting { terminated, next_look } => {
                let grace = after(terminated, Some(self.limits.kill_grace));
                [grace, Some(next_look)].into_iter().flatten().min()
            }
            Phase::Killing(since) => after(since, Some(KILL_PATIENCE)),
            Phase::Draining { ends, held } => {
                let end = match held {
                    Some(Held { since, looked: true }) => after(since, Some(READER_PATIENCE)),
                    _ => ends,
                };
                [end, after(self.started, self.limits.total)].into_iter().flatten().min()
            }
            Phase::Over => None,
        }
    }

    pub(crate) fn on_time(&mut self, now: Instant) -> Step {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Step::Nothing;
        }
        let timed_out = after(self.started, self.limits.total).is_some_and(|deadline| now >= deadline);
        match self.phase {
            Phase::Running => {
                self.on_stop(if timed_out { StopReason::TimedOut } else { StopReason::Idle }, now)
            }
            Phase::Stopping(_) => {
                self.phase = Phase::Killing(now);
                Step::Kill
            }
            Phase::Parting { terminated, .. } => {
                let grace = after(terminated, Some(self.limits.kill_grace));
                if grace.is_some_and(|grace| now >= grace) {
                    self.on_group(false, now)
                } else {
                    Step::LookAtGroup
                }
            }
            Phase::Killing(_) => {
                self.phase = Phase::Over;
                Step::GiveUp
            }
            Phase::Draining { held: Some(Held { looked: false, .. }), .. } if !timed_out => Step::LookAtPipes,
            Phase::Draining { .. } => {
                self.phase = Phase::Over;
                Step::EndDrain
            }
            Phase::Over => Step::Nothing,
        }
    }

    /// What [`Step::LookAtPipes`] found: `waits`, text that the slow reader keeps from being read.
    pub(crate) fn on_held(&mut self, waits: bool) -> Step {
        let Phase::Draining { held: Some(held), .. } = &mut self.phase else { return Step::Nothing };
        if waits {
            held.looked = true;
            return Step::Nothing;
        }
        self.phase = Phase::Over;
        Step::EndDrain
    }

    /// This process was stopped for so long: the clock that `now` is told by did not see it, the wall clock did.
    pub(crate) fn on_stopped(&mut self, gap: Duration) {
        self.started = self.started.checked_sub(gap).unwrap_or(self.started);
    }

    /// Who was killed is on the way out: it can be killed, it only takes long.
    pub(crate) fn on_dying(&mut self, now: Instant) {
        if let Phase::Killing(since) = &mut self.phase {
            *since = now;
        }
    }

    /// What [`Step::LookAtGroup`] found.
    pub(crate) fn on_group(&mut self, alive: bool, now: Instant) -> Step {
        let Phase::Parting { terminated, .. } = self.phase else { return Step::Nothing };
        if alive {
            self.phase = Phase::Parting { terminated, next_look: now + LOOK_INTERVAL };
            return Step::Nothing;
        }
        self.phase = self.draining(now);
        Step::Sweep
    }

    /// A byte was read from the program, or taken by it.
    pub(crate) fn on_activity(&mut self, now: Instant) {
        self.last_activity = now;
    }

    /// The reader is too slow: nothing can be read, so silence means nothing.
    pub(crate) fn on_pause(&mut self, now: Instant) {
        self.paused = true;
        if let Phase::Draining { held, .. } = &mut self.phase {
            held.get_or_insert(Held { since: now, looked: false });
        }
    }

    pub(crate) fn on_resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.paused) {
            self.last_activity = now;
        }
        if let Phase::Draining { ends, held } = &mut self.phase
            && let Some(held) = held.take()
        {
            *ends = ends.and_then(|ends| ends.checked_add(now.saturating_duration_since(held.since)));
        }
    }

    pub(crate) fn on_stop(&mut self, reason: StopReason, now: Instant) -> Step {
        let gentle = match reason {
            StopReason::TimedOut | StopReason::Aborted | StopReason::Killed => {
                !self.limits.kill_grace.is_zero()
            }
            StopReason::Exited
            | StopReason::Idle
            | StopReason::LineTooLong(_)
            | StopReason::InputFailed
            | StopReason::Lost
            | StopReason::HostClosing => false,
        };
        self.stop(reason, gentle, now)
    }

    /// As [`Watchdog::on_stop`], without a grace.
    pub(crate) fn on_stop_at_once(&mut self, reason: StopReason, now: Instant) -> Step {
        self.stop(reason, false, now)
    }

    /// Whether those who were told to end have time left to do so.
    pub(crate) fn is_in_grace(&self) -> bool {
        matches!(self.phase, Phase::Stopping(_) | Phase::Parting { .. })
    }

    fn stop(&mut self, reason: StopReason, gentle: bool, now: Instant) -> Step {
        if matches!(reason, StopReason::LineTooLong(_)) {
            // It is said of the output, whenever that is read: also after the exit.
            self.reason.get_or_insert(reason);
        }
        match self.phase {
            Phase::Running | Phase::Stopping(_) | Phase::Parting { .. } => {
                self.reason.get_or_insert(reason);
            }
            Phase::Draining { .. } => {
                self.hastened = true;
                self.phase = Phase::Over;
                return Step::EndDrain;
            }
            Phase::Killing(_) | Phase::Over => return Step::Nothing,
        }
        match (gentle, self.phase) {
            (true, Phase::Running) => {
                self.phase = Phase::Stopping(now);
                Step::Terminate
            }
            (true, _) => Step::Nothing,
            (false, Phase::Parting { .. }) => self.on_group(false, now),
            (false, _) => {
                self.phase = Phase::Killing(now);
                Step::Kill
            }
        }
    }

    /// The command itself is gone; others may still hold its pipes. Of a run that was stopped nobody gets more time than the
    /// grace that its group was given.
    pub(crate) fn on_exit(&mut self, now: Instant) -> Step {
        if let Phase::Stopping(terminated) = self.phase {
            self.phase = Phase::Parting { terminated, next_look: now };
            return Step::LookAtGroup;
        }
        self.phase = self.draining(now);
        if self.reason.is_some() { Step::Sweep } else { Step::Nothing }
    }

    fn draining(&self, now: Instant) -> Phase {
        Phase::Draining { ends: after(now, Some(self.limits.drain)), held: None }
    }

    /// What held the tree was killed, and the tree with it: nothing is left to wait for. An exit that was reported before may
    /// have been that kill, so it proves nothing.
    pub(crate) fn on_lost(&mut self) {
        self.reason.get_or_insert(StopReason::Lost);
        self.phase = Phase::Over;
    }

    /// Both pipes reached their end.
    pub(crate) fn on_pipes_ended(&mut self) -> Step {
        if !matches!(self.phase, Phase::Draining { .. }) {
            return Step::Nothing;
        }
        self.phase = Phase::Over;
        Step::EndDrain
    }
}

/// A deadline that the clock can't hold is none.
fn after(start: Instant, limit: Option<Duration>) -> Option<Instant> {
    start.checked_add(limit?)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(dog.on_time(at(start, 60.0)), Step::Terminate);
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
    fn the_first_reason_wins_and_a_later_one_only_hastens() {
        let (mut dog, start) = watchdog();
        assert_eq!(dog.on_stop(StopReason::Aborted, at(start, 1.0)), Step::Terminate);
        assert_eq!(dog.on_stop(StopReason::Killed, at(start, 1.1)), Step::Nothing);
        assert_eq!(dog.on_stop(StopReason::HostClosing, at(start, 1.2)), Step::Kill);
        assert_eq!(dog.reason(), Some(StopReason::Aborted));
    }

    #[test]
    fn a_kill_without_grace_is_one_whatever_came_before() {
        let (mut dog, start) = watchdog();
        assert_eq!(dog.on_stop(StopReason::Killed, start), Step::Terminate);
        assert!(dog.is_in_grace());
        assert_eq!(dog.on_stop_at_once(StopReason::Killed, start), Step::Kill);
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
        assert_eq!(dog.on_time(at(start, 1.0) + READER_PATIENCE), Step::EndDrain);
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
        assert_eq!(dog.on_time(at(start, 12.0) + KILL_PATIENCE), Step::GiveUp);
    }

    #[test]
    fn pipes_that_end_before_the_exit_end_nothing() {
        let (mut dog, start) = watchdog();
        assert_eq!(dog.on_pipes_ended(), Step::Nothing);
        assert_eq!(dog.on_stop(StopReason::Killed, at(start, 1.0)), Step::Terminate);
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
}
