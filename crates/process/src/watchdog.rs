//! PURE. The time limits of a run, and the sequence of signals that ends it.
//!
//! | state | what ends it | what is done |
//! |---|---|---|
//! | running | no activity for `idle_timeout` (not while paused) | SIGKILL to the tree |
//! | running | `timeout` since the spawn | SIGTERM to the group, state stopping |
//! | running | abort, kill, the environment's end | SIGTERM, or the signal asked for, to the group, state stopping |
//! | running, stopping | line too long, a failed input, SIGKILL by the user, no handle any more | SIGKILL to the tree |
//! | stopping at the environment's end | no handle any more | nothing: the handles go with the environment |
//! | stopping | `kill_grace` since the SIGTERM | SIGKILL to the tree |
//! | running | the command's exit | state draining |
//! | stopping | the command's exit | state parting |
//! | parting | the group is gone, or `kill_grace` since the SIGTERM | sweep the strays, state draining |
//! | killing | the command's exit | sweep the strays, state draining |
//! | killing | nothing for long: the tree can't be killed | report the known facts |
//! | any | the guard's loss | nothing: the tree is gone |
//! | draining | both pipes at their end | sweep the strays |
//! | draining | `drain` since the exit, not counting while a slow reader holds text back | close the pipes, sweep the strays |
//! | draining | the reader took nothing for 30 s, or `timeout` since the spawn | the same |
//!
//! A stop that comes while draining ends the drain: the program's own end stands, but the pipes get no more time.
//!
//! Times are those of a clock that rests while this process is stopped ([`Watchdog::on_stopped`]); only `timeout` counts that
//! time too.
//!
//! The first reason wins: later ones can only make the end harsher, never rename it.

mod phase;

pub(crate) use phase::RunLimits;

use super::spec::StopReason;
use ground::signal::Signal;
use phase::{Held, Phase, after};
use std::time::{Duration, Instant};

/// Interval of the checks whether a group that got SIGTERM still lives.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The runner's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// Send the signal to the process group.
    Signal(Signal),
    /// Send SIGKILL to the whole tree.
    Kill,
    /// Check whether the process group that got SIGTERM still lives, and report it with [`Watchdog::on_group`].
    LookAtGroup,
    /// Kill the rest of the tree, which also ends its pipes.
    Sweep,
    /// The tree can't be killed, or nobody answers: report what is known.
    GiveUp,
    /// Look whether text waits in a pipe that a slow reader keeps from being read, and say so with [`Watchdog::on_held`].
    LookAtPipes,
    /// The drain is over: close the pipes, sweep what is left of the tree.
    EndDrain,
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

    /// The reason why the run was stopped; `None` if it was not.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// Whether what the command left behind is killed although strays are to be kept: the run was stopped.
    pub(crate) fn kills_strays(&self) -> bool {
        self.reason.is_some() || self.hastened
    }

    /// When [`Watchdog::on_time`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let activity = (!self.paused).then_some(self.last_activity);
        self.phase.deadline(&self.limits, self.started, activity)
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

    /// Takes the result of [`Step::LookAtPipes`]. `waits`: text is waiting in a pipe because of the slow reader.
    pub(crate) fn on_held(&mut self, waits: bool) -> Step {
        let Phase::Draining { held: Some(held), .. } = &mut self.phase else { return Step::Nothing };
        if waits {
            held.looked = true;
            return Step::Nothing;
        }
        self.phase = Phase::Over;
        Step::EndDrain
    }

    /// This process was stopped for `gap`, which the wall clock counts and the clock behind `now` does not.
    pub(crate) fn on_stopped(&mut self, gap: Duration) {
        self.started = self.started.checked_sub(gap).unwrap_or(self.started);
    }

    /// Killed processes are still ending. They can be killed, it only takes long, so the time limit of the kill starts again.
    pub(crate) fn on_dying(&mut self, now: Instant) {
        if let Phase::Killing(since) = &mut self.phase {
            *since = now;
        }
    }

    /// Takes the result of [`Step::LookAtGroup`].
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
            StopReason::TimedOut | StopReason::Aborted | StopReason::Killed | StopReason::HostClosing => {
                !self.limits.kill_grace.is_zero()
            }
            // The handles of an environment go with it, in the grace of its programs.
            StopReason::Abandoned => self.reason == Some(StopReason::HostClosing) && self.is_in_grace(),
            StopReason::Exited
            | StopReason::Idle
            | StopReason::LineTooLong(_)
            | StopReason::InputFailed
            | StopReason::Lost => false,
        };
        self.stop(reason, gentle, now)
    }

    /// Like [`Watchdog::on_stop`], with a signal of the user's choice, which is sent even if another stop came before. SIGKILL
    /// has no grace period.
    pub(crate) fn on_signal(&mut self, reason: StopReason, signal: Signal, now: Instant) -> Step {
        if signal == Signal::Kill {
            return self.stop(reason, false, now);
        }
        match self.on_stop(reason, now) {
            Step::Signal(_) => Step::Signal(signal),
            Step::Nothing if self.is_in_grace() => Step::Signal(signal),
            step => step,
        }
    }

    /// Whether those who were told to end have time left to do so.
    fn is_in_grace(&self) -> bool {
        matches!(self.phase, Phase::Stopping(_) | Phase::Parting { .. })
    }

    fn stop(&mut self, reason: StopReason, gentle: bool, now: Instant) -> Step {
        if matches!(reason, StopReason::LineTooLong(_)) {
            // The reason is about the output, which may also be read after the exit.
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
                Step::Signal(Signal::Term)
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

    /// The guard that held the tree was killed, and the tree with it: there is nothing left to wait for. An exit that was
    /// reported before may have been that kill, so it proves nothing.
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

#[cfg(test)]
mod tests;
