//! PURE: which strings of a session are secrets, and how they are redacted in its messages.
//!
//! The secrets of each request apply to all later messages of the session. Only payload strings are searched. Words of the
//! protocol are not, and neither are the paths by which files are found.

use super::wire::client_message::{CommandExecution, Invocation};
use ground::redaction::Redactor;
use std::collections::{BTreeMap, HashSet};

/// Words in a variable's name that make its value a secret without being listed.
const CREDENTIAL_WORDS: [&str; 13] = [
    "KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
];
/// Shorter values ("1", "yes") are everywhere: they are redacted only when they are listed.
const MIN_GUESSED_BYTES: usize = 5;

/// Most bytes that the secrets of a session may have together. Keys have a few thousand.
const MAX_SECRETS_BYTES: usize = 1 << 20;

/// The secrets that a session knows.
#[derive(Clone, Debug, Default)]
pub struct SessionSecrets {
    redactor: Redactor,
}

impl SessionSecrets {
    /// Adds the secrets of a request.
    ///
    /// # Errors
    /// When the session would have too many. Then no secret is added, and the request must not be run.
    pub fn learn_invocation(&mut self, invocation: &Invocation) -> Result<(), String> {
        let commands = invocation.pre_commands.iter().chain(&invocation.post_commands);
        let environments = invocation.agent_env.iter().chain(commands.map(|command| &command.env));
        self.learn(&invocation.secrets, environments)
    }

    /// The same as [`SessionSecrets::learn_invocation`], for commands.
    pub fn learn_execution(&mut self, execution: &CommandExecution) -> Result<(), String> {
        self.learn(&execution.secrets, execution.commands.iter().map(|command| &command.env))
    }

    /// A redactor for one stream of text, or for whole texts.
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    fn learn<'a>(
        &mut self,
        listed: &'a [String],
        environments: impl Iterator<Item = &'a BTreeMap<String, String>>,
    ) -> Result<(), String> {
        let names: HashSet<&str> = listed.iter().map(String::as_str).collect();
        let is_secret = |(name, value): &(&String, &String)| {
            names.contains(name.as_str()) || (names_a_credential(name) && value.len() >= MIN_GUESSED_BYTES)
        };
        let in_environments = environments.flatten().filter(is_secret).map(|(_, value)| value);
        let new = listed.iter().chain(in_environments).filter(|value| !self.redactor.knows(value));
        let new: Vec<&str> = new.map(String::as_str).collect();
        if new.is_empty() {
            return Ok(());
        }
        let learned = self.redactor.with(new);
        let bytes: usize = learned.secrets().map(|secret| secret.expose().len()).sum();
        if bytes > MAX_SECRETS_BYTES {
            return Err(format!(
                "secrets_to_redact: a session may have {MAX_SECRETS_BYTES} bytes of secrets, not {bytes}"
            ));
        }
        self.redactor = learned;
        Ok(())
    }
}

/// Whether a variable of this name holds a credential: one of its words says so.
pub fn names_a_credential(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if upper == "PWD" || upper == "OLDPWD" {
        return false;
    }
    upper.split(|character: char| !character.is_ascii_alphanumeric()).any(|word| {
        CREDENTIAL_WORDS.contains(&word)
            || ["TOKEN", "SECRET", "PASSWORD", "APIKEY"].iter().any(|end| word.ends_with(end))
    })
}

/// The variable by which a server may be given its token.
const TOKEN_VARIABLE: &str = "SHEEPDOG_RUNTIME_TOKEN";

