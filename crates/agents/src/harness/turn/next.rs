//! PURE: decides the step that follows an attempt.
//!
//! | the attempt's verdict            | the answer                    | what follows |
//! |----------------------------------|-------------------------------|--------------|
//! | good, or refused for its shape   | fits, or no schema            | the turn succeeded |
//! | good, or refused for its shape   | does not fit, a session to ask in | asked for a corrected answer |
//! | good, or refused for its shape   | does not fit, asked once already  | `AGENT_SCHEMA_MISMATCH` |
//! | a usage limit that ends within the longest wait | any        | the same session continues after its end |
//! | the same limit once more, without work between | any          | a slightly longer wait; from the third on it counts as an attempt |
//! | after such a wait, before any work, the session is unknown | any | a new session |
//! | a transient fault                | any                           | another attempt, if any is left and no tool ran |
//! | any other fault                  | any                           | the fault |

use crate::harness::event::AgentErrorKind;
use crate::harness::verdict::Fault;
use crate::model::Reading;
use ground::error::ErrorCode;
use ground::retry::RetryPolicy;
use serde_json::Value;
use std::time::Duration;

/// The shortest wait for a limit that stood once more after its end.
const STILL_STANDS: Duration = Duration::from_secs(3);

/// A wait for the end of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wait {
    pub least: Duration,
    /// The attempt before is one of the turn's: the wait before it brought nothing.
    pub counts: bool,
}

/// The step that follows an attempt.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Done {
        structured: Option<Value>,
    },
    Failed(Fault),
    /// The answer does not fit, and was asked for once more already.
    Misfit {
        problems: Vec<String>,
    },
    Retry {
        delay: Duration,
        reason: String,
    },
    /// The session goes on when the limit ends.
    Wait(Wait),
    Reask {
        session: String,
        problems: Vec<String>,
    },
    /// The CLI kept nothing of a session in which nothing had been done: the prompt once more, without it.
    Anew,
}

impl Next {
    /// Whether the attempt that it follows is one of the turn's: a limit that it only met is waited out for nothing.
    pub(crate) fn counts(&self) -> bool {
        !matches!(self, Next::Wait(Wait { counts: false, .. }) | Next::Anew)
    }
}

/// An attempt that is over.
pub(crate) struct Ended<'a> {
    pub fault: Option<&'a Fault>,
    /// The session to ask once more in.
    pub session: Option<&'a str>,
    pub is_aborted: bool,
    /// Time until the end of the usage limit that the attempt ran into.
    pub reset_in: Option<Duration>,
    /// A model answered, or a tool ran.
    pub has_worked: bool,
    /// Result of checking the answer against the schema; `None` without a schema.
    pub reading: Option<&'a Reading>,
}

/// State of the turn including this attempt, and the options that bound it.
pub(crate) struct Past {
    pub attempts: u32,
    pub is_reasked: bool,
    pub policy: RetryPolicy,
    /// Whether the same may be asked of another session.
    pub may_repeat: bool,
    /// The longest wait for the end of a limit.
    pub wait_for_reset: Duration,
    /// The session met a usage limit in this turn, and the caller does not know the session.
    pub may_begin_anew: bool,
    /// Waits for a usage limit since the agent last did any work.
    pub waits: u32,
    /// Random number from 0 to 1, which spreads the delays.
    pub random: f64,
}

impl Past {
    /// The wait for a limit that ends after `reset_in`. `waits`: those since any work.
    fn wait(&self, kind: Option<AgentErrorKind>, reset_in: Option<Duration>, waits: u32) -> Option<Wait> {
        let is_limit = kind.is_some_and(AgentErrorKind::is_usage_limit);
        let reset_in = reset_in.filter(|left| is_limit && *left <= self.wait_for_reset)?;
        // Hitting the limit once more is expected: the reset time was rounded, or it is another limit. From the second time on
        // each wait uses up an attempt.
        let counts = waits > 1;
        if self.wait_for_reset.is_zero() || counts && self.attempts >= self.policy.attempts {
            return None;
        }
        // A limit that still stands when it should have ended is not asked about in a loop.
        let least = match waits {
            0 => Duration::ZERO,
            _ => self.policy.delay(self.attempts, None, self.random).max(STILL_STANDS),
        };
        Some(Wait { least: reset_in.max(least), counts })
    }
}

/// See the table above.
pub(crate) fn next(ended: &Ended<'_>, past: &Past) -> Next {
    if let Some(fault) = ended.fault.filter(|fault| !fault.is_misshapen) {
        return after_fault(fault, ended, past);
    }
    match (ended.reading, ended.fault) {
        (None, None) => Next::Done { structured: None },
        (None, Some(fault)) => Next::Failed(fault.clone()),
        (Some(Ok(value)), _) => Next::Done { structured: Some(value.clone()) },
        (Some(Err(problems)), _) => {
            let problems = problems.clone();
            match ended.session.filter(|_| !past.is_reasked && !ended.is_aborted) {
                Some(session) => Next::Reask { session: session.to_owned(), problems },
                None => Next::Misfit { problems },
            }
        }
    }
}

