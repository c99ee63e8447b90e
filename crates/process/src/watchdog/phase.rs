//! PURE. The phases of a run on the way to its end, with their deadlines.

use std::time::{Duration, Instant};

/// The limits of a run; `None` is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub kill_grace: Duration,
    pub drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
pub(super) struct Held {
    pub since: Instant,
    /// Text was seen waiting.
    pub looked: bool,
}

/// Longest wait for a tree after SIGKILL; a longer one can't be killed by this process (the guards give up after ten seconds).
pub(super) const KILLED_WITHIN: Duration = Duration::from_secs(12);
/// Longest wait for a slow reader while output of strays is in the pipe. A reader that takes nothing for so long is treated as
/// gone.
pub(super) const READER_WITHIN: Duration = Duration::from_secs(30);

impl Phase {
    /// When there is something to do next. Lazy: activity does not move a timer, the check at its end does. `activity`: the last one;
    /// `None` while silence means nothing.
    pub(super) fn deadline(
        &self,
        limits: &RunLimits,
        started: Instant,
        activity: Option<Instant>,
    ) -> Option<Instant> {
        let total = || after(started, limits.total);
        match *self {
            Phase::Running => {
                let idle = activity.and_then(|activity| after(activity, limits.idle));
                [idle, total()].into_iter().flatten().min()
            }
            Phase::Stopping(since) => after(since, Some(limits.kill_grace)),
            Phase::Parting { terminated, next_look } => {
                let grace = after(terminated, Some(limits.kill_grace));
                [grace, Some(next_look)].into_iter().flatten().min()
            }
            Phase::Killing(since) => after(since, Some(KILLED_WITHIN)),
            Phase::Draining { ends, held } => {
                let end = match held {
                    Some(Held { since, looked: true }) => after(since, Some(READER_WITHIN)),
                    _ => ends,
                };
                [end, total()].into_iter().flatten().min()
            }
            Phase::Over => None,
        }
    }
}

/// A deadline that the clock can't hold is none.
pub(super) fn after(start: Instant, limit: Option<Duration>) -> Option<Instant> {
    start.checked_add(limit?)
}
