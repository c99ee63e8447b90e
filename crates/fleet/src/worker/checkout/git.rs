//! Runs git without prompts, without programs of the repository, and without revealing secrets.
//!
//! The git configuration of the worker's user applies (keys, proxies, certificates), except for hooks and monitors: a relative
//! path in it would lead into the repository. A login is passed in the environment to a helper that answers for its own host
//! only.

use crate::source::{Address, SiteLogin};
use ground::error::{Error, ErrorCode};
use ground::redaction::Redactor;
use process::{ProcessSpec, spawn};
use std::path::Path;
use std::time::Duration;

/// Time limit of a whole command; a silent one ends far earlier.
const TIMEOUT: Duration = Duration::from_secs(3600);
const KILL_GRACE: Duration = Duration::from_millis(500);
const MAX_OUTPUT_BYTES: usize = 64 << 10;
const MAX_TOLD_BYTES: usize = 1000;

/// Environment variables that switch all prompts off, and make messages English.
const UNASKED: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GCM_INTERACTIVE", "never"),
    ("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file"),
    ("LC_ALL", "C"),
];
/// Settings of every command, which override any configuration.
const SETTINGS: [(&str, &str); 5] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
];
/// Would point git at another repository, or write down what it is told.
const REMOVED: [&str; 14] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_TRACE",
    "GIT_TRACE_CURL",
    "GIT_TRACE_PACKET",
];
/// A script of ours, the same for all: what it answers stands in the environment.
const HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$SHEEPDOG_GIT_USER" "$SHEEPDOG_GIT_PASSWORD"; }; f"#;

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GitFault {
    /// The remote does not have this ref, or refuses it.
    MissingRef,
    /// git is not installed on this machine.
    NoGit(String),
    Idle(Duration),
    /// Another error; `told` is git's output, without secrets.
    Other {
        kind: &'static str,
        told: String,
    },
}

pub(super) struct Git {
    idle_timeout: Duration,
    address: Address,
    redactor: Redactor,
}

impl Git {
    pub(super) fn new(idle_timeout: Duration, address: &Address) -> Git {
        let secrets = address.login.iter().flat_map(|login| [login.user.clone(), login.password.clone()]);
        Git { idle_timeout, address: address.clone(), redactor: Redactor::new(secrets) }
    }

    /// Runs a command and returns its output.
    pub(super) async fn run(&self, at: Option<&Path>, args: &[&str]) -> Result<String, Error> {
        let printed = self.spawn(at, args, environment(None)).await;
        printed.map_err(|fault| fault.into_error(&self.address))
    }

    /// Fetches. This is the only command that gets the login.
    pub(super) async fn fetch(&self, at: &Path, args: &[&str]) -> Result<(), GitFault> {
        self.spawn(Some(at), args, environment(self.address.login.as_ref())).await.map(drop)
    }

    async fn spawn(
        &self,
        at: Option<&Path>,
        args: &[&str],
        changes: Vec<(String, Option<String>)>,
    ) -> Result<String, GitFault> {
        let mut spec = ProcessSpec::new("git", args.iter().copied());
        spec.cwd = at.map(Path::to_owned);
        spec.environment.changes = changes;
        spec.idle_timeout = Some(self.idle_timeout);
        spec.timeout = Some(TIMEOUT);
        spec.kill_grace = KILL_GRACE;
        spec.max_output_bytes = MAX_OUTPUT_BYTES;
        let outcome = spawn(spec).outcome().await;
        if let Some(error) = &outcome.error {
            return Err(match error.code() {
                ErrorCode::ProcessIdle => GitFault::Idle(self.idle_timeout),
                ErrorCode::ProcessNotFound => GitFault::NoGit(error.message().to_owned()),
                _ => GitFault::Other { kind: "failed", told: self.redactor.redact(error.message()) },
            });
        }
        let Some(result) = &outcome.result else {
            return Err(GitFault::Other { kind: "failed", told: "nothing was started".to_owned() });
        };
        if result.exit_code == Some(0) {
            return Ok(result.stdout.clone());
        }
        Err(classify(&self.redactor.redact(&result.stderr)))
    }
}

