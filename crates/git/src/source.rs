//! PURE: a repository that a job works in. Checks addresses and refs, and separates the secrets from an address.
//!
//! Transports that run a program (`ext::`, `fd::`) are refused, and so is any text that git could take for an option. In an
//! address over HTTP all text before the `@` is a secret. It is removed from the address before git is started, so that no
//! command line, no configuration and no error contains it.

use ground::error::Error;
use ground::login::part;
use ground::percent;
use ground::redaction::Secret;
use serde::{Deserialize, Serialize};

/// Accepted schemes, before `://`.
const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];
const MAX_BYTES: usize = 4096;
/// The remote's default branch.
const DEFAULT_REF: &str = "HEAD";

/// The repository of a job. It is part of the job's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    pub url: String,
    /// A branch, a tag, any other ref of the remote, or a whole commit id; the remote's HEAD when `None`.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Whether the files of a failed job are kept on the worker's disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_on_failure: bool,
}

/// An address without its secrets, and the secrets.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub url: String,
    pub login: Option<SiteLogin>,
}

#[derive(Clone, Debug)]
pub(crate) struct SiteLogin {
    /// Scheme and host, which alone are told it.
    pub site: String,
    pub user: Secret,
    pub password: Secret,
}

impl GitSource {
    /// `INVALID_OPTION` for what git is not to be given.
    pub fn check(&self) -> Result<(), Error> {
        check_url(&self.url).map_err(|problem| Error::invalid_option("git.url", problem))?;
        check_ref(self.wanted()).map_err(|problem| Error::invalid_option("git.ref", problem))
    }

    pub(crate) fn wanted(&self) -> &str {
        self.wanted.as_deref().unwrap_or(DEFAULT_REF)
    }

