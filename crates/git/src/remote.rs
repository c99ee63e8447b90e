//! Git commands that speak to a remote repository, without revealing secrets.
//!
//! The git configuration of the worker's user applies (keys, proxies, certificates), except for hooks and monitors: a relative
//! path in it would lead into the repository. A login is passed in the environment to a helper that answers for its own host
//! only.

use crate::command::{Call, CallFault, reported};
use crate::source::{Address, SiteLogin};
use ground::error::{Error, ErrorCode};
use ground::redaction::Redactor;
use std::path::Path;
use std::time::Duration;

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
        let printed = self.call(at, args, None).await;
        printed.map_err(|fault| fault.into_error(&self.address))
    }

    /// Fetches. This is the only command that gets the login.
    pub(super) async fn fetch(&self, at: &Path, args: &[&str]) -> Result<(), GitFault> {
        self.call(Some(at), args, self.address.login.as_ref()).await.map(drop)
    }

    async fn call(
        &self,
        at: Option<&Path>,
        args: &[&str],
        login: Option<&SiteLogin>,
    ) -> Result<String, GitFault> {
        let mut call = Call::new(args.iter().copied()).idle_timeout(self.idle_timeout);
        if let Some(at) = at {
            call = call.at(at);
        }
        if let Some(login) = login {
            call = call
                .variable("SHEEPDOG_GIT_USER", login.user.expose())
                .variable("SHEEPDOG_GIT_PASSWORD", login.password.expose())
                // The user's own helpers would keep what they are told.
                .setting("credential.helper", "")
                .setting(format!("credential.{}.helper", login.site), HELPER);
        }
        match call.run().await {
            Ok(printed) => Ok(String::from_utf8_lossy(&printed).into_owned()),
            Err(CallFault::Idle(length)) => Err(GitFault::Idle(length)),
            Err(CallFault::NoGit(told)) => Err(GitFault::NoGit(told)),
            Err(CallFault::Other(told)) => {
                Err(GitFault::Other { kind: "failed", told: self.redactor.redact(&told) })
            }
            Err(CallFault::Said { stderr, .. }) => Err(classify(&self.redactor.redact(&stderr))),
        }
    }
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
    GitFault::Other { kind, told: reported(stderr) }
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
