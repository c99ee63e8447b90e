//! PURE. The moment from which a start can't be taken back. A start and a stop of it run on different threads; here exactly one of
//! the two comes first.

use ground::lock::lock;
use std::sync::Mutex;

/// A threshold, and what the start carries over it.
#[derive(Debug)]
pub(super) struct Threshold<T>(Mutex<Side<T>>);

#[derive(Debug)]
enum Side<T> {
    /// Nothing has been started.
    Before,
    /// Nothing was started, and nothing will be.
    Stopped,
    /// The system is asked for the program.
    Crossed(Option<T>),
}

impl<T> Threshold<T> {
    pub(super) fn new() -> Self {
        Threshold(Mutex::new(Side::Before))
    }

    /// Called by the start, right before it asks the system for the program. False: it was stopped, and must start nothing.
    pub(super) fn cross(&self, carried: T) -> bool {
        let mut side = lock(&self.0);
        let may_cross = matches!(*side, Side::Before);
        if may_cross {
            *side = Side::Crossed(Some(carried));
        }
        may_cross
    }

    /// Called by the stop. True: nothing was started, and nothing will be.
    pub(super) fn stop(&self) -> bool {
        let mut side = lock(&self.0);
        if matches!(*side, Side::Before) {
            *side = Side::Stopped;
        }
        matches!(*side, Side::Stopped)
    }

    /// Takes out the things that the start carried over the threshold; once.
    pub(super) fn take(&self) -> Option<T> {
        match &mut *lock(&self.0) {
            Side::Crossed(carried) => carried.take(),
            Side::Before | Side::Stopped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_was_stopped_before_the_threshold_never_crosses_it() {
        let threshold = Threshold::new();
        assert!(threshold.stop());
        assert!(!threshold.cross("opened"));
        assert!(threshold.stop(), "it stays stopped");
        assert_eq!(threshold.take(), None);
    }

    #[test]
    fn a_start_that_has_crossed_can_not_be_taken_back_and_hands_over_what_it_opened() {
        let threshold = Threshold::new();
        assert!(threshold.cross("opened"));
        assert!(!threshold.stop());
        assert!(!threshold.cross("again"));
        assert_eq!(threshold.take(), Some("opened"));
        assert_eq!(threshold.take(), None);
    }
}
