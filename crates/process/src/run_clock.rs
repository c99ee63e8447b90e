//! The clock of a run: the decisions of its [`Watchdog`], by a time that rests while this process is stopped.

use super::watchdog::{RunLimits, Watchdog};
use ground::os::Awake;
use std::time::Instant;

pub(super) struct RunClock {
    pub watchdog: Watchdog,
    awake: Awake,
}

impl RunClock {
    /// `awake`: begun before the start of the program.
    pub(super) fn new(limits: RunLimits, spawned: Instant, awake: Option<Awake>) -> Self {
        RunClock { watchdog: Watchdog::new(limits, spawned), awake: awake.unwrap_or_else(Awake::new) }
    }

    /// The time of the watchdog's next decision, on the clock of this process.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.watchdog.deadline().and_then(|deadline| deadline.checked_add(self.awake.known()))
    }

    /// Now, on the clock that rests while this process is stopped.
    pub(super) fn now(&mut self) -> Instant {
        let (now, gap) = self.awake.tick();
        self.watchdog.on_stopped(gap);
        now
    }
}
