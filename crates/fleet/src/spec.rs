//! PURE: the request of a job, and the checks that need no server.

use super::name::{DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_PRIORITY, check_name};
use git::GitSource;
use ground::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Attempts of a job that does not set a number.
pub const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_KEY_LIMIT: u32 = 1000;
const MAX_TITLE_BYTES: usize = 1000;
const MAX_TAGS: usize = 50;
/// Characters of a prompt that the record has.
const SHORT_PROMPT: usize = 1000;
/// Longer data is left out of the record: records have room for many jobs.
const MAX_SHOWN_DATA_BYTES: usize = 2 << 10;

/// The work of a job, and its options. It is sent as JSON in the job's message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub id: String,
    pub queue: String,
    pub priority: u8,
    /// The agent that gets the prompt; or `handler`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The worker's own code, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    pub prompt: String,
    /// Name of the job for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Options of the turn as their user wrote them; the worker's edge makes a request of them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// It works in a checkout of its own instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// Jobs of one key share `key_limit` places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(deserialize_with = "count")]
    pub key_limit: u32,
    /// Epoch milliseconds; not before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    #[serde(deserialize_with = "count")]
    pub attempts: u32,
    /// Globs below `cwd`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Null is data, too.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "there")]
    pub data: Option<Value>,
    /// Whether a turn is repeated though a tool ran in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_tools: bool,
    /// Epoch milliseconds.
    pub submitted_at: u64,
}

/// Null that is there is not the absence of a value.
pub(crate) fn there<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A count as JavaScript has it: more than the type holds is the most that it holds.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    f64::deserialize(from).map(|count| count as u32)
}

impl JobSpec {
    /// Fills in what its user left out.
    pub fn with_defaults(mut self) -> Self {
        if self.queue.is_empty() {
            DEFAULT_QUEUE.clone_into(&mut self.queue);
        }
        self.attempts = if self.attempts == 0 { DEFAULT_ATTEMPTS } else { self.attempts };
        self.key_limit = self.key_limit.max(1);
        self
    }

    /// A job with default options.
    pub fn new() -> Self {
        JobSpec { priority: DEFAULT_PRIORITY, attempts: DEFAULT_ATTEMPTS, key_limit: 1, ..Self::default() }
    }

    /// The prompt as the record has it.
    pub(crate) fn short_prompt(&self) -> Option<String> {
        let mut short: String = self.prompt.chars().take(SHORT_PROMPT).collect();
        if short.len() < self.prompt.len() {
            short.push('…');
        }
        (!short.is_empty()).then_some(short)
    }

    /// The data as the record has it; `None` when it is long.
    pub(crate) fn short_data(&self) -> Option<Value> {
        self.data.clone().filter(|data| data.to_string().len() <= MAX_SHOWN_DATA_BYTES)
    }

    /// Returns `INVALID_OPTION` for a job that no fleet accepts.
    pub fn check(&self) -> Result<(), Error> {
        check_name("id", &self.id)?;
        check_name("queue", &self.queue)?;
        if let Some(key) = &self.key {
            check_name("key", key)?;
        }
        if self.title.as_ref().is_some_and(|title| title.len() > MAX_TITLE_BYTES) {
            return Err(Error::invalid_option("title", format!("expected at most {MAX_TITLE_BYTES} bytes")));
        }
        if self.tags.len() > MAX_TAGS {
            return Err(Error::invalid_option("tags", format!("expected at most {MAX_TAGS} tags")));
        }
        for tag in &self.tags {
            check_name("tags", tag)?;
        }
        if let Some(git) = &self.git {
            git.check()?;
            if self.cwd.is_some() {
                return Err(Error::invalid_option("git", "a job has git or cwd, not both"));
            }
        }
        match (&self.provider, &self.handler) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid_option("handler", "a job has a provider or a handler, not both"));
            }
            (None, None) => {
                return Err(Error::invalid_option("provider", "a job needs a provider or a handler"));
            }
            (None, Some(handler)) => check_name("handler", handler)?,
            (Some(_), None) if self.prompt.trim().is_empty() => {
                return Err(Error::invalid_option("prompt", "expected a prompt that is not empty"));
            }
            (Some(_), None) => {}
        }
        if let Some(provider) = &self.provider {
            check_name("provider", provider)?;
        }
        if self.priority > MAX_PRIORITY {
            return Err(Error::invalid_option(
                "priority",
                format!("expected 0 to {MAX_PRIORITY}, got {}", self.priority),
            ));
        }
        if self.key_limit > MAX_KEY_LIMIT {
            return Err(Error::invalid_option("keyLimit", format!("expected at most {MAX_KEY_LIMIT}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut JobSpec)) -> String {
        let mut spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
        change(&mut spec);
        spec.with_defaults().check().map_or_else(|error| error.message().to_owned(), |()| String::new())
    }

    #[test]
    fn what_no_fleet_can_take_is_refused_by_its_path() {
        assert_eq!(problem(|_| {}), "");
        assert!(problem(|spec| spec.id = String::new()).starts_with("id: "));
        assert!(problem(|spec| spec.id = "x".repeat(201)).starts_with("id: "));
        assert!(problem(|spec| spec.provider = Some("codex".into())).starts_with("handler: "));
        assert!(problem(|spec| spec.handler = None).starts_with("provider: "));
        assert!(
            problem(|spec| (spec.handler, spec.provider) = (None, Some("codex".into())))
                .starts_with("prompt: ")
        );
        let git = || Some(GitSource { url: "/srv/a".into(), ..GitSource::default() });
        assert_eq!(problem(|spec| spec.git = git()), "");
        assert!(problem(|spec| (spec.git, spec.cwd) = (git(), Some("/w".into()))).starts_with("git: "));
        assert!(problem(|spec| spec.git = Some(GitSource::default())).starts_with("git.url: "));
        assert!(problem(|spec| spec.title = Some("x".repeat(1001))).starts_with("title: "));
        assert!(problem(|spec| spec.tags = vec![String::new()]).starts_with("tags: "));
        assert!(problem(|spec| spec.tags = vec!["t".to_owned(); 51]).starts_with("tags: "));
        assert!(problem(|spec| spec.priority = 10).starts_with("priority: "));
        assert!(problem(|spec| spec.key_limit = 1001).starts_with("keyLimit: "));
        let long = Some("x".repeat(5000));
        assert!(
            problem(|spec| (spec.handler, spec.provider, spec.prompt) = (None, long, "x".into()))
                .starts_with("provider: ")
        );
    }

    #[test]
    fn a_count_of_any_size_is_read() {
        for attempts in ["5000000000", "1e300", "4294967295"] {
            let text = format!("{{\"attempts\":{attempts},\"keyLimit\":2}}");
            let spec = ground::json::read::<JobSpec>(&text).unwrap();
            assert_eq!((spec.attempts, spec.key_limit), (u32::MAX, 2), "{attempts}");
        }
    }

    #[test]
    fn a_spec_survives_its_journey() {
        let spec = JobSpec {
            id: "a".into(),
            handler: Some("h".into()),
            data: Some(serde_json::json!({"n": 1})),
            ..JobSpec::new()
        }
        .with_defaults();
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(ground::json::read::<JobSpec>(&text).unwrap(), spec);
    }
}
