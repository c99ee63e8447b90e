//! PURE state of a session's requests: one at a time, exactly one terminal each, nothing after it.
//!
//! ```text
//! Idle    --begin-->    Running              a second begin is refused
//! Running --decide-->   Deciding             its stream is shut; files are still brought home
//! Running, Deciding --finish--> Idle         the terminal goes out; a second one is refused
//! ```

/// The server's own number for a request, because the ids of clients may repeat.
pub type RequestNumber = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Running(RequestNumber),
    Deciding(RequestNumber),
}

#[derive(Debug, Default)]
pub struct RequestState {
    phase: Phase,
    begun: RequestNumber,
}

impl RequestState {
    /// Begins a request, unless one is in flight.
    pub fn begin(&mut self) -> Option<RequestNumber> {
        if self.phase != Phase::Idle {
            return None;
        }
        self.begun += 1;
        self.phase = Phase::Running(self.begun);
        Some(self.begun)
    }

    /// Whether something that the request streams may still go out.
    pub fn admits(&self, number: RequestNumber) -> bool {
        self.phase == Phase::Running(number)
    }

    /// The outcome is known: only the terminal message may follow. False when an outcome was known before.
    pub fn decide(&mut self, number: RequestNumber) -> bool {
        let first = self.admits(number);
        if first {
            self.phase = Phase::Deciding(number);
        }
        first
    }

    /// The request ends. True exactly once: then its terminal message may be sent.
    pub fn finish(&mut self, number: RequestNumber) -> bool {
        let first =
            matches!(self.phase, Phase::Running(current) | Phase::Deciding(current) if current == number);
        if first {
            self.phase = Phase::Idle;
        }
        first
    }

    /// The request that has not had its terminal message.
    pub fn in_flight(&self) -> Option<RequestNumber> {
        match self.phase {
            Phase::Idle => None,
            Phase::Running(number) | Phase::Deciding(number) => Some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_2_one_request_at_a_time_and_one_terminal_each() {
        let mut state = RequestState::default();
        let first = state.begin().unwrap();
        assert_eq!(state.begin(), None, "a second one while the first runs");
        assert!(state.admits(first));
        assert!(state.decide(first));
        assert!(!state.decide(first), "the first outcome wins");
        assert!(!state.admits(first), "nothing is streamed once the outcome is known");
        assert_eq!(state.begin(), None, "its terminal is still owed");
        assert!(state.finish(first));
        assert!(!state.finish(first), "no second terminal");
        let second = state.begin().unwrap();
        assert!(
            !state.admits(first) && !state.finish(first) && !state.decide(first),
            "a late one of the first request"
        );
        assert!(state.finish(second), "without a time between outcome and terminal");
        assert_eq!(state.in_flight(), None);
    }
}