    /// Whether a commit is named, which never becomes another one.
    pub(crate) fn is_commit(&self) -> bool {
        let wanted = self.wanted();
        matches!(wanted.len(), 40 | 64) && wanted.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    pub(crate) fn address(&self) -> Address {
        let (plain, login) = part(&self.url);
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        match login {
            Some(login) if scheme.starts_with("http") => {
                let host = plain.get(scheme.len() + 3..).unwrap_or_default();
                let site = format!("{scheme}://{}", host.split('/').next().unwrap_or_default());
                let password = login.password.unwrap_or_else(|| Secret::new(""));
                Address { url: plain, login: Some(SiteLogin { site, user: login.user, password }) }
            }
            // The name is part of the address; ssh takes no password from it.
            Some(login) if !scheme.is_empty() => {
                let rest = plain.get(scheme.len() + 3..).unwrap_or_default();
                Address { url: format!("{scheme}://{}@{rest}", login.user.expose()), login: None }
            }
            _ => Address { url: self.url.clone(), login: None },
        }
    }
}

fn check_url(url: &str) -> Result<(), String> {
    if url.is_empty() || url.len() > MAX_BYTES {
        return Err(format!("expected an address of 1 to {MAX_BYTES} bytes"));
    }
    if url.starts_with('-') || url.chars().any(char::is_control) {
        return Err(
            "expected an address without control characters that does not begin with \"-\"".to_owned()
        );
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        // Not shown: the address may have a secret.
        if !SCHEMES.contains(&scheme) {
            return Err(format!(
                "expected one of {}, a path, or user@host:path; got another scheme",
                SCHEMES.join(", ")
            ));
        }
        let host = rest.split('/').next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if scheme != "file" && (host.is_empty() || host.starts_with('-')) {
            return Err("expected an address with a host".to_owned());
        }
        if scheme.starts_with("http") && url.contains(['?', '#']) {
            return Err(
                "a query can't be kept out of logs: put a token before the host, as https://TOKEN@host/path"
                    .to_owned(),
            );
        }
        if scheme.starts_with("http") && percent::decoded(rest).chars().any(char::is_control) {
            return Err("expected an address without encoded control characters".to_owned());
        }
        return Ok(());
    }
    let is_local = url.starts_with('/');
    let (host, path) = url.split_once(':').unwrap_or(("", url));
    let is_remote = !host.is_empty() && !host.contains('/') && !path.is_empty() && !path.starts_with(':');
    if is_local || is_remote {
        return Ok(());
    }
    Err("expected https://, http://, ssh://, git:// or file://, an absolute path of the worker's machine, or user@host:path"
        .to_owned())
}

/// The letters that git itself refuses in a name, and those that mean something to it.
fn check_ref(name: &str) -> Result<(), String> {
    let is_odd = |character: char| {
        character.is_control() || character.is_whitespace() || "~^:?*[\\+".contains(character)
    };
    let is_name = !name.is_empty()
        && name.len() <= MAX_BYTES
        && !name.starts_with(['-', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains("//")
        && !name.contains(is_odd);
    if is_name {
        return Ok(());
    }
    Err(format!("expected a branch, a tag or a full commit id, got {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str, wanted: Option<&str>) -> GitSource {
        GitSource { url: url.to_owned(), wanted: wanted.map(str::to_owned), keep_on_failure: false }
    }

    fn problem(url: &str, wanted: Option<&str>) -> String {
        source(url, wanted).check().map_or_else(|error| error.message().to_owned(), |()| String::new())
    }

    #[test]
    fn addresses_that_only_fetch_are_taken() {
        for url in [
            "https://host/a.git",
            "https://me:secret@host:8443/a.git",
            "http://[::1]:8080/a",
            "ssh://git@host/a.git",
            "git@host:team/a.git",
            "host:a.git",
            "git://host/a",
            "file:///srv/a.git",
            "/srv/with space/a.git",
        ] {
            assert_eq!(problem(url, None), "", "{url}");
        }
    }

    #[test]
    fn addresses_that_run_a_program_or_hide_an_option_are_refused_without_being_shown() {
        for url in [
            "ext::sh -c touch% /tmp/x",
            "fd::17",
            "https::https://host/a",
            "--upload-pack=touch /tmp/x",
            "ssh://-oProxyCommand=touch/a",
            "ftp://me:s3cret@host/a",
            "https://host/a?token=s3cret",
            "https://me:s3%0acret@host/a",
            "a\nb:c",
            "relative/path",
            "",
        ] {
            let problem = problem(url, None);
            assert!(problem.starts_with("git.url: ") && !problem.contains("s3"), "{url}: {problem}");
        }
    }

    #[test]
    fn a_ref_is_a_name_and_nothing_else() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for wanted in ["main", "release/1.2", "v1.0.0", "refs/pull/7/head", commit, "HEAD"] {
            assert_eq!(problem("/srv/a", Some(wanted)), "", "{wanted}");
        }
        for wanted in ["--all", "main~1", "a..b", "+main:main", "a b", "", "@{-1}", ":/fix", "x*", "a/"] {
            assert!(problem("/srv/a", Some(wanted)).starts_with("git.ref: "), "{wanted}");
        }
        assert!(source("/srv/a", Some(commit)).is_commit());
        assert!(!source("/srv/a", Some("deadbeef")).is_commit(), "an abbreviation may become ambiguous");
    }

    #[test]
    fn what_stands_before_the_host_is_no_part_of_the_address() {
        let address = source("https://me:s%40cret@host:8443/team/a.git", None).address();
        assert_eq!(address.url, "https://host:8443/team/a.git");
        let login = address.login.unwrap();
        assert_eq!(login.site, "https://host:8443");
        assert_eq!((login.user.expose(), login.password.expose()), ("me", "s@cret"));
        let address = source("https://t0ken@host/a", None).address();
        assert_eq!((address.url.as_str(), address.login.unwrap().user.expose()), ("https://host/a", "t0ken"));
        let address = source("ssh://git:pass@host/a", None).address();
        assert_eq!((address.url.as_str(), address.login.is_none()), ("ssh://git@host/a", true));
        assert_eq!(source("git@host:a", None).address().url, "git@host:a");
    }
}
