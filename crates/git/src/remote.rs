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

/// git for one repository, and one ref that is wanted of it.
pub(super) struct Git<'a> {
    idle_timeout: Duration,
    pub address: &'a Address,
    wanted: &'a str,
    redactor: Redactor,
}

impl<'a> Git<'a> {
    pub(super) fn new(idle_timeout: Duration, address: &'a Address, wanted: &'a str) -> Git<'a> {
        let secrets = address.login.iter().flat_map(|login| [login.user.clone(), login.password.clone()]);
        Git { idle_timeout, address, wanted, redactor: Redactor::new(secrets) }
    }

    /// Runs a command and returns its output.
    pub(super) async fn run(&self, at: Option<&Path>, args: &[&str]) -> Result<String, Error> {
        self.call(at, args, None).await
    }

    /// Fetches. This is the only command that gets the login.
    pub(super) async fn fetch(&self, at: &Path, args: &[&str]) -> Result<(), Error> {
        self.call(Some(at), args, self.address.login.as_ref()).await.map(drop)
    }

    async fn call(
        &self,
        at: Option<&Path>,
        args: &[&str],
        login: Option<&SiteLogin>,
    ) -> Result<String, Error> {
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
        let printed = call.run().await.map_err(|fault| self.error_of(fault))?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    fn error_of(&self, fault: CallFault) -> Error {
        let url = &self.address.url;
        match fault {
            CallFault::NoGit(told) => {
                self.failed("failed", format!("a checkout needs git on the worker's PATH: {told}"))
            }
            CallFault::Idle(length) => self.failed(
                "timeout",
                format!(
                    "git was silent for {} s: {url} does not answer, or this machine cannot reach it",
                    length.as_secs()
                ),
            ),
            CallFault::Other(told) => self.not_checked_out("failed", &self.redactor.redact(&told)),
            CallFault::Said { stderr, .. } => match kind_of(&stderr) {
                MISSING_REF => self.missing_ref(),
                kind => self.not_checked_out(kind, &reported(&self.redactor.redact(&stderr))),
            },
        }
    }

    /// The remote does not have the ref, or refuses it.
    pub(super) fn missing_ref(&self) -> Error {
        let (url, wanted) = (&self.address.url, self.wanted);
        let message = format!("{url} has no {wanted}: name a branch, a tag or a full commit id of it");
        self.failed(MISSING_REF, message)
    }

    fn not_checked_out(&self, kind: &str, told: &str) -> Error {
        self.failed(kind, format!("{} could not be checked out: {told}", self.address.url))
    }

    fn failed(&self, kind: &str, message: String) -> Error {
        let url = self.address.url.clone();
        Error::new(ErrorCode::JobCheckoutFailed, message).with("kind", kind).with("url", url)
    }
}

const MISSING_REF: &str = "missing_ref";

/// The kind of a failure by git's English messages, which `LC_ALL` asks for.
fn kind_of(stderr: &str) -> &'static str {
    let kinds: [(&'static str, &[&str]); 3] = [
        (
            MISSING_REF,
            &["couldn't find remote ref", "not our ref", "unadvertised object", "no such remote ref"],
        ),
        (
            "unauthorized",
            &[
                "Authentication failed",
                "could not read Username",
                "could not read Password",
                "Permission denied",
                "terminal prompts disabled",
                "returned error: 401",
                "returned error: 403",
            ],
        ),
        (
            "unreachable",
            &[
                "Could not resolve",
                "unable to access",
                "unable to connect",
                "Connection refused",
                "Could not read from remote",
                "does not appear to be a git repository",
                "not found",
            ],
        ),
    ];
    let found = kinds.iter().find(|(_, words)| words.iter().any(|word| stderr.contains(word)));
    found.map_or("failed", |(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_told_by_its_kind() {
        for (told, kind) in [
            ("fatal: couldn't find remote ref nowhere\n", MISSING_REF),
            (
                "Receiving: 1%\rReceiving: 2%\nfatal: Authentication failed for 'https://host/a'\n",
                "unauthorized",
            ),
            ("fatal: unable to access 'https://host/a': Could not resolve host: host", "unreachable"),
            (
                "fatal: unable to access 'https://host/a/': The requested URL returned error: 403",
                "unauthorized",
            ),
            // A number in a path is no status.
            ("fatal: '/tmp/GH403U/none' does not appear to be a git repository", "unreachable"),
            ("odd", "failed"),
        ] {
            assert_eq!(kind_of(told), kind, "{told}");
        }
    }
}
