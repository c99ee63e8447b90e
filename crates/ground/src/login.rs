//! PURE: the login before the host in an address: separated from the address, so that no output shows it.

use crate::percent;
use crate::redaction::Secret;

#[derive(Clone, Debug)]
pub struct Login {
    pub user: Secret,
    /// A user without one may be a token.
    pub password: Option<Secret>,
}

/// The address without its login, and that. `scheme://` may be left out.
pub fn part(address: &str) -> (String, Option<Login>) {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((who, host)) = authority.rsplit_once('@') else { return (address.to_owned(), None) };
    let (user, password) = match who.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (who, None),
    };
    let secret = |text: &str| Secret::new(percent::decoded(text));
    (format!("{scheme}{host}{path}"), Some(Login { user: secret(user), password: password.map(secret) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(address: &str) -> (String, Option<(String, Option<String>)>) {
        let (plain, login) = part(address);
        let told = |login: Login| {
            (login.user.expose().to_owned(), login.password.map(|password| password.expose().to_owned()))
        };
        (plain, login.map(told))
    }

    #[test]
    fn what_stands_before_the_host_is_no_part_of_the_address() {
        let login = |user: &str, password: Option<&str>| Some((user.to_owned(), password.map(str::to_owned)));
        for (address, plain, expected) in [
            ("https://me:s%40cret@host:8443/a.git", "https://host:8443/a.git", login("me", Some("s@cret"))),
            ("nats://t0ken@host", "nats://host", login("t0ken", None)),
            ("me:a@b@host:4222", "host:4222", login("me", Some("a@b"))),
            ("nats://host:4222", "nats://host:4222", None),
            ("https://host/a@b", "https://host/a@b", None),
            ("https://me:50%@host", "https://host", login("me", Some("50%"))),
        ] {
            assert_eq!(parted(address), (plain.to_owned(), expected), "{address}");
        }
    }
}