fn environment(login: Option<&SiteLogin>) -> Vec<(String, Option<String>)> {
    let mut changes: Vec<(String, Option<String>)> =
        REMOVED.iter().map(|name| ((*name).to_owned(), None)).collect();
    let mut set = |name: &str, value: &str| changes.push((name.to_owned(), Some(value.to_owned())));
    for (name, value) in UNASKED {
        set(name, value);
    }
    let mut settings: Vec<(String, &str)> =
        SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    if let Some(login) = login {
        set("SHEEPDOG_GIT_USER", login.user.expose());
        set("SHEEPDOG_GIT_PASSWORD", login.password.expose());
        // The user's own helpers would keep what they are told.
        settings.push(("credential.helper".to_owned(), ""));
        settings.push((format!("credential.{}.helper", login.site), HELPER));
    }
    set("GIT_CONFIG_COUNT", &settings.len().to_string());
    for (index, (name, value)) in settings.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), name);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    changes
}

impl GitFault {
    pub(super) fn into_error(self, address: &Address) -> Error {
        let url = &address.url;
        let (kind, message) = match self {
            GitFault::MissingRef => ("missing_ref", format!("{url} has no such ref")),
            GitFault::NoGit(told) => ("failed", format!("a checkout needs git on the worker's PATH: {told}")),
            GitFault::Idle(length) => (
                "timeout",
                format!(
                    "git was silent for {} s: {url} does not answer, or this machine cannot reach it",
                    length.as_secs()
                ),
            ),
            GitFault::Other { kind, told } => (kind, format!("{url} could not be checked out: {told}")),
        };
        Error::new(ErrorCode::JobCheckoutFailed, message).with("kind", kind).with("url", url.clone())
    }
}

/// Classifies a failure by git's English messages, which `LC_ALL` asks for.
fn classify(stderr: &str) -> GitFault {
    let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if says(&["couldn't find remote ref", "not our ref", "unadvertised object", "no such remote ref"]) {
        return GitFault::MissingRef;
    }
    let kind = if says(&[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "Permission denied",
        "terminal prompts disabled",
        "returned error: 401",
        "returned error: 403",
    ]) {
        "unauthorized"
    } else if says(&[
        "Could not resolve",
        "unable to access",
        "unable to connect",
        "Connection refused",
        "Could not read from remote",
        "does not appear to be a git repository",
        "not found",
    ]) {
        "unreachable"
    } else {
        "failed"
    };
    // Progress is rewritten in its line; what went wrong stands in the last lines.
    let lines: Vec<&str> = stderr
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line).trim())
        .filter(|line| {
            line.starts_with("fatal:") || line.starts_with("error:") || line.starts_with("remote:")
        })
        .collect();
    let mut told = if lines.is_empty() { stderr.trim().to_owned() } else { lines.join("; ") };
    if let Some((end, _)) = told.char_indices().nth(MAX_TOLD_BYTES) {
        told.truncate(end);
    }
    GitFault::Other { kind, told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_told_by_its_kind() {
        assert_eq!(classify("fatal: couldn't find remote ref nowhere\n"), GitFault::MissingRef);
        let kind = |stderr: &str| match classify(stderr) {
            GitFault::Other { kind, told } => (kind, told),
            fault => panic!("{fault:?}"),
        };
        let refused = "Receiving: 1%\rReceiving: 2%\nfatal: Authentication failed for 'https://host/a'\n";
        assert_eq!(
            kind(refused),
            ("unauthorized", "fatal: Authentication failed for 'https://host/a'".into())
        );
        assert_eq!(
            kind("fatal: unable to access 'https://host/a': Could not resolve host: host").0,
            "unreachable"
        );
        let forbidden = "fatal: unable to access 'https://host/a/': The requested URL returned error: 403";
        assert_eq!(kind(forbidden).0, "unauthorized");
        // A number in a path is no status.
        let away = "fatal: '/tmp/GH403U/none' does not appear to be a git repository";
        assert_eq!(kind(away).0, "unreachable");
        assert_eq!(kind("odd"), ("failed", "odd".into()));
    }
}
