//! The accounts at their usage limit, with its end. A [`ConcurrencyLimit`](super::ConcurrencyLimit) holds their turns back.

use crate::harness::agent_request::AgentRequest;
use crate::harness::provider::Provider;
use ground::lock::lock;
use ground::redaction::names_a_secret;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// A sleep is measured on a clock that stands still while the machine sleeps: so often the clock on the wall is looked at.
const LOOK: Duration = Duration::from_secs(15);

/// The accounts of services and clouds, through which a CLI may reach a model. Those of one CLI alone are in its descriptor.
const SERVICES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "MISTRAL_API_KEY",
    "AI_GATEWAY_API_KEY",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_PROJECT_ID",
    "GOOGLE_CLOUD_LOCATION",
    "CLOUDSDK_CONFIG",
    "CLOUD_ML_REGION",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_RESOURCE_NAME",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CONFIG_DIR",
];

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
        let known = agent.provider.descriptor();
        for name in ["HOME"].iter().chain(known.account).chain(known.base_urls).chain(SERVICES) {
            agent.variable(name).hash(&mut hasher);
        }
        // Keys that the caller gives to this agent, whatever service they are for.
        let given: BTreeMap<_, _> =
            agent.environment.changes.iter().filter(|(name, _)| names_a_secret(name)).cloned().collect();
        given.hash(&mut hasher);
        AccountKey { provider: agent.provider, signed_in_by: hasher.finish() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<AccountKey, SystemTime>>);

impl Holds {
    /// The account is at its limit until then.
    pub(crate) fn add(&self, account: AccountKey, until: SystemTime) {
        let mut holds = lock(&self.0);
        let held = holds.entry(account).or_insert(until);
        *held = until.max(*held);
    }

    /// Until when it is at its limit, if it is.
    pub(crate) fn until(&self, account: AccountKey, now: SystemTime) -> Option<SystemTime> {
        let mut holds = lock(&self.0);
        holds.retain(|_, until| *until > now);
        holds.get(&account).copied()
    }
}

/// Sleeps until the clock on the wall shows this, however the machine slept meanwhile. A clock that is set back does not make it
/// longer.
pub(crate) async fn wall_clock(until: SystemTime) {
    let rest = Rest::until(until);
    while let Some(left) = rest.left(SystemTime::now(), Instant::now()) {
        tokio::time::sleep(left).await;
    }
}

/// A wait for a time of the clock on the wall. PURE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    until: SystemTime,
    /// It lasts no longer than the clock said at its beginning.
    latest: Option<Instant>,
}

impl Rest {
    pub(crate) fn until(until: SystemTime) -> Rest {
        Rest::begun(until, SystemTime::now(), Instant::now())
    }

    fn begun(until: SystemTime, wall: SystemTime, now: Instant) -> Rest {
        Rest { until, latest: now.checked_add(until.duration_since(wall).unwrap_or_default()) }
    }

    /// After how long the clocks are looked at again; `None`: it is over.
    pub(crate) fn left(&self, wall: SystemTime, now: Instant) -> Option<Duration> {
        let by_wall = self.until.duration_since(wall).unwrap_or_default();
        let at_most = self.latest.map_or(by_wall, |latest| latest.saturating_duration_since(now));
        let left = by_wall.min(at_most);
        (!left.is_zero()).then(|| left.min(LOOK))
    }
}

/// No time when that has passed.
pub(crate) fn from_now(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::now()).unwrap_or_default()
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

    /// The docs tell of these ways to sign in, and of these homes.
    #[test]
    fn every_way_of_signing_in_that_the_docs_name_tells_accounts_apart() {
        let docs = [
            include_str!("../../../../../docs/signing-in.md"),
            include_str!("../../../../../docs/internals/agents.md"),
        ];
        let ends = ["_KEY", "_TOKEN", "_BASE_URL", "_HOME", "_CONFIG_DIR", "_AGENT_DIR"];
        let is_name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        let names = docs.iter().flat_map(|text| text.split(|letter| !is_name(letter)));
        let of_state = ["XDG_CACHE_HOME", "XDG_STATE_HOME", "SHEEPDOG_RUNTIME_TOKEN"];
        let names: std::collections::BTreeSet<&str> = names
            .filter(|name| ends.iter().any(|end| name.ends_with(end) && name.len() > end.len()))
            .filter(|name| !of_state.contains(name))
            .collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            let tells = |provider: &Provider| {
                let known = provider.descriptor();
                known.account.iter().chain(known.base_urls).any(|known| *known == name)
            };
            assert!(SERVICES.contains(&name) || Provider::ALL.iter().any(tells), "{name}");
        }
    }

    #[test]
    fn clouds_and_keys_of_any_service_tell_accounts_apart() {
        let key = |provider, name: &str, value: &str| {
            let mut agent = AgentRequest::new(provider);
            agent.environment.base = process::EnvironmentBase::Empty;
            agent.environment.changes = vec![(name.to_owned(), Some(value.to_owned()))];
            AccountKey::of(&agent)
        };
        for (provider, name) in [
            (Provider::ClaudeCode, "AWS_PROFILE"),
            (Provider::ClaudeCode, "CLAUDE_CODE_USE_VERTEX"),
            (Provider::ClaudeCode, "ANTHROPIC_CUSTOM_HEADERS"),
            (Provider::Qwen, "QWEN_HOME"),
            (Provider::Gemini, "GEMINI_CLI_HOME"),
            (Provider::Gemini, "GOOGLE_CLOUD_LOCATION"),
            (Provider::Kimi, "KIMI_BASE_URL"),
            (Provider::Opencode, "DEEPSEEK_API_KEY"),
            (Provider::Opencode, "GROQ_API_KEY"),
            (Provider::Pi, "XAI_API_KEY"),
            (Provider::Qwen, "OPENAI_API_KEY"),
            (Provider::Pi, "SOME_NEW_SERVICE_TOKEN"),
            (Provider::Copilot, "GH_HOST"),
        ] {
            assert_ne!(key(provider, name, "one"), key(provider, name, "two"), "{provider:?} {name}");
        }
        for provider in Provider::ALL {
            let twice = provider.descriptor().account.iter().find(|name| SERVICES.contains(name));
            assert_eq!(twice, None, "{provider:?}: a service has one list");
        }
        assert_eq!(key(Provider::Pi, "LANG", "one"), key(Provider::Pi, "LANG", "two"));
    }

    #[test]
    fn a_clock_that_is_set_shortens_a_rest_and_never_makes_it_longer() {
        let (wall, now) = (SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000), Instant::now());
        let second = Duration::from_secs(1);
        let rest = Rest::begun(wall + 10 * second, wall, now);
        assert_eq!(rest.left(wall, now), Some(10 * second));
        assert_eq!(
            rest.left(wall + 10 * second, now + second),
            None,
            "the machine slept, or the clock was set"
        );
        assert_eq!(rest.left(wall - 36_000 * second, now + 4 * second), Some(6 * second));
        assert_eq!(rest.left(wall - 36_000 * second, now + 10 * second), None);
        assert_eq!(Rest::begun(wall + 100 * second, wall, now).left(wall, now), Some(LOOK));
        assert_eq!(Rest::begun(wall - second, wall, now).left(wall, now), None);
    }

    #[tokio::test]
    async fn a_time_that_has_passed_is_not_waited_for() {
        wall_clock(SystemTime::now() - Duration::from_secs(5)).await;
        let until = SystemTime::now() + Duration::from_millis(30);
        wall_clock(until).await;
        assert!(SystemTime::now() >= until);
    }
}