fn after_fault(fault: &Fault, ended: &Ended<'_>, past: &Past) -> Next {
    if fault.error.code() == ErrorCode::AgentResumeFailed && past.may_begin_anew && !ended.is_aborted {
        return Next::Anew;
    }
    let is_the_agents = matches!(
        fault.error.code(),
        ErrorCode::AgentFailed | ErrorCode::AgentCrashed | ErrorCode::AgentTruncated
    );
    let is_worth_it = is_the_agents && fault.kind().is_some_and(|kind| kind.is_transient());
    let reset_in = ended.reset_in.filter(|_| is_the_agents && !ended.is_aborted);
    // A session that has begun its work can continue it; without a session the work would be done again.
    let can_go_on = ended.session.is_some() || past.may_repeat;
    let waits = if ended.has_worked { 0 } else { past.waits };
    if let Some(wait) = past.wait(fault.kind(), reset_in, waits).filter(|_| can_go_on) {
        return Next::Wait(wait);
    }
    if !is_worth_it || !past.may_repeat || ended.is_aborted || past.attempts >= past.policy.attempts {
        return Next::Failed(fault.clone());
    }
    let asked = crate::harness::evidence::reset::retry_after_in(fault.error.message());
    match past.policy.wait(past.attempts, asked, past.random) {
        Some(delay) => Next::Retry { delay, reason: fault.error.message().to_owned() },
        None => Next::Failed(fault.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(code: ErrorCode, kind: Option<AgentErrorKind>) -> Fault {
        Fault::new(code, kind, "it said so")
    }

    fn past() -> Past {
        let policy = RetryPolicy {
            attempts: 3,
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
        };
        Past {
            attempts: 1,
            is_reasked: false,
            policy,
            may_repeat: true,
            wait_for_reset: Duration::ZERO,
            may_begin_anew: false,
            waits: 0,
            random: 0.0,
        }
    }

    fn ended<'a>(fault: Option<&'a Fault>, reading: Option<&'a Reading>) -> Ended<'a> {
        Ended { fault, session: Some("s"), is_aborted: false, reset_in: None, has_worked: false, reading }
    }

    fn after(fault: Option<&Fault>, past: &Past) -> Next {
        next(&ended(fault, None), past)
    }

    #[test]
    fn a_fault_is_tried_again_only_if_it_passes_by_itself_and_nothing_was_done_in_it() {
        use ErrorCode::*;
        let server = Some(AgentErrorKind::Server);
        let cases = [
            (fault(AgentFailed, server), past(), true),
            (fault(AgentCrashed, server), past(), true),
            (fault(AgentTruncated, Some(AgentErrorKind::Network)), past(), true),
            (fault(AgentFailed, Some(AgentErrorKind::Auth)), past(), false),
            (fault(AgentFailed, Some(AgentErrorKind::Quota)), past(), false),
            (fault(AgentCrashed, None), past(), false),
            (fault(AgentIdle, server), past(), false),
            (fault(AgentTimedOut, server), past(), false),
            (fault(AgentAborted, None), past(), false),
            (fault(AgentFailed, server), Past { attempts: 3, ..past() }, false),
            (fault(AgentFailed, server), Past { may_repeat: false, ..past() }, false),
        ];
        for (fault, past, is_repeated) in cases {
            let next = after(Some(&fault), &past);
            match next {
                Next::Retry { delay, .. } => {
                    assert!(is_repeated, "{fault:?}");
                    assert_eq!(delay, Duration::from_millis(500));
                }
                next => assert_eq!((next, is_repeated), (Next::Failed(fault), false)),
            }
        }
    }

    #[test]
    fn an_aborted_attempt_is_followed_by_none() {
        let fault = fault(ErrorCode::AgentFailed, Some(AgentErrorKind::Server));
        let aborted = Ended { is_aborted: true, ..ended(Some(&fault), None) };
        assert_eq!(next(&aborted, &past()), Next::Failed(fault.clone()));
        let misfit = Err(Vec::new());
        let aborted = Ended { is_aborted: true, ..ended(None, Some(&misfit)) };
        assert!(matches!(next(&aborted, &past()), Next::Misfit { .. }));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_asked_for_once_more_in_its_session() {
        let misfit = Err(vec!["/: no object".to_owned()]);
        let ask = |session, past: &Past| next(&Ended { session, ..ended(None, Some(&misfit)) }, past);
        let problems = vec!["/: no object".to_owned()];
        let again = Next::Reask { session: "s".into(), problems: problems.clone() };
        assert_eq!(ask(Some("s"), &past()), again);
        assert_eq!(ask(None, &past()), Next::Misfit { problems: problems.clone() });
        assert_eq!(ask(Some("s"), &Past { is_reasked: true, ..past() }), Next::Misfit { problems });
    }

    #[test]
    fn a_fault_of_the_shape_counts_only_if_the_answer_does_not_fit() {
        let misshapen =
            Fault { is_misshapen: true, ..fault(ErrorCode::AgentFailed, Some(AgentErrorKind::Unknown)) };
        let read = |fault, reading| next(&ended(fault, reading), &past());
        let fits = Ok(json!({"a": 1}));
        assert_eq!(read(Some(&misshapen), Some(&fits)), Next::Done { structured: Some(json!({"a": 1})) });
        assert_eq!(read(Some(&misshapen), None), Next::Failed(misshapen.clone()));
        let other = fault(ErrorCode::AgentFailed, Some(AgentErrorKind::InvalidRequest));
        assert_eq!(read(Some(&other), Some(&fits)), Next::Failed(other.clone()), "it covers no other fault");
    }

    #[test]
    fn a_limit_is_waited_out_if_it_ends_soon_enough_and_counts_as_no_attempt() {
        let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
        let patient = || Past { wait_for_reset: hour, attempts: 3, ..past() };
        let quota = fault(ErrorCode::AgentFailed, Some(AgentErrorKind::Quota));
        let wait = |fault: &Fault, reset_in, past: &Past| {
            next(&Ended { reset_in, ..ended(Some(fault), None) }, past)
        };
        let waits = |wait| Next::Wait(Wait { least: wait, counts: false });
        assert_eq!(wait(&quota, Some(hour), &patient()), waits(hour));
        assert_eq!(wait(&quota, Some(hour + minute), &patient()), Next::Failed(quota.clone()));
        assert_eq!(wait(&quota, None, &patient()), Next::Failed(quota.clone()));
        assert_eq!(wait(&quota, Some(minute), &past()), Next::Failed(quota.clone()), "off by default");
        assert_eq!(wait(&quota, Some(Duration::ZERO), &past()), Next::Failed(quota.clone()));
        let rate = fault(ErrorCode::AgentCrashed, Some(AgentErrorKind::RateLimit));
        assert_eq!(wait(&rate, Some(minute), &patient()), waits(minute));
        let busy = fault(ErrorCode::AgentFailed, Some(AgentErrorKind::Overloaded));
        assert_eq!(
            wait(&busy, Some(minute), &patient()),
            Next::Failed(busy.clone()),
            "no limit of an account"
        );
        let silent = fault(ErrorCode::AgentIdle, Some(AgentErrorKind::Quota));
        assert_eq!(wait(&silent, Some(minute), &patient()), Next::Failed(silent.clone()));
        let worked = Past { may_repeat: false, ..patient() };
        assert_eq!(wait(&quota, Some(minute), &worked), waits(minute), "the session goes on");
        let lost = Ended { session: None, reset_in: Some(minute), ..ended(Some(&quota), None) };
        assert_eq!(next(&lost, &worked), Next::Failed(quota.clone()), "there is no session to go on in");
        let aborted = Ended { is_aborted: true, reset_in: Some(minute), ..ended(Some(&quota), None) };
        assert_eq!(next(&aborted, &patient()), Next::Failed(quota.clone()));
    }

    #[test]
    fn a_limit_that_stands_again_after_its_end_is_not_waited_for_without_end() {
        let quota = fault(ErrorCode::AgentFailed, Some(AgentErrorKind::Quota));
        let again = |attempts, waits, has_worked| {
            let reset_in = Some(Duration::ZERO);
            let past = Past { attempts, waits, wait_for_reset: Duration::from_secs(60), ..past() };
            next(&Ended { reset_in, has_worked, ..ended(Some(&quota), None) }, &past)
        };
        let wait = Duration::from_secs(3);
        assert_eq!(again(1, 1, false), Next::Wait(Wait { least: wait, counts: false }), "not at once");
        assert_eq!(again(1, 2, false), Next::Wait(Wait { least: wait, counts: true }));
        assert_eq!(again(3, 2, false), Next::Failed(quota.clone()));
        assert_eq!(again(3, 2, true), Next::Wait(Wait { least: Duration::ZERO, counts: false }));
    }

    #[test]
    fn a_session_that_was_not_kept_over_a_limit_is_begun_anew_and_counts_as_no_attempt() {
        let unknown = fault(ErrorCode::AgentResumeFailed, None);
        let anew = Past { may_begin_anew: true, attempts: 3, ..past() };
        assert_eq!(after(Some(&unknown), &anew), Next::Anew);
        assert!(!Next::Anew.counts());
        assert_eq!(after(Some(&unknown), &past()), Next::Failed(unknown.clone()), "the caller's session");
        let aborted = Ended { is_aborted: true, ..ended(Some(&unknown), None) };
        assert_eq!(next(&aborted, &anew), Next::Failed(unknown.clone()));
    }
}
