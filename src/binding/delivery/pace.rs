//! PURE: decides how soon text is delivered. With little text it is delivered at once, so that a reader sees a line when it is
//! printed. While many runs print at once, text is gathered for some milliseconds: each crossing costs JavaScript's thread the
//! same, however little text it carries.

use std::time::{Duration, Instant};

/// Arrivals are counted within a span of this length.
const SPAN: Duration = Duration::from_millis(20);
/// Arrivals in a span from which on text is gathered: three thousand a second. One program that prints a thousand lines a second
/// stays far below, even when it catches up after a pause.
const MANY: u32 = 60;
/// Gathering ends below half of `MANY`, so that the state does not flip at the limit.
const FEW: u32 = 30;
/// Time between two crossings while text is gathered: as long as a frame of a display. At 10 ms it costs a quarter more.
const GATHERED_FOR: Duration = Duration::from_millis(16);

/// Decides when to flush. The times passed to it must not decrease.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    arrived: u32,
    is_gathering: bool,
    last_flush: Option<Instant>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Pace { since: now, arrived: 0, is_gathering: false, last_flush: None }
    }

    /// Records that a block arrived.
    pub(super) fn arrived(&mut self, now: Instant) {
        let span = now.saturating_duration_since(self.since);
        if span >= SPAN {
            // Arrivals before a pause do not count for the present.
            self.is_gathering &= self.arrived >= FEW && span < 2 * SPAN;
            (self.since, self.arrived) = (now, 0);
        }
        self.arrived = self.arrived.saturating_add(1);
        self.is_gathering |= self.arrived >= MANY;
    }

    pub(super) fn flushed(&mut self, now: Instant) {
        self.last_flush = Some(now);
    }

    /// How long the queued text waits for more. Zero: not at all.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        match self.last_flush {
            Some(last) if self.is_gathering => {
                GATHERED_FOR.saturating_sub(now.saturating_duration_since(last))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Simulates arrivals, each flushed when it is due. Returns the longest wait in the second half.
    fn longest_wait(arrivals: impl IntoIterator<Item = Duration>) -> Duration {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut waits = Vec::new();
        for at in arrivals {
            let now = start + at;
            pace.arrived(now);
            let wait = pace.wait(now);
            pace.flushed(now + wait);
            waits.push(wait);
        }
        waits.split_off(waits.len() / 2).into_iter().max().unwrap_or_default()
    }

    fn every(period: Duration) -> impl Iterator<Item = Duration> {
        (0..1000).map(move |index| period * index)
    }

    #[test]
    fn below_a_thousand_a_second_nothing_waits_above_three_thousand_all_does() {
        for (period_us, waits) in
            [(1_000_000, false), (10_000, false), (1000, false), (300, true), (10, true)]
        {
            let longest = longest_wait(every(Duration::from_micros(period_us)));
            assert_eq!(longest > Duration::ZERO, waits, "{period_us} us");
        }
    }

    #[test]
    fn a_program_that_was_held_up_may_print_what_it_owes() {
        let bursts = (0..50)
            .flat_map(|burst| (0..25).map(move |line| Duration::from_micros(burst * 25_000 + line * 10)));
        assert_eq!(longest_wait(bursts), Duration::ZERO);
    }

    #[test]
    fn after_a_pause_nothing_waits() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for index in 0..1000 {
            let now = start + Duration::from_micros(10) * index;
            pace.arrived(now);
            pace.flushed(now);
        }
        assert!(pace.wait(start + Duration::from_millis(10)) > Duration::ZERO);
        let late = start + Duration::from_secs(1);
        pace.arrived(late);
        assert_eq!(pace.wait(late), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn nothing_ever_waits_longer_than_what_is_gathered(gaps in prop::collection::vec(0_u64..3000, 1..500)) {
            let start = Instant::now();
            let mut pace = Pace::new(start);
            let mut now = start;
            for gap in gaps {
                now += Duration::from_micros(gap);
                pace.arrived(now);
                let wait = pace.wait(now);
                prop_assert!(wait <= GATHERED_FOR);
                if wait.is_zero() {
                    pace.flushed(now);
                }
            }
        }
    }
}
