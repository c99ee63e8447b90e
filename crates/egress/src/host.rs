//! The hosts that a program may reach, as its user names them. This machine is one host by whatever name.
//!
//! | rule | reaches |
//! | --- | --- |
//! | `api.example.com` | this name, on the ports 80 and 443 |
//! | `api.example.com:8443` | this name, on this port alone |
//! | `*.example.com` | every name that ends in `.example.com`, not `example.com` itself |
//! | `localhost:5432` | this machine's own server |
//! | `10.0.0.7:8080`, `[fd00::7]` | this address, though it is private |

use crate::address::closed_to_names;
use ground::os::{is_loopback, is_own_name};
use std::net::IpAddr;

/// The ports of a rule without one.
const WEB: [u16; 2] = [80, 443];

/// A name or an address, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// In lower case, without the dot at its end.
    Name(String),
    Address(IpAddr),
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Host(Host),
    /// One or more labels before this name.
    Below(String),
}

/// The hosts that a program may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Rule>);

impl Host {
    /// `None`: neither a name nor an address.
    pub(crate) fn parse(text: &str) -> Option<Host> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Some(address) = bare {
            return address.parse().ok().map(|ip: std::net::Ipv6Addr| Host::Address(IpAddr::V6(ip)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        // A C library takes "127.1" and "0x7f.1" for addresses. No name has a last label of digits.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        (is_name(&name) && !is_number).then_some(Host::Name(name))
    }
}

impl Host {
    /// Whether both are one host.
    pub(crate) fn is_same(&self, other: &Host) -> bool {
        self == other || (self.is_local() && other.is_local())
    }

    /// Checks the name that a first message of TLS asks for.
    ///
    /// # Errors
    /// The problem, in words: another host, or none, is named.
    pub(crate) fn check_tls(&self, named: Option<&str>) -> Result<(), String> {
        match named {
            // Older clients send an address as a name.
            Some(name) if Host::parse(name).is_some_and(|name| self.is_same(&name)) => Ok(()),
            Some(name) => Err(format!("its TLS asks for {name:?}")),
            None if matches!(self, Host::Address(_)) || self.is_local() => Ok(()),
            None => Err("its TLS names no host".to_owned()),
        }
    }

    /// This machine itself.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Host::Name(name) => is_own_name(name),
            Host::Address(address) => is_loopback(*address),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Name(name) => formatter.write_str(name),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
            Host::Address(address) => write!(formatter, "{address}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A host and a port, from "host:port". `None`: one of them is missing or wrong.
pub(crate) fn split_port(text: &str) -> Option<(Host, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || (host.contains(':') && !host.starts_with('[')) {
        return None;
    }
    Some((Host::parse(host)?, port.parse().ok()?))
}

/// The same, with the port that a scheme has by itself.
pub(crate) fn with_port(text: &str, port: u16) -> Option<(Host, u16)> {
    split_port(text).or_else(|| Some((Host::parse(text)?, port)))
}

impl Rule {
    /// # Errors
    /// The problem, in words.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let problem = |problem: &str| format!("{problem}, got {text:?}");
        const EXPECTED: &str =
            "expected a host such as \"api.example.com\", \"*.example.com\" or \"localhost:5432\"";
        if text.contains("://") || text.contains('/') || text.contains('@') {
            return Err(problem("expected a host without a scheme and a path"));
        }
        let (host, port) = match text.rsplit_once(':') {
            // An address of IPv6 without brackets.
            Some((before, _)) if before.contains(':') && !before.starts_with('[') => (text, None),
            Some((before, after)) if !after.ends_with(']') => match after.parse::<u16>() {
                Ok(port) if port > 0 && after.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (before, Some(port))
                }
                _ => return Err(problem("expected a port from 1 to 65535 after the host")),
            },
            _ => (text, None),
        };
        let pattern = match host.strip_prefix("*.") {
            Some(below) => match Host::parse(below) {
                Some(host @ Host::Name(_)) if host.is_local() => {
                    return Err(problem(
                        "expected this machine by one of its names, such as \"localhost:5432\"",
                    ));
                }
                Some(Host::Name(name)) if name.contains('.') => Pattern::Below(format!(".{name}")),
                _ => return Err(problem("expected a name of at least two parts after \"*.\"")),
            },
            None => Pattern::Host(Host::parse(host).ok_or_else(|| problem(EXPECTED))?),
        };
        let is_own = matches!(&pattern, Pattern::Host(host @ Host::Name(_)) if host.is_local());
        if is_own && port.is_none() {
            let problem = format!("expected a port after \"{host}\", such as \"{host}:5432\", got {text:?}");
            return Err(problem);
        }
        Ok(Rule { pattern, port })
    }

    fn takes_port(&self, port: u16) -> bool {
        self.port.map_or(WEB.contains(&port), |own| own == port)
    }

    fn takes(&self, host: &Host, port: u16) -> bool {
        let is_host = match (&self.pattern, host) {
            (Pattern::Host(own), host) => own.is_same(host),
            // This machine's own name may end so, too. Its servers are reached where they are listed.
            (Pattern::Below(end), Host::Name(name)) => {
                name.len() > end.len() && name.ends_with(end) && !host.is_local()
            }
            (Pattern::Below(_), Host::Address(_)) => false,
        };
        is_host && self.takes_port(port)
    }
}

/// How a request's bytes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// TLS alone.
    Secure,
    /// Any protocol: the rule names the port, and it is none of the web's.
    Any,
}

impl Hosts {
    pub fn new(rules: Vec<Rule>) -> Hosts {
        Hosts(rules)
    }