/// The changes that a request's process makes to the server's environment. They remove the server's token, because a request's
/// programs have no need to connect to the server.
pub fn own_environment(environment: &BTreeMap<String, String>) -> Vec<(String, Option<String>)> {
    let given = environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    std::iter::once((TOKEN_VARIABLE.to_owned(), None)).chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::super::wire::client_message::CommandSpec;
    use super::*;
    use serde_json::json;

    fn redacted(redactor: &Redactor, mut value: serde_json::Value) -> serde_json::Value {
        redactor.redact_json(&mut value);
        value
    }

    #[test]
    fn rule_11_a_variable_s_name_tells_a_credential() {
        for name in [
            "API_KEY",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "githubtoken",
            "db-password",
            "AWS_SECRET_ACCESS_KEY",
            "NPM_AUTH",
        ] {
            assert!(names_a_credential(name), "{name}");
        }
        for name in
            ["PATH", "PWD", "OLDPWD", "KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM", "AUTHOR", "HOME"]
        {
            assert!(!names_a_credential(name), "{name}");
        }
    }

    #[test]
    fn rule_11_listed_values_and_credentials_of_all_requests_are_taken_out() {
        let mut secrets = SessionSecrets::default();
        let first = Invocation {
            secrets: vec!["listed".into(), String::new(), "PLAIN_NAME".into()],
            agent_env: Some(BTreeMap::from([
                ("MY_TOKEN".into(), "by-its-name".into()),
                ("PLAIN_NAME".into(), "by-listing-its-name".into()),
                ("OTHER".into(), "in clear".into()),
                ("API_KEY".into(), "1".into()),
            ])),
            ..Invocation::default()
        };
        secrets.learn_invocation(&first).unwrap();
        let second = CommandExecution {
            commands: vec![CommandSpec {
                env: BTreeMap::from([("PASSWORD".into(), "listed-longer".into())]),
                ..CommandSpec::default()
            }],
            ..CommandExecution::default()
        };
        secrets.learn_execution(&second).unwrap();
        let redacted = redacted(
            &secrets.redactor(),
            json!({"plain": ["listed", "by-its-name by-listing-its-name", "in clear 1", 5], "deep": {"x": "listed-longer"}}),
        );
        assert_eq!(
            redacted,
            json!({"plain": ["[REDACTED]", "[REDACTED] [REDACTED]", "in clear 1", 5], "deep": {"x": "[REDACTED]"}})
        );
    }

    #[test]
    fn rule_11_names_of_fields_are_searched_too_and_none_is_lost() {
        let mut secrets = SessionSecrets::default();
        let listed = vec!["one".to_owned(), "two".to_owned()];
        secrets
            .learn_execution(&CommandExecution { secrets: listed, ..CommandExecution::default() })
            .unwrap();
        let redacted = redacted(&secrets.redactor(), json!({"one": 1, "two": {"key of one": 2}, "three": 3}));
        assert_eq!(redacted, json!({"[REDACTED]": 1, "[REDACTED] 2": {"key of [REDACTED]": 2}, "three": 3}));
    }

    #[test]
    fn rule_14_secrets_without_end_are_refused_and_none_of_them_is_kept() {
        let mut secrets = SessionSecrets::default();
        let many = |count: usize| CommandExecution {
            secrets: (0..count).map(|number| format!("{number:0>100}")).collect(),
            ..CommandExecution::default()
        };
        assert!(secrets.learn_execution(&many(20_000)).unwrap_err().starts_with("secrets_to_redact: "));
        assert!(secrets.redactor().is_empty());
        secrets.learn_execution(&many(10_000)).unwrap();
        secrets.learn_execution(&many(10_000)).unwrap();
    }

    #[test]
    fn rule_14_many_variables_and_many_secrets_take_no_time() {
        // Measures the processor time of this thread, so that a busy machine does not change the result.
        let spent = || nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let started = spent();
        let mut secrets = SessionSecrets::default();
        let names: Vec<String> = (0..40_000).map(|number| format!("V{number}")).collect();
        let agent_env = Some(names.iter().map(|name| (name.clone(), format!("value of {name}"))).collect());
        secrets.learn_invocation(&Invocation { secrets: names, agent_env, ..Invocation::default() }).unwrap();
        let spent = std::time::Duration::from(spent()) - std::time::Duration::from(started);
        // It takes 5 to 10 s without optimization; a search of each in all would take minutes.
        assert!(spent < std::time::Duration::from_secs(40), "{spent:?}");
    }
}
