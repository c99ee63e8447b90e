//! PURE: when jobs come back that a worker gave back, because it can't start them. However many they are, only some of them come
//! back in a second: each gets its own moment behind the one before it.

use std::time::{Duration, Instant};

/// The moments at which jobs come back.
pub(super) struct Spread {
    /// Time between two jobs.
    gap: Duration,
    /// The last moment is at most so long after the first one. More jobs than have moments in this time share them.
    span: Duration,
    last: Option<Instant>,
}

impl Spread {
    pub(super) fn new(gap: Duration, span: Duration) -> Spread {
        Spread { gap, span, last: None }
    }

    /// Delay of the next job, at least `least`.
    pub(super) fn delay(&mut self, least: Duration, now: Instant) -> Duration {
        let first = now + least;
        let next = self.last.map_or(first, |last| first.max(last + self.gap));
        let moment = if next > first + self.span { first } else { next };
        self.last = Some(moment);
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