    pub(crate) fn add(&mut self, other: &Hosts) {
        self.0.extend(other.0.iter().cloned());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `None`: the host is not listed.
    pub(crate) fn way(&self, host: &Host, port: u16) -> Option<Way> {
        let mut found = self.0.iter().filter(|rule| rule.takes(host, port)).peekable();
        found.peek()?;
        let is_free = found.any(|rule| rule.port.is_some_and(|port| !WEB.contains(&port)));
        Some(if is_free { Way::Any } else { Way::Secure })
    }

    /// Whether a host that is listed may be reached at an address that its name stands for. `Err`: the kind of address that no name leads
    /// to, unless the address is listed itself.
    pub(crate) fn check_address(&self, host: &Host, ip: IpAddr, port: u16) -> Result<(), &'static str> {
        let ip = ip.to_canonical();
        let Some(kind) = closed_to_names(ip) else { return Ok(()) };
        let is_own = host.is_local() && ip.is_loopback();
        let is_listed = self.0.iter().any(|rule| rule.takes(&Host::Address(ip), port));
        if is_own || is_listed { Ok(()) } else { Err(kind) }
    }

    /// This machine's own servers that are listed.
    pub(crate) fn local(&self) -> Vec<(Host, u16)> {
        let local = |rule: &Rule| match &rule.pattern {
            Pattern::Host(host) if host.is_local() => Some((host.clone(), rule.port?)),
            _ => None,
        };
        self.0.iter().filter_map(local).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(rules: &[&str]) -> Hosts {
        Hosts::new(rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect())
    }

    fn allows(rule: &str, host: &str, port: u16) -> bool {
        Host::parse(host).is_some_and(|host| hosts(&[rule]).way(&host, port).is_some())
    }

    #[test]
    fn a_rule_reaches_what_it_names_and_no_more() {
        for (rule, host, port, expected) in [
            ("api.example.com", "api.example.com", 443, true),
            ("api.example.com", "API.Example.COM.", 80, true),
            ("API.example.com", "api.example.com", 443, true),
            ("api.example.com", "api.example.com", 8443, false),
            ("api.example.com", "xapi.example.com", 443, false),
            ("api.example.com", "api.example.com.evil.org", 443, false),
            ("api.example.com", "example.com", 443, false),
            ("api.example.com:8443", "api.example.com", 8443, true),
            ("api.example.com:8443", "api.example.com", 443, false),
            ("*.example.com", "a.example.com", 443, true),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", ".example.com", 443, false),
            ("*.example.com", "aexample.com", 443, false),
            ("*.example.com", "example.com.evil.org", 443, false),
            ("*.example.com:443", "a.example.com", 80, false),
            ("localhost:5432", "localhost", 5432, true),
            ("localhost:5432", "localhost", 80, false),
            // This machine is one host.
            ("localhost:5432", "127.0.0.1", 5432, true),
            ("localhost:5432", "[::1]", 5432, true),
            ("127.0.0.2:5432", "0.0.0.0", 5432, true),
            ("[::1]:5432", "db.localhost", 5432, true),
            ("[::1]:5432", "127.0.0.1", 5433, false),
            ("localhost:5432", "10.0.0.7", 5432, false),
            ("10.0.0.7:8080", "10.0.0.7", 8080, true),
            ("10.0.0.7", "10.0.0.8", 80, false),
            ("[fd00::7]:80", "[fd00::7]", 80, true),
            ("fd00::7", "fd00::7", 443, true),
        ] {
            assert_eq!(allows(rule, host, port), expected, "{rule} {host} {port}");
        }
        assert!(Hosts::default().way(&Host::Name("a.example".into()), 443).is_none());
        // A machine's own name may lie below a name that is listed.
        let below = Rule { pattern: Pattern::Below(".app.localhost".into()), port: None };
        assert!(Hosts(vec![below]).way(&Host::Name("own.app.localhost".into()), 80).is_none());
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.com",
            "*.",
            "a b",
            "http://a.example",
            "a.example/path",
            "user@a.example",
            "a.example:0",
            "a.example:http",
            "a.example:99999",
            "a.example:+80",
            "a..b",
            "localhost",
            "*.10.0.0.1",
            "*.localhost:80",
            "*.app.localhost:3000",
            "bücher.example",
            ":443",
            "127.1",
            "0x7f.1",
            "[::1",
            "a.example:",
        ] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_with_its_port_is_read_in_one_way() {
        let name = |name: &str| Host::Name(name.into());
        assert_eq!(split_port("a.example:443"), Some((name("a.example"), 443)));
        assert_eq!(split_port("[::1]:1"), Some((Host::Address("::1".parse().unwrap()), 1)));
        for text in [
            "a.example",
            "a.example:",
            "a.example:+1",
            "a.example:65536",
            "::1:1",
            "a:b:1",
            "user@a.example:1",
            "[a]:1",
        ] {
            assert_eq!(split_port(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_leads_to_no_private_address_that_is_not_listed() {
        let name = Host::Name("a.example".into());
        let check = |rules: &[&str], host: &Host, ip: &str| {
            hosts(rules).check_address(host, ip.parse().unwrap(), 443).is_ok()
        };
        assert!(check(&["a.example"], &name, "93.184.216.34"));
        for private in
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1", "0.0.0.0"]
        {
            assert!(!check(&["a.example"], &name, private), "{private}");
        }
        assert!(check(&["a.example", "10.0.0.1"], &name, "10.0.0.1"));
        assert!(check(&["a.example", "10.0.0.1"], &name, "::ffff:10.0.0.1"));
        assert!(!check(&["a.example", "10.0.0.1:80"], &name, "10.0.0.1"));
        let local = Host::Name("localhost".into());
        assert!(check(&["localhost:443"], &local, "127.0.0.1"));
        assert!(!check(&["localhost:443"], &local, "10.0.0.1"));
    }

    #[test]
    fn another_protocol_needs_its_port() {
        let host = Host::Name("a.example".into());
        let way = |rules: &[&str], port| hosts(rules).way(&host, port);
        assert_eq!(way(&["a.example"], 443), Some(Way::Secure));
        assert_eq!(way(&["a.example:443"], 443), Some(Way::Secure));
        assert_eq!(way(&["a.example:22"], 22), Some(Way::Any));
        let local = hosts(&["localhost:5432", "127.0.0.1:6379", "a.example:22"]).local();
        assert_eq!(local.iter().map(|(_, port)| *port).collect::<Vec<_>>(), [5432, 6379]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_a_wildcard_takes_names_below_it_alone(text in ".{0,40}", port: u16) {
            let _ = (Rule::parse(&text), split_port(&text));
            let taken = allows("*.example.com", &text, port);
            let lower = text.to_ascii_lowercase();
            let name = lower.strip_suffix('.').unwrap_or(&lower);
            prop_assert!(!taken || (name.ends_with(".example.com") && WEB.contains(&port)));
        }

        #[test]
        fn a_rule_is_kept_by_what_it_shows(name in "[a-z]{1,9}(\\.[a-z]{1,9}){1,3}", port in 1u16..) {
            let host = Host::parse(&name).unwrap();
            prop_assert_eq!(host.to_string(), name.clone());
            let rule = format!("{name}:{port}");
            prop_assert!(allows(&rule, &name, port));
            prop_assert_eq!(split_port(&rule), Some((host, port)));
        }
    }
}
