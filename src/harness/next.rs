//! PURE: what follows an attempt.
//!
//! | the attempt's verdict            | the answer                    | what follows |
//! |----------------------------------|-------------------------------|--------------|
//! | good, or refused for its shape   | fits, or no schema            | the turn succeeded |
//! | good, or refused for its shape   | does not fit, a session to ask in | asked for once more |
//! | good, or refused for its shape   | does not fit, asked once already  | `AGENT_SCHEMA_MISMATCH` |
//! | a fault that passes by itself    | any                           | another attempt, while there are any left and no tool ran |
//! | any other fault                  | any                           | the fault |

use super::verdict::Fault;
use crate::error::ErrorCode;
use crate::model::Reading;
use crate::retry::RetryPolicy;
use serde_json::Value;
use std::time::Duration;

/// What follows an attempt.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
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
    Reask {
        session: String,
        problems: Vec<String>,
    },
}

/// An attempt that is over.
pub(super) struct Ended<'a, Read: FnOnce() -> Option<Reading>> {
    pub fault: Option<&'a Fault>,
    /// The session to ask once more in.
    pub session: Option<&'a str>,
    pub is_aborted: bool,
    /// What the schema makes of the answer; `None` without a schema. Asked for only where it decides.
    pub reading: Read,
}

/// What the turn has come to with this attempt, and what it may do.
pub(super) struct Past {
    pub attempts: u32,
    pub tool_calls: u64,
    pub is_reasked: bool,
    pub policy: RetryPolicy,
    /// Whether a turn is repeated though a tool ran in it.
    pub after_tools: bool,
    /// From 0 to 1, to scatter the waits.
    pub random: f64,
}

/// See the table above.
pub(super) fn next<Read: FnOnce() -> Option<Reading>>(ended: Ended<'_, Read>, past: &Past) -> Next {
    if let Some(fault) = ended.fault.filter(|fault| !fault.is_misshapen) {
        return after_fault(fault, ended.is_aborted, past);
    }
    match ((ended.reading)(), ended.fault) {
        (None, None) => Next::Done { structured: None },
        (None, Some(fault)) => after_fault(fault, ended.is_aborted, past),
        (Some(Reading::Fits(value)), _) => Next::Done { structured: Some(value) },
        (Some(reading), _) => {
            let problems = reading.problems();
            match ended.session.filter(|_| !past.is_reasked && !ended.is_aborted) {
                Some(session) => Next::Reask { session: session.to_owned(), problems },
                None => Next::Misfit { problems },
            }
        }
    }
}

fn after_fault(fault: &Fault, is_aborted: bool, past: &Past) -> Next {
    let is_the_agents =
        matches!(fault.code, ErrorCode::AgentFailed | ErrorCode::AgentCrashed | ErrorCode::AgentTruncated);
    let is_worth_it = is_the_agents && fault.kind.is_some_and(|kind| kind.is_transient());
    let may_repeat = past.after_tools || past.tool_calls == 0;
    if !is_worth_it || !may_repeat || is_aborted || past.attempts >= past.policy.attempts {
        return Next::Failed(fault.clone());
    }
    let asked = super::failure::retry_after_in(&fault.message);
    let delay = past.policy.delay(past.attempts, asked, past.random);
    Next::Retry { delay, reason: fault.message.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::event::ErrorKind;
    use super::*;
    use crate::model::Problem;
    use serde_json::json;

    fn fault(code: ErrorCode, kind: Option<ErrorKind>) -> Fault {
        Fault { code, kind, message: "it said so".into(), is_misshapen: false }
    }

    fn past() -> Past {
        let policy = RetryPolicy {
            attempts: 3,
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
        };
        Past { attempts: 1, tool_calls: 0, is_reasked: false, policy, after_tools: false, random: 0.0 }
    }

    fn after(fault: Option<&Fault>, past: &Past) -> Next {
        next(Ended { fault, session: Some("s"), is_aborted: false, reading: || None }, past)
    }

    #[test]
    fn a_fault_is_tried_again_only_if_it_passes_by_itself_and_nothing_was_done_in_it() {
        use ErrorCode::*;
        let server = Some(ErrorKind::Server);
        let cases = [
            (fault(AgentFailed, server), past(), true),
            (fault(AgentCrashed, server), past(), true),
            (fault(AgentTruncated, Some(ErrorKind::Network)), past(), true),
            (fault(AgentFailed, Some(ErrorKind::Auth)), past(), false),
            (fault(AgentFailed, Some(ErrorKind::Quota)), past(), false),
            (fault(AgentCrashed, None), past(), false),
            (fault(AgentIdle, server), past(), false),
            (fault(AgentTimedOut, server), past(), false),
            (fault(AgentAborted, None), past(), false),
            (fault(AgentFailed, server), Past { attempts: 3, ..past() }, false),
            (fault(AgentFailed, server), Past { tool_calls: 1, ..past() }, false),
            (fault(AgentFailed, server), Past { tool_calls: 1, after_tools: true, ..past() }, true),
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
        let fault = fault(ErrorCode::AgentFailed, Some(ErrorKind::Server));
        let ended = Ended { fault: Some(&fault), session: None, is_aborted: true, reading: || None };
        assert_eq!(next(ended, &past()), Next::Failed(fault.clone()));
        let misfit = || Some(Reading::NoJson);
        let ended = Ended { fault: None, session: Some("s"), is_aborted: true, reading: misfit };
        assert!(matches!(next(ended, &past()), Next::Misfit { .. }));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_asked_for_once_more_in_its_session() {
        let misfit = || {
            let problem = Problem { path: String::new(), message: "no object".into() };
            Some(Reading::Misfits { value: json!(1), problems: vec![problem] })
        };
        let ask = |session, past: &Past| {
            next(Ended { fault: None, session, is_aborted: false, reading: misfit }, past)
        };
        let problems = vec!["/: no object".to_owned()];
        let again = Next::Reask { session: "s".into(), problems: problems.clone() };
        assert_eq!(ask(Some("s"), &past()), again);
        assert_eq!(ask(None, &past()), Next::Misfit { problems: problems.clone() });
        assert_eq!(ask(Some("s"), &Past { is_reasked: true, ..past() }), Next::Misfit { problems });
    }

    #[test]
    fn a_fault_of_the_shape_counts_only_if_the_answer_does_not_fit() {
        let misshapen =
            Fault { is_misshapen: true, ..fault(ErrorCode::AgentFailed, Some(ErrorKind::Unknown)) };
        let read = |fault, reading| {
            next(Ended { fault, session: None, is_aborted: false, reading: || reading }, &past())
        };
        let fits = || Some(Reading::Fits(json!({"a": 1})));
        assert_eq!(read(Some(&misshapen), fits()), Next::Done { structured: Some(json!({"a": 1})) });
        assert_eq!(read(Some(&misshapen), None), Next::Failed(misshapen.clone()));
        let other = fault(ErrorCode::AgentFailed, Some(ErrorKind::InvalidRequest));
        assert_eq!(read(Some(&other), fits()), Next::Failed(other.clone()), "it covers no other fault");
    }
}
