//! PURE: which strings of a session are secrets, and how they are taken out of what it says.
//!
//! The secrets of all requests of a session count for all that comes after. Payload strings are searched; words of the
//! protocol, and the paths by which files are found, are not.

use super::wire::client_message::{CommandExecution, CommandSpec, Invocation};
use crate::redaction::{Redactor, Secret};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

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

/// Everything that a session knows to be secret.
#[derive(Clone, Debug, Default)]
pub struct SessionSecrets {
    values: BTreeSet<String>,
}

impl SessionSecrets {
    pub fn learn_invocation(&mut self, invocation: &Invocation) {
        self.learn_listed(&invocation.secrets);
        self.learn_environment(invocation.agent_env.iter().flatten(), &invocation.secrets);
        for command in invocation.pre_commands.iter().chain(&invocation.post_commands) {
            self.learn_command(command, &invocation.secrets);
        }
    }

    pub fn learn_execution(&mut self, execution: &CommandExecution) {
        self.learn_listed(&execution.secrets);
        for command in &execution.commands {
            self.learn_command(command, &execution.secrets);
        }
    }

    /// A filter for one stream of text, or for whole texts.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.values.iter().map(|value| Secret::new(value.clone())))
    }

    fn learn_listed(&mut self, listed: &[String]) {
        self.values.extend(listed.iter().filter(|value| !value.is_empty()).cloned());
    }

    fn learn_command(&mut self, command: &CommandSpec, listed: &[String]) {
        self.learn_environment(command.env.iter(), listed);
    }

    fn learn_environment<'map>(
        &mut self,
        environment: impl Iterator<Item = (&'map String, &'map String)>,
        listed: &[String],
    ) {
        for (name, value) in environment {
            if (listed.contains(name) && !value.is_empty())
                || (names_a_credential(name) && value.len() >= MIN_GUESSED_BYTES)
            {
                self.values.insert(value.clone());
            }
        }
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

/// A value with the secrets taken out of all its strings; the names of its fields stay.
pub fn redact_value(redactor: &Redactor, value: Value) -> Value {
    if redactor.is_empty() {
        return value;
    }
    match value {
        Value::String(text) => Value::String(redactor.redact(&text)),
        Value::Array(items) => items.into_iter().map(|item| redact_value(redactor, item)).collect(),
        Value::Object(fields) => Value::Object(redact_fields(redactor, fields)),
        other => other,
    }
}

pub fn redact_fields(redactor: &Redactor, fields: Map<String, Value>) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name, redact_value(redactor, value))).collect()
}

/// The variable by which a server may be given its token.
const TOKEN_VARIABLE: &str = "SHEEPDOG_RUNTIME_TOKEN";

/// What a request's process has beside the server's own environment, and what it has not: who may come in is no business of
/// what runs here.
pub fn own_environment(environment: &BTreeMap<String, String>) -> Vec<(String, Option<String>)> {
    let given = environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    std::iter::once((TOKEN_VARIABLE.to_owned(), None)).chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        secrets.learn_invocation(&Invocation {
            secrets: vec!["listed".into(), String::new(), "PLAIN_NAME".into()],
            agent_env: Some(BTreeMap::from([
                ("MY_TOKEN".into(), "by-its-name".into()),
                ("PLAIN_NAME".into(), "by-listing-its-name".into()),
                ("OTHER".into(), "in clear".into()),
                ("API_KEY".into(), "1".into()),
            ])),
            ..Invocation::default()
        });
        secrets.learn_execution(&CommandExecution {
            commands: vec![CommandSpec {
                env: BTreeMap::from([("PASSWORD".into(), "listed-longer".into())]),
                ..CommandSpec::default()
            }],
            ..CommandExecution::default()
        });
        let redacted = redact_value(
            &secrets.redactor(),
            json!({"listed": ["listed", "by-its-name by-listing-its-name", "in clear 1", 5], "deep": {"x": "listed-longer"}}),
        );
        assert_eq!(
            redacted,
            json!({"listed": ["[REDACTED]", "[REDACTED] [REDACTED]", "in clear 1", 5], "deep": {"x": "[REDACTED]"}})
        );
    }
}
