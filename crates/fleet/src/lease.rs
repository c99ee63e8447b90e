//! PURE: decides when a lease is renewed, and what a late renewal (beat) means. Time comes from a monotonic clock of the owner.
//!
//! A worker holds a job as long as it beats within the lease. A late beat (the process was frozen, or the machine slept) may be
//! too late: another worker may hold the job by now. So the record is read before anything else.

use std::time::{Duration, Instant};

/// Lease of a fleet whose first member does not set one.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Beats in a lease.
const BEATS: u32 = 3;
/// Beats between two reads of the record in normal operation.
const LOOK_EVERY: u32 = 10;

/// The action that is due at a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Renew the lease.
    Tell,
    /// Read the record first: a fenced worker must not renew.
    LookFirst,
}

/// The beats of one attempt.
#[derive(Clone, Debug)]
pub struct Lease {
    length: Duration,
    last: Instant,
    beats: u32,
}

impl Lease {
    pub fn new(length: Duration, now: Instant) -> Self {
        Lease { length, last: now, beats: 0 }
    }

    /// When the next beat is due.
    pub fn next(&self) -> Instant {
        self.last + self.length / BEATS
    }

    /// Whether so much time went by that the job may be another's.
    pub fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > self.length * 2 / BEATS
    }

    /// The clock says `now`, and the beat is due or late.
    pub fn beat(&mut self, now: Instant) -> Beat {
        let is_late = self.is_late(now);
        self.last = now;
        self.beats = self.beats.wrapping_add(1);
        if is_late || self.beats.is_multiple_of(LOOK_EVERY) { Beat::LookFirst } else { Beat::Tell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_three_times_a_lease_and_looks_now_and_then() {
        let start = Instant::now();
        let mut lease = Lease::new(Duration::from_secs(30), start);
        assert_eq!(lease.next(), start + Duration::from_secs(10));
        let mut looks = 0;
        for beat in 1..=30 {
            let now = start + Duration::from_secs(10 * beat);
            assert!(!lease.is_late(now), "beat {beat} was in time");
            looks += u32::from(lease.beat(now) == Beat::LookFirst);
        }
        assert_eq!(looks, 3);
    }

    #[test]
    fn whoever_was_frozen_looks_first() {
        let start = Instant::now();
        let mut lease = Lease::new(Duration::from_secs(30), start);
        assert!(!lease.is_late(start + Duration::from_secs(20)));
        assert_eq!(lease.beat(start + Duration::from_secs(21)), Beat::LookFirst);
        assert_eq!(lease.beat(start + Duration::from_secs(31)), Beat::Tell);
    }
}
