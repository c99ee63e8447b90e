//! The accounts at their usage limit, with its end. A [`ConcurrencyLimit`](super::ConcurrencyLimit) holds their turns back.

use super::agent_request::AgentRequest;
use super::provider::Provider;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A sleep is measured on a clock that stands still while the machine sleeps: so often the clock on the wall is looked at.
const LOOK: Duration = Duration::from_secs(15);

/// An account with one provider: whatever the environment signs its CLI in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountKey {
    provider: Provider,
    /// The values themselves are secrets.
    signed_in_by: u64,
}

impl AccountKey {
    pub(crate) fn of(agent: &AgentRequest) -> Self {
        let mut hasher = DefaultHasher::new();
        for name in ["HOME"].iter().chain(agent.provider.descriptor().account) {
            agent.variable(name).hash(&mut hasher);
        }
        AccountKey { provider: agent.provider, signed_in_by: hasher.finish() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<AccountKey, SystemTime>>);

impl Holds {
    /// The account is at its limit until then.
    pub(crate) fn add(&self, account: AccountKey, until: SystemTime) {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = holds.entry(account).or_insert(until);
        *held = until.max(*held);
    }

    /// Until when it is at its limit, if it is.
    pub(crate) fn until(&self, account: AccountKey, now: SystemTime) -> Option<SystemTime> {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|_, until| *until > now);
        holds.get(&account).copied()
    }
}

/// Sleeps until the clock on the wall shows this, however the machine slept meanwhile and whoever set it.
pub(crate) async fn wall_clock(until: SystemTime) {
    while let Some(left) = next_look(until) {
        tokio::time::sleep(left).await;
    }
}

/// When the clock on the wall is looked at again; `None`: it shows this, or later.
pub(crate) fn next_look(until: SystemTime) -> Option<Duration> {
    let left = from_now(until);
    (!left.is_zero()).then(|| left.min(LOOK))
}

/// No time when that has passed.
pub(crate) fn from_now(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::now()).unwrap_or_default()
}

pub(crate) fn epoch_millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_held_until_the_latest_time_that_was_said() {
        let mut agent = AgentRequest::new(Provider::Codex);
        let home = |home: &str| ("HOME".to_owned(), Some(home.to_owned()));
        agent.environment.changes = vec![home("/one")];
        let one = AccountKey::of(&agent);
        agent.environment.changes.push(("LANG".to_owned(), Some("C".to_owned())));
        assert_eq!(AccountKey::of(&agent), one, "that signs nobody in");
        agent.environment.changes = vec![home("/two")];
        let two = AccountKey::of(&agent);
        let other = AccountKey::of(&AgentRequest { provider: Provider::Pi, ..agent });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let after = |seconds| now + Duration::from_secs(seconds);
        let holds = Holds::default();
        holds.add(one, after(10));
        holds.add(one, after(5));
        assert_eq!(holds.until(one, now), Some(after(10)));
        assert_eq!((holds.until(two, now), holds.until(other, now)), (None, None));
        assert_eq!(holds.until(one, after(10)), None);
        assert_eq!(holds.until(one, now), None, "what is over is forgotten");
    }

    #[tokio::test]
    async fn a_time_that_has_passed_is_not_waited_for() {
        wall_clock(SystemTime::now() - Duration::from_secs(5)).await;
        let until = SystemTime::now() + Duration::from_millis(30);
        wall_clock(until).await;
        assert!(SystemTime::now() >= until);
    }
}
