//! PURE: when a broken socket is replaced, and when the client gives up.
//!
//! | since the previous socket broke | decision |
//! |---|---|
//! | something got across, or the socket lived for [`LIVED`] | open another socket almost at once |
//! | nothing got across | open another socket after a wait that doubles, [`MAX_FRUITLESS`] times; then give up |
//!
//! Progress in either direction counts: a frame that was read, or a sent frame that was acknowledged.

use ground::retry::RetryPolicy;
use std::time::{Duration, Instant};

/// A socket that stayed open this long was usable, even when nothing was sent.
const LIVED: Duration = Duration::from_secs(10);
/// Number of sockets in a row that may bring nothing.
const MAX_FRUITLESS: u32 = 8;

/// Pauses between two attempts to open a socket, and after a socket that brought nothing.
pub(super) const PAUSES: RetryPolicy = RetryPolicy {
    attempts: MAX_FRUITLESS,
    base_delay: Duration::from_millis(40),
    max_delay: Duration::from_secs(1),
};

#[derive(Debug)]
pub(super) struct Reconnect {
    fruitless: u32,
    across: u64,
    opened: Instant,
}

/// The decision about a broken socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Replace the socket after this pause.
    OpenAfter(Duration),
    /// This many sockets in a row brought nothing.
    GiveUp { sockets: u32 },
}

impl Reconnect {
    /// The first socket is open.
    pub(super) fn new(now: Instant) -> Reconnect {
        Reconnect { fruitless: 0, across: 0, opened: now }
    }

    pub(super) fn on_opened(&mut self, now: Instant) {
        self.opened = now;
    }

    /// `across`: a counter that grows with every frame that got across. `random`: from 0 to 1, for the jitter of the pause.
    pub(super) fn on_broken(&mut self, across: u64, random: f64, now: Instant) -> Next {
        let was_good = across > self.across || now.saturating_duration_since(self.opened) >= LIVED;
        self.across = across;
        self.fruitless = if was_good { 0 } else { self.fruitless + 1 };
        if self.fruitless >= MAX_FRUITLESS {
            return Next::GiveUp { sockets: self.fruitless };
        }
        if self.fruitless == 0 {
            return Next::OpenAfter(Duration::ZERO);
        }
        Next::OpenAfter(PAUSES.delay(self.fruitless, None, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_bring_nothing_come_slower_and_slower_and_then_no_more() {
        let now = Instant::now();
        let mut reconnect = Reconnect::new(now);
        let mut waited = Duration::ZERO;
        let mut sockets = 1;
        loop {
            reconnect.on_opened(now);
            match reconnect.on_broken(0, 1.0, now) {
                Next::OpenAfter(pause) => waited += pause,
                Next::GiveUp { sockets: counted } => {
                    assert_eq!(counted, sockets);
                    break;
                }
            }
            sockets += 1;
        }
        assert!(sockets == MAX_FRUITLESS && waited > Duration::from_secs(2), "{sockets} {waited:?}");
    }

    #[test]
    fn what_gets_across_and_what_holds_begins_anew() {
        let now = Instant::now();
        let mut reconnect = Reconnect::new(now);
        for across in 1..100 {
            assert_eq!(reconnect.on_broken(across, 1.0, now), Next::OpenAfter(Duration::ZERO));
            assert_ne!(reconnect.on_broken(across, 1.0, now), Next::OpenAfter(Duration::ZERO));
            assert_eq!(reconnect.on_broken(across, 1.0, now + LIVED), Next::OpenAfter(Duration::ZERO));
        }
    }
}
