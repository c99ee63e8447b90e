//! The hosts that a program may reach, its secrets, and the hosts that are looked into. PURE.

use crate::host::{Host, Hosts, Way};
use crate::secret::Secrets;

/// The ways out of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub(crate) hosts: Hosts,
    pub(crate) secrets: Secrets,
    /// Hosts whose answers are metered, besides those with a secret.
    pub(crate) metered: Hosts,
}

impl Access {
    /// The hosts of a secret are listed by it.
    pub fn new(mut hosts: Hosts, secrets: Secrets, metered: Hosts) -> Access {
        for secret in secrets.iter() {
            hosts.add(secret.hosts());
        }
        Access { hosts, secrets, metered }
    }

    /// `None`: the host is not listed.
    pub(crate) fn way(&self, host: &Host, port: u16) -> Option<Way> {
        self.hosts.way(host, port)
    }

    /// Whether requests to this host are looked into.
    pub(crate) fn looks_into(&self, host: &Host, port: u16) -> bool {
        self.secrets.has_for(host, port) || self.metered.way(host, port).is_some()
    }

    /// Whether there is a host that is looked into.
    pub(crate) fn looks_into_any(&self) -> bool {
        !self.secrets.is_empty() || !self.metered.is_empty()
    }

    /// Ports of this machine that the program may connect to by itself.
    pub fn direct_ports(&self) -> Vec<u16> {
        self.local(false).into_iter().map(|(_, port)| port).collect()
    }

    /// This machine's own servers that are listed, and that are looked into or not.
    pub(crate) fn local(&self, is_seen: bool) -> Vec<(Host, u16)> {
        let all = self.hosts.local().into_iter();
        all.filter(|(host, port)| self.looks_into(host, *port) == is_seen).collect()
    }

    /// This machine's own server that is looked into, by the name that its rule has: its certificate may be for no other one.
    pub(crate) fn local_host(&self, host: Host, port: u16) -> Host {
        if !host.is_local() {
            return host;
        }
        let seen = self.local(true).into_iter().find(|(_, own)| *own == port);
        seen.map_or(host, |(own, _)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Rule;
    use crate::secret::Secret;

    fn hosts(rules: &[&str]) -> Hosts {
        Hosts::new(rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect())
    }

    fn access(listed: &[&str], secret: &[&str], metered: &[&str]) -> Access {
        let rules = secret.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let secret = Secret::new("KEY", "0123456789", None, rules, "abcdefghijklmnop").unwrap();
        Access::new(hosts(listed), Secrets::new(vec![secret]).unwrap(), hosts(metered))
    }

    #[test]
    fn hosts_of_a_secret_are_listed_and_looked_into() {
        let access = access(&["a.example"], &["b.example"], &["c.example"]);
        for (name, listed, seen) in [
            ("a.example", true, false),
            ("b.example", true, true),
            ("c.example", false, true),
            ("d.example", false, false),
        ] {
            let host = Host::parse(name).unwrap();
            assert_eq!(
                (access.way(&host, 443).is_some(), access.looks_into(&host, 443)),
                (listed, seen),
                "{name}"
            );
        }
    }

    #[test]
    fn a_server_of_this_machine_that_is_looked_into_is_not_reached_directly() {
        // The addresses that stand for all of a machine's own.
        let any = access(&["0.0.0.0:4"], &["0.0.0.0:5", "[::]:6"], &[]);
        assert_eq!((any.direct_ports(), any.local(true).len()), (vec![4], 2));
        let access =
            access(&["localhost:1", "localhost:2", "127.0.0.1:3"], &["localhost:2"], &["127.0.0.1:3"]);
        assert_eq!(access.direct_ports(), [1]);
        let seen: Vec<u16> = access.local(true).into_iter().map(|(_, port)| port).collect();
        assert_eq!(seen, [2, 3, 2]);
        let by_address = Host::parse("127.0.0.1").unwrap();
        assert_eq!(access.local_host(by_address.clone(), 2), Host::parse("localhost").unwrap());
        assert_eq!(access.local_host(by_address.clone(), 1), by_address);
    }
}
