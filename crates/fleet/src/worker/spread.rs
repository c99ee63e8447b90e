//! PURE: when jobs come back that a worker gave back, because it can't start them. However many they are, only some of them come
//! back in a second: each gets a moment of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The moments at which jobs come back.
pub(super) struct Spread {
    /// Time between two jobs.
    gap: Duration,
    /// A job comes back at most so long after its first possible moment. More jobs than have moments in this time share them.
    span: Duration,
    /// Runs of moments that are taken, one gap apart: the first moment of each, and the one behind its last.
    taken: BTreeMap<Instant, Instant>,
}

impl Spread {
    pub(super) fn new(gap: Duration, span: Duration) -> Spread {
        Spread { gap, span, taken: BTreeMap::new() }
    }

    /// Delay of the next job, at least `least`: until the first moment that is free.
    pub(super) fn delay(&mut self, least: Duration, now: Instant) -> Duration {
        self.taken.retain(|_, end| *end > now);
        let first = now + least;
        let run = self.taken.range(..=first).next_back().filter(|(_, end)| **end > first);
        let (mut begin, mut moment) = run.map_or((first, first), |(begin, end)| (*begin, *end));
        if moment > first + self.span {
            self.taken.clear();
            (begin, moment) = (first, first);
        }
        let mut end = moment + self.gap;
        // A run that begins within the gap is one with this one from now on.
        if let Some((&next, &next_end)) = self.taken.range(moment..=end).next() {
            self.taken.remove(&next);
            end = next_end;
        }
        self.taken.insert(begin, end);
        moment.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_secs(5);

    #[test]
    fn each_job_has_its_own_moment_and_the_last_one_is_not_too_late() {
        let (now, gap, span) = (Instant::now(), Duration::from_millis(100), Duration::from_secs(60));
        let mut spread = Spread::new(gap, span);
        let delays: Vec<Duration> = (0..6000).map(|_| spread.delay(LEAST, now)).collect();
        assert_eq!(delays[..3], [LEAST, LEAST + gap, LEAST + gap * 2]);
        assert!(delays.iter().all(|delay| *delay >= LEAST && *delay <= LEAST + span));
        for second in 5..65 {
            let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
            let count = delays.iter().filter(|delay| **delay >= from && **delay < to).count();
            assert!((90..=110).contains(&count), "{count} in second {second}");
        }
    }

    #[test]
    fn a_job_that_is_due_early_does_not_wait_for_one_that_is_due_late() {
        let (now, gap) = (Instant::now(), Duration::from_millis(5));
        let mut spread = Spread::new(gap, Duration::from_secs(60));
        let early = Duration::from_millis(400);
        assert_eq!(spread.delay(LEAST, now), LEAST);
        assert_eq!([early, early].map(|least| spread.delay(least, now)), [early, early + gap]);
        assert_eq!(spread.delay(LEAST, now), LEAST + gap);
        // However they are mixed, only so many come back in a second.
        let leasts = (0..2000).map(|n| early * (n * 7 % 12 + 1));
        let delays: Vec<Duration> = leasts.map(|least| spread.delay(least, now)).collect();
        for second in 0..10 {
            let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
            let count = delays.iter().filter(|delay| **delay >= from && **delay < to).count();
            assert!(count <= 220, "{count} in second {second}");
        }
        let last = delays.iter().max().unwrap();
        assert!(*last < Duration::from_secs(12), "the moments before the late ones are used: {last:?}");
    }

    #[test]
    fn a_job_that_comes_alone_does_not_wait_for_those_that_came_back() {
        let now = Instant::now();
        let mut spread = Spread::new(Duration::from_secs(1), Duration::from_secs(60));
        for _ in 0..3 {
            spread.delay(LEAST, now);
        }
        assert_eq!(spread.delay(LEAST, now + Duration::from_secs(9)), LEAST);
        assert_eq!(spread.delay(LEAST * 3, now + Duration::from_secs(9)), LEAST * 3);
    }
}
