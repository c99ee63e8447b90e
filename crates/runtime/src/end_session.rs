//! PURE decisions about ends: when the terminal message of a request may be sent, and when a session may confirm its end.
//!
//! | state of a session that was asked to end | decision |
//! |---|---|
//! | everything is delivered | confirm |
//! | something is outstanding, and there is time | wait |
//! | for half the budget, only files that a process still writes are outstanding | upload them as they are |
//! | the budget is spent | confirm, and name the files that are missing |

use std::time::Duration;

/// The confirm is sent within this time, however long the drain option is: existing clients give up at 60 s.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(55);
/// Default for the time that a session may spend on uploading its files at the end.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(50);
/// How long a terminal message waits for a client that answers no upload request. It waits because one-shot clients leave with
/// the terminal message. It does not wait long because other clients answer nothing before they have it.
pub const HOLD_WITHOUT_ANSWER: Duration = Duration::from_secs(5);
/// Longest time that a terminal message waits, even when the client keeps answering.
pub const HOLD_AT_MOST: Duration = Duration::from_secs(45);

/// The work that is still outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Requests that have not sent their terminal message.
    pub requests: usize,
    /// A sweep of the directories is under way.
    pub looking: bool,
    /// Files that a process has open for writing.
    pub written: usize,
    /// Files for which the client has not given a URL.
    pub unanswered: usize,
    pub uploading: usize,
}

/// The next step towards the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStep {
    Confirm,
    /// Wait for an event, or until this much time has passed since the end was requested.
    Wait(Duration),
    /// Upload files that are open for writing with their current content.
    TakeOpenFiles,
}

/// The next step of a session that was asked to end `elapsed` ago.
pub fn next_step(
    budget: Duration,
    elapsed: Duration,
    taken_open_files: bool,
    pending: Outstanding,
) -> EndStep {
    let budget = budget.min(CONFIRM_WITHIN);
    let busy = pending.requests + pending.unanswered + pending.uploading > 0 || pending.looking;
    let half = budget / 2;
    if elapsed >= budget || (!busy && pending.written == 0) {
        return EndStep::Confirm;
    }
    if pending.written > 0 && !taken_open_files {
        return if elapsed >= half && !pending.looking {
            EndStep::TakeOpenFiles
        } else {
            EndStep::Wait(half.max(elapsed))
        };
    }
    if !busy && taken_open_files {
        return EndStep::Confirm;
    }
    EndStep::Wait(budget)
}

/// How much longer a request whose outcome is known waits for its files. `None`: its terminal message may be sent.
pub fn hold_terminal(elapsed: Duration, since_progress: Duration, pending: Outstanding) -> Option<Duration> {
    if !pending.looking && pending.unanswered == 0 {
        return None;
    }
    let left = HOLD_WITHOUT_ANSWER.saturating_sub(since_progress).min(HOLD_AT_MOST.saturating_sub(elapsed));
    (left > Duration::ZERO).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_secs(50);
    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn rule_9_nothing_on_its_way_confirms_at_once() {
        assert_eq!(next_step(BUDGET, Duration::ZERO, false, Outstanding::default()), EndStep::Confirm);
    }

    #[test]
    fn rule_9_whatever_is_on_its_way_is_waited_for_within_the_budget() {
        for pending in [
            Outstanding { requests: 1, ..Outstanding::default() },
            Outstanding { looking: true, ..Outstanding::default() },
            Outstanding { unanswered: 1, ..Outstanding::default() },
            Outstanding { uploading: 1, ..Outstanding::default() },
        ] {
            assert_eq!(next_step(BUDGET, seconds(49), false, pending), EndStep::Wait(BUDGET), "{pending:?}");
            assert_eq!(next_step(BUDGET, seconds(50), false, pending), EndStep::Confirm, "{pending:?}");
        }
    }

    #[test]
    fn rule_9_no_option_holds_the_confirm_past_55_seconds() {
        let pending = Outstanding { unanswered: 1, ..Outstanding::default() };
        assert_eq!(next_step(Duration::MAX, seconds(54), false, pending), EndStep::Wait(CONFIRM_WITHIN));
        assert_eq!(next_step(Duration::MAX, seconds(55), false, pending), EndStep::Confirm);
    }

    #[test]
    fn rule_5_open_files_are_waited_for_then_taken_as_they_stand() {
        let pending = Outstanding { written: 1, ..Outstanding::default() };
        assert_eq!(next_step(BUDGET, seconds(1), false, pending), EndStep::Wait(seconds(25)));
        assert_eq!(next_step(BUDGET, seconds(25), false, pending), EndStep::TakeOpenFiles);
        let asked = Outstanding { unanswered: 1, ..pending };
        assert_eq!(next_step(BUDGET, seconds(26), true, asked), EndStep::Wait(BUDGET));
        assert_eq!(next_step(BUDGET, seconds(27), true, pending), EndStep::Confirm);
    }

    #[test]
    fn rule_6_a_terminal_waits_for_answers_but_not_for_uploads() {
        let unanswered = Outstanding { unanswered: 1, ..Outstanding::default() };
        assert_eq!(
            hold_terminal(seconds(0), seconds(0), Outstanding { uploading: 3, ..Outstanding::default() }),
            None
        );
        assert_eq!(hold_terminal(seconds(20), seconds(1), unanswered), Some(seconds(4)));
        assert_eq!(hold_terminal(seconds(44), seconds(1), unanswered), Some(seconds(1)));
        assert_eq!(hold_terminal(seconds(20), seconds(5), unanswered), None, "a client that answers nothing");
        assert_eq!(
            hold_terminal(seconds(45), seconds(0), unanswered),
            None,
            "a client that answers for ever"
        );
    }
}
