//! PURE: decides the consequence of a failed attempt, by the reason of the failure.
//!
//! | reason | what follows | costs an attempt |
//! |---|---|---|
//! | `rate_limit`, `quota`, `overloaded` | waits, and the provider is held back for all workers | no |
//! | `auth`, `invalid_request`, `permission`, `context_length`, a schema, a wrong option, a ref that is not there | failed at once | |
//! | anything else | another attempt, later and later | yes |
//!
//! A limit that never ends still ends the job: after [`MAX_WAITS`] waits it counts as any other failure.

use super::fault::JobFault;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Most waits for a limit that cost no attempt.
pub const MAX_WAITS: u32 = 100;

const BASE_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Delay for a limit whose end is unknown.
const LIMIT_DELAY: Duration = Duration::from_secs(15);
const MAX_LIMIT_DELAY: Duration = Duration::from_secs(15 * 60);

/// The consequence of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The job fails, because another attempt would fail as well.
    Final,
    /// Another attempt starts after this delay.
    Again(Duration),
    /// The provider is at its limit: no worker uses it for this long.
    Wait(Duration),
}

/// `spent`: attempts of the budget, this one included. `waits`: how often the job waited for a limit so far.
pub fn consequence_of(fault: &JobFault, spent: u32, waits: u32) -> Consequence {
    let kind = fault.facts.get("kind").and_then(serde_json::Value::as_str).unwrap_or_default();
    let is_agent = fault.code.starts_with("AGENT_") || fault.code.starts_with("MODEL_");
    match (kind, fault.code.as_str()) {
        ("rate_limit" | "quota" | "overloaded", _) if is_agent && waits < MAX_WAITS => {
            let told = fault.facts.get("retryAfterMs").and_then(serde_json::Value::as_f64);
            let told =
                told.filter(|millis| *millis >= 0.0).map(|millis| Duration::from_millis(millis as u64));
            Consequence::Wait(told.unwrap_or_else(|| doubled(LIMIT_DELAY, waits)).min(MAX_LIMIT_DELAY))
        }
        ("auth" | "invalid_request" | "permission" | "context_length", _) if is_agent => Consequence::Final,
        (_, "AGENT_SCHEMA_MISMATCH" | "AGENT_RESUME_FAILED" | "AGENT_BUDGET" | "INVALID_OPTION") => {
            Consequence::Final
        }
        ("missing_ref", "JOB_CHECKOUT_FAILED") => Consequence::Final,
        _ => Consequence::Again(doubled(BASE_DELAY, spent.saturating_sub(1)).min(MAX_DELAY)),
    }
}

/// Delay of a job that no worker here can take, by the number of its deliveries. Jobs are spread: up to half of it
/// is left out, by the job's id. The server serves workers in turn, and jobs that came back at equal intervals would meet the same
/// wrong workers again and again.
pub fn refusal_delay(deliveries: u64, id: &str) -> Duration {
    let times = u32::try_from(deliveries.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = doubled(Duration::from_millis(100), times).min(Duration::from_secs(5));
    let mut hasher = DefaultHasher::new();
    (id, deliveries).hash(&mut hasher);
    longest - longest.mul_f64((hasher.finish() % 1000) as f64 / 2000.0)
}

/// Delay of a job that lost its workers, by the number of losses.
pub fn loss_delay(times: u32) -> Duration {
    doubled(BASE_DELAY, times).min(MAX_DELAY)
}

fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1_u32.checked_shl(times.min(20)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(code: &str, facts: serde_json::Value, spent: u32, waits: u32) -> Consequence {
        let facts = facts.as_object().cloned().unwrap_or_default();
        consequence_of(&JobFault { code: code.into(), message: String::new(), facts }, spent, waits)
    }

    #[test]
    fn two_jobs_that_were_refused_together_do_not_come_back_together() {
        let delays = |id: &str| (1..20).map(|times| refusal_delay(times, id)).collect::<Vec<_>>();
        let pairs = delays("a").into_iter().zip(delays("b")).filter(|(left, right)| left == right).count();
        assert!(pairs < 3, "{pairs} of 19 delays are equal");
    }

    #[test]
    fn each_reason_has_its_row() {
        let secs = Duration::from_secs;
        for (code, facts, spent, waits, expected) in [
            ("AGENT_FAILED", json!({"kind": "rate_limit"}), 1, 0, Consequence::Wait(secs(15))),
            ("AGENT_FAILED", json!({"kind": "quota"}), 1, 2, Consequence::Wait(secs(60))),
            (
                "AGENT_FAILED",
                json!({"kind": "overloaded", "retryAfterMs": 2000}),
                1,
                5,
                Consequence::Wait(secs(2)),
            ),
            ("AGENT_FAILED", json!({"kind": "rate_limit"}), 1, 99, Consequence::Wait(secs(900))),
            (
                "AGENT_FAILED",
                json!({"kind": "rate_limit"}),
                1,
                100,
                Consequence::Again(Duration::from_millis(500)),
            ),
            ("AGENT_FAILED", json!({"kind": "auth"}), 1, 0, Consequence::Final),
            ("AGENT_FAILED", json!({"kind": "invalid_request"}), 1, 0, Consequence::Final),
            ("AGENT_FAILED", json!({"kind": "server"}), 1, 0, Consequence::Again(Duration::from_millis(500))),
            ("AGENT_CRASHED", json!({}), 2, 0, Consequence::Again(secs(1))),
            ("AGENT_IDLE", json!({}), 30, 0, Consequence::Again(secs(60))),
            ("AGENT_SCHEMA_MISMATCH", json!({}), 1, 0, Consequence::Final),
            ("INVALID_OPTION", json!({}), 1, 0, Consequence::Final),
            ("JOB_CHECKOUT_FAILED", json!({"kind": "missing_ref"}), 1, 0, Consequence::Final),
            (
                "JOB_CHECKOUT_FAILED",
                json!({"kind": "unreachable"}),
                1,
                0,
                Consequence::Again(Duration::from_millis(500)),
            ),
            // A handler's own error means what its handler means by it.
            ("E_MINE", json!({"kind": "auth"}), 1, 0, Consequence::Again(Duration::from_millis(500))),
        ] {
            assert_eq!(of(code, facts.clone(), spent, waits), expected, "{code} {facts} {spent} {waits}");
        }
    }

    #[test]
    fn a_job_that_nobody_takes_is_offered_less_and_less_often() {
        for (deliveries, longest) in [(1, 100), (3, 400), (1000, 5000)] {
            let delay = refusal_delay(deliveries, "job").as_millis();
            assert!((longest / 2..=longest).contains(&delay), "{delay} of {longest} ms");
        }
    }
}
