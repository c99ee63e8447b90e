//! The decision about a connection, by its address.

use super::address::Address;
use ground::os::{is_loopback, is_own_address};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The ways out of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub tcp: Tcp,
    /// Unix sockets that may be connected to: files, and folders with everything below. Real paths.
    pub sockets: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    Nothing,
    /// These ports of any host.
    Ports(Vec<u16>),
    /// The gate's port and these ports of this machine, and those that the tree itself listens on. A connection to the first port of a
    /// redirect goes to the second one. The tree listens on none of the ports that are named here: the gate would take it for the listed server, and
    /// send it that server's secrets.
    Loopback {
        gate: Option<u16>,
        ports: Vec<u16>,
        redirects: Vec<(u16, u16)>,
    },
}

/// The decision about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Connect(SocketAddr),
    /// Allowed if every process that listens there belongs to the tree. A server of the tree listens on loopback, whatever address it
    /// asked for. So it is also looked for at the second address.
    ConnectIfOwn(SocketAddr, SocketAddr),
    /// Allowed if the file is one that [`Rules::allows_socket`] allows.
    Look(PathBuf),
    Disconnect,
    Refuse(Target),
}

/// The target of a refused connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Host(SocketAddr),
    /// An abstract name.
    Name(Vec<u8>),
    /// A family that no program in a sandbox can have a socket of.
    Family(u16),
}

impl Rules {
    pub(super) fn on_connect(&self, address: Address) -> Verdict {
        let address = match address {
            Address::Inet(address) => address,
            Address::Path(path) => return Verdict::Look(path),
            Address::Abstract(name) => return Verdict::Refuse(Target::Name(name)),
            Address::Unspecified => return Verdict::Disconnect,
            Address::Other(family) => return Verdict::Refuse(Target::Family(family)),
        };
        // To the kernel, the address that stands for all of a machine's own is its loopback address.
        let target = SocketAddr::new(loopback_of(address.ip()), address.port());
        match &self.tcp {
            Tcp::Ports(ports) if ports.contains(&target.port()) => Verdict::Connect(target),
            Tcp::Loopback { gate, ports, redirects } if is_loopback(target.ip()) => {
                let redirect = redirects.iter().find(|(from, _)| *from == target.port());
                if let Some((_, to)) = redirect {
                    Verdict::Connect(SocketAddr::new(four_of(target.ip()), *to))
                } else if ports.contains(&target.port()) || *gate == Some(target.port()) {
                    Verdict::Connect(target)
                } else {
                    Verdict::ConnectIfOwn(target, SocketAddr::new(four_of(target.ip()), target.port()))
                }
            }
            // An address of another interface of this machine: of its servers, the tree's own are meant.
            Tcp::Loopback { .. } if is_own_address(target.ip()) => {
                Verdict::ConnectIfOwn(target, SocketAddr::new(four_of(target.ip()), target.port()))
            }
            _ => Verdict::Refuse(Target::Host(SocketAddr::new(target.ip().to_canonical(), target.port()))),
        }
    }

    /// Whether the port is another server's: nobody in the tree may listen on it, at whatever address.
    pub(super) fn is_reserved(&self, port: u16) -> bool {
        let Tcp::Loopback { gate, ports, redirects } = &self.tcp else { return false };
        ports.contains(&port)
            || *gate == Some(port)
            || redirects.iter().any(|(from, to)| *from == port || *to == port)
    }

    /// Whether a connection to this port is one to the gate.
    pub(super) fn is_gate(&self, port: u16) -> bool {
        matches!(&self.tcp, Tcp::Loopback { gate, .. } if *gate == Some(port))
    }

    /// `place`: the real path of the socket.
    pub(super) fn allows_socket(&self, place: &Path) -> bool {
        self.sockets.iter().any(|allowed| place.starts_with(allowed))
    }
}

/// The address to bind to in place of the one that was asked for: a server of the tree is reached from this machine only. `None`: it is
/// an address of another interface.
pub(super) fn to_bind(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        // A socket for both versions of IP is mostly reached by IPv4.
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
        ip => loopback_of(ip),
    };
    is_loopback(ip).then(|| SocketAddr::new(ip, address.port()))
}

/// The loopback address of IPv4, in the form of IPv6 for a socket of that.
fn four_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
    }
}

