//! PURE: decides whether a turn, or a prompt of a session, waits for the end of a usage limit.
//!
//! | the limit | the decision |
//! |---|---|
//! | its end is unknown, or further away than the longest wait | no wait |
//! | it ends within the longest wait | wait for its end; does not count as an attempt |
//! | hit once more after its end, without work between | a slightly longer wait, like the delay after a failed try |
//! | hit again after that | the same, and each counts as an attempt, while there are any left |

use crate::harness::event::AgentErrorKind;
use ground::retry::RetryPolicy;
use std::time::Duration;

/// The shortest wait for a limit that stood once more after its end.
const STILL_STANDS: Duration = Duration::from_secs(3);

/// State and limits that decide whether to wait.
pub(crate) struct WaitPolicy {
    /// The longest wait for the end of one limit; zero means no waiting.
    pub longest: Duration,
    pub policy: RetryPolicy,
    /// Attempts so far, including the one that met the limit.
    pub attempts: u32,
    /// Waits since the agent last did any work.
    pub waits: u32,
    /// Random number from 0 to 1, which spreads the delays.
    pub random: f64,
}

/// A wait for the end of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wait {
    pub least: Duration,
    /// The attempt before is one of the turn's: the wait before it brought nothing.
    pub counts: bool,
}

impl WaitPolicy {
    /// See the table above. `reset_in`: from now to its end.
    pub(crate) fn wait(&self, kind: Option<AgentErrorKind>, reset_in: Option<Duration>) -> Option<Wait> {
        let is_limit = kind.is_some_and(AgentErrorKind::is_usage_limit);
        let reset_in = reset_in.filter(|left| is_limit && *left <= self.longest)?;
        // Hitting the limit once more is expected: the reset time was rounded, or it is another limit. From the second time on
        // each wait uses up an attempt.
        let counts = self.waits > 1;
        if self.longest.is_zero() || counts && self.attempts >= self.policy.attempts {
            return None;
        }
        // Whatever the text says: a limit that still stands at its end is not asked about in a loop.
        let least = match self.waits {
            0 => Duration::ZERO,
            _ => self.policy.delay(self.attempts, None, self.random).max(STILL_STANDS),
        };
        Some(Wait { least: reset_in.max(least), counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn policy() -> WaitPolicy {
        let policy = RetryPolicy {
            attempts: 3,
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
        };
        WaitPolicy { longest: MINUTE, policy, attempts: 3, waits: 0, random: 0.0 }
    }

    fn quota(policy: &WaitPolicy, reset_in: Option<Duration>) -> Option<Wait> {
        policy.wait(Some(AgentErrorKind::Quota), reset_in)
    }

    #[test]
    fn a_limit_is_waited_for_if_somebody_says_that_it_ends_soon_enough() {
        let waited = |left| Some(Wait { least: left, counts: false });
        assert_eq!(quota(&policy(), Some(MINUTE)), waited(MINUTE), "whatever attempts there were");
        assert_eq!(quota(&policy(), Some(MINUTE + Duration::from_secs(1))), None);
        assert_eq!(quota(&policy(), None), None);
        let off = WaitPolicy { longest: Duration::ZERO, ..policy() };
        assert_eq!(quota(&off, Some(Duration::ZERO)), None, "off by default");
        let wait = |kind| policy().wait(kind, Some(MINUTE));
        assert_eq!(wait(Some(AgentErrorKind::RateLimit)), waited(MINUTE));
        assert_eq!(wait(Some(AgentErrorKind::Overloaded)), None, "no limit of an account");
        assert_eq!(wait(None), None);
    }

    #[test]
    fn a_limit_that_stands_again_is_not_waited_for_without_end() {
        let again =
            |attempts, waits| quota(&WaitPolicy { attempts, waits, ..policy() }, Some(Duration::ZERO));
        let least = STILL_STANDS;
        assert_eq!(again(1, 1), Some(Wait { least, counts: false }), "not at once");
        assert_eq!(again(1, 2), Some(Wait { least, counts: true }));
        assert_eq!(again(3, 2), None);
    }
}
