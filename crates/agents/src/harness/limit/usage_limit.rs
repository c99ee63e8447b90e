//! A usage limit that a turn or a prompt ran into: its end, the messages about it, and the turns that it holds back.

use super::hold::{AccountKey, from_now};
use super::scheduler::ConcurrencyLimit;
use crate::harness::agent_request::AgentRequest;
use crate::harness::event::{AgentErrorKind, AgentEvent};
use crate::harness::evidence::reset::{Reset, zone_of};
use crate::harness::provider::Provider;
use crate::harness::verdict::Fault;
use ground::error::Error;
use ground::record::epoch_ms;
use std::time::{Duration, SystemTime};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageLimit {
    ends: SystemTime,
    /// When it is worth another try.
    try_at: SystemTime,
}

impl UsageLimit {
    /// One that ends as an agent of this request says just now.
    pub(crate) fn said(reset: &Reset, agent: &AgentRequest) -> Option<UsageLimit> {
        let now = SystemTime::now().try_into().ok()?;
        let ends = reset.resolve(now, &zone_of(agent.variable("TZ").as_deref()))?;
        Some(UsageLimit { ends: ends.into(), try_at: reset.try_at(ends, now).into() })
    }

    /// Time until another try is worthwhile.
    pub(crate) fn left(self) -> Duration {
        from_now(self.try_at)
    }

    /// When who waits so long at least tries again.
    pub(crate) fn after(self, least: Duration) -> SystemTime {
        self.try_at.max(SystemTime::now() + least)
    }

    /// The error, with when it ends.
    pub(crate) fn tell(self, error: Error) -> Error {
        error
            .with("resetAt", epoch_ms(self.ends))
            .with("retryAfterMs", from_now(self.ends).as_millis() as u64)
    }
}

/// An account, among those whose turns share limits of concurrency.
#[derive(Clone)]
pub(crate) struct HeldAccount {
    key: AccountKey,
    pub(crate) limits: Vec<ConcurrencyLimit>,
    /// The longest wait of the one that asks.
    longest: Duration,
}

impl HeldAccount {
    pub(crate) fn new(agent: &AgentRequest, limits: Vec<ConcurrencyLimit>, longest: Duration) -> Self {
        HeldAccount { key: AccountKey::of(agent), limits, longest }
    }

    /// The limit that this fault ran into. Others of the account are held back until it is worth another try.
    pub(crate) fn meet(&self, fault: &Fault, agent: &AgentRequest) -> Option<UsageLimit> {
        let limit = UsageLimit::said(fault.reset.as_ref()?, agent)?;
        if fault.kind().is_some_and(AgentErrorKind::is_usage_limit) {
            for shared in &self.limits {
                shared.holds().add(self.key, limit.try_at);
            }
        }
        Some(limit)
    }

    /// The end of a usage limit of the account that other turns have met; `None` if it is further away than the longest wait.
    pub(crate) fn held_until(&self) -> Option<SystemTime> {
        let now = SystemTime::now();
        let holds = self.limits.iter().filter_map(|limit| limit.holds().until(self.key, now));
        holds.max().filter(|until| until.duration_since(now).is_ok_and(|left| left <= self.longest))
    }
}

/// The event for a wait until a usage limit ends. `is_met`: the turn itself met the limit, rather than another one.
pub(crate) fn waiting(provider: Provider, is_met: bool, until: SystemTime) -> AgentEvent {
    let what = if is_met { "continues when the limit ends" } else { "is held back" };
    let message = format!("{} is at its usage limit: the turn {what}", provider.as_str());
    AgentEvent::Retry { message, until: Some(epoch_ms(until)) }
}

/// The prompt of a session that a limit interrupted. It repeats what was asked: not every CLI has it by then.
pub(crate) fn prompt_to_go_on(prompt: &str) -> String {
    format!(
        "A usage limit interrupted you; it is over now. Go on where you left off, and do nothing twice. What you were asked:\n\n{prompt}"
    )
}