/// In place of "any address": loopback, in the same form.
fn loopback_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if ip.to_canonical().is_unspecified() && v6.to_ipv4_mapped().is_some() => {
            Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(tcp: Tcp, address: &str) -> Verdict {
        let rules = Rules { tcp, sockets: Vec::new() };
        rules.on_connect(Address::Inet(address.parse().unwrap()))
    }

    #[test]
    fn with_hosts_loopback_alone_is_reached() {
        let loopback = || Tcp::Loopback { gate: None, ports: vec![5432], redirects: Vec::new() };
        let to = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (asked, reached) in [
            ("127.0.0.1:5432", "127.0.0.1:5432"),
            ("127.9.9.9:5432", "127.9.9.9:5432"),
            ("0.0.0.0:5432", "127.0.0.1:5432"),
            ("[::1]:5432", "[::1]:5432"),
            ("[::]:5432", "[::1]:5432"),
            ("[::ffff:127.0.0.1]:5432", "[::ffff:127.0.0.1]:5432"),
            ("[::ffff:0.0.0.0]:5432", "[::ffff:127.0.0.1]:5432"),
        ] {
            assert_eq!(on(loopback(), asked), Verdict::Connect(to(reached)), "{asked}");
            let other = asked.replace("5432", "5433");
            let reached = to(&reached.replace("5432", "5433"));
            let four = match reached {
                SocketAddr::V4(_) => to("127.0.0.1:5433"),
                SocketAddr::V6(_) => to("[::ffff:127.0.0.1]:5433"),
            };
            assert_eq!(on(loopback(), &other), Verdict::ConnectIfOwn(reached, four), "{other}");
        }
        for outside in [
            "10.0.0.1:5432",
            "169.254.169.254:80",
            "1.1.1.1:443",
            "[::ffff:10.0.0.1]:5432",
            "[fe80::1]:5432",
            "[::2]:5432",
        ] {
            assert!(matches!(on(loopback(), outside), Verdict::Refuse(Target::Host(_))), "{outside}");
        }
    }

    #[test]
    fn a_connection_to_a_server_that_is_looked_into_goes_to_the_gate() {
        let tcp = || Tcp::Loopback { gate: Some(7), ports: vec![8080], redirects: vec![(8080, 9000)] };
        for (asked, reached) in [
            ("127.0.0.1:8080", "127.0.0.1:9000"),
            ("127.0.0.5:8080", "127.0.0.1:9000"),
            ("0.0.0.0:8080", "127.0.0.1:9000"),
            ("[::1]:8080", "[::ffff:127.0.0.1]:9000"),
            ("[::ffff:127.0.0.1]:8080", "[::ffff:127.0.0.1]:9000"),
        ] {
            assert_eq!(on(tcp(), asked), Verdict::Connect(reached.parse().unwrap()), "{asked}");
        }
        assert!(matches!(on(tcp(), "127.0.0.1:9000"), Verdict::ConnectIfOwn(..)));
        assert!(matches!(on(tcp(), "10.0.0.1:8080"), Verdict::Refuse(_)));
    }

    #[test]
    fn a_listed_port_is_another_server_s() {
        let reserved = |tcp: Tcp, port| Rules { tcp, sockets: Vec::new() }.is_reserved(port);
        let tcp = || Tcp::Loopback { gate: Some(7), ports: vec![5432], redirects: vec![(8080, 9000)] };
        for (port, expected) in
            [(5432, true), (7, true), (8080, true), (9000, true), (5433, false), (0, false)]
        {
            assert_eq!(reserved(tcp(), port), expected, "{port}");
        }
        // These ports are those of other machines.
        assert!(!reserved(Tcp::Ports(vec![443]), 443));
    }

    #[test]
    fn ports_are_of_any_host_and_nothing_is_nothing() {
        assert!(matches!(on(Tcp::Ports(vec![443]), "1.1.1.1:443"), Verdict::Connect(_)));
        for tcp in [Tcp::Ports(vec![443]), Tcp::Nothing] {
            assert!(matches!(on(tcp.clone(), "1.1.1.1:80"), Verdict::Refuse(_)));
            assert!(matches!(on(tcp, "127.0.0.1:80"), Verdict::Refuse(_)));
        }
    }

    #[test]
    fn what_is_no_tcp_is_refused_or_looked_at() {
        let rules = Rules { tcp: Tcp::Ports(vec![1]), sockets: vec!["/work".into(), "/run/x.sock".into()] };
        assert_eq!(rules.on_connect(Address::Path("/a".into())), Verdict::Look("/a".into()));
        assert!(matches!(rules.on_connect(Address::Abstract(Vec::new())), Verdict::Refuse(_)));
        assert!(matches!(rules.on_connect(Address::Other(16)), Verdict::Refuse(_)));
        assert_eq!(rules.on_connect(Address::Unspecified), Verdict::Disconnect);
        for (place, allowed) in [
            ("/work/a.sock", true),
            ("/work/deep/a", true),
            ("/run/x.sock", true),
            ("/workshop/a", false),
            ("/run/docker.sock", false),
            ("/", false),
        ] {
            assert_eq!(rules.allows_socket(Path::new(place)), allowed, "{place}");
        }
    }

    #[test]
    fn servers_are_on_loopback() {
        for (asked, bound) in [
            ("0.0.0.0:80", Some("127.0.0.1:80")),
            ("127.0.0.2:80", Some("127.0.0.2:80")),
            ("[::]:0", Some("[::ffff:127.0.0.1]:0")),
            ("[::1]:9", Some("[::1]:9")),
            ("10.0.0.1:80", None),
            ("[fe80::1]:80", None),
        ] {
            let bound = bound.map(|bound| bound.parse().unwrap());
            assert_eq!(to_bind(asked.parse().unwrap()), bound, "{asked}");
        }
    }
}
