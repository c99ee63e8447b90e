//! The identity of this machine: the names and the addresses by which its own servers are reached. The proxy of a sandbox, its filter and the
//! variables of its programs ask here, so that one server is one server by whatever name it is asked for.

use super::system::machine::machine_name;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::OnceLock;

/// Names that a system gives to loopback.
const LOOPBACK: [&str; 6] =
    ["localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"];
/// Each name below it is loopback, too (RFC 6761).
const BELOW: &str = ".localhost";

/// The names of this machine, in lower case: those of loopback first, then its own name, and that without its domain.
pub fn own_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let own = machine_name().unwrap_or_default().trim().to_ascii_lowercase();
        let short = own.split('.').next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = LOOPBACK.map(str::to_owned).into();
        for name in [own, short] {
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    })
}

/// Whether a name is this machine's.
pub fn is_own_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    own_names().contains(&name) || (name.ends_with(BELOW) && name.len() > BELOW.len())
}

/// Whether a connection to this address goes to loopback. The address that stands for all of a machine's own does.
pub fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

/// Whether this is an address of this machine, of whatever interface.
pub fn is_own_address(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    if is_loopback(ip) {
        return true;
    }
    // Nobody else's address can be bound to.
    !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST) && UdpSocket::bind((ip, 0)).is_ok()
}

/// A list for `NO_PROXY` and its like: programs reach this machine's servers without a proxy.
pub fn without_proxy() -> String {
    // As they are written, and as clients write them anew.
    let mapped = ["::ffff:127.0.0.1", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "[::ffff:7f00:1]"];
    let addresses =
        ["127.0.0.1", "127.0.0.0/8", "::1", "[::1]", "0.0.0.0"].into_iter().chain(mapped).map(str::to_owned);
    let names = own_names().iter().cloned().chain([BELOW.to_owned()]);
    names.chain(addresses).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        let own = machine_name().unwrap_or_default().trim().to_uppercase();
        for name in ["localhost", "LOCALHOST", "a.b.localhost", "ip6-localhost", own.as_str()] {
            assert!(is_own_name(name), "{name}");
        }
        for name in ["localhost.example", "notlocalhost", ".localhost", "", "example.com"] {
            assert!(!is_own_name(name), "{name}");
        }
        for address in
            ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"]
        {
            let ip = address.parse().unwrap();
            assert!(is_loopback(ip) && is_own_address(ip), "{address}");
        }
        for address in ["192.0.2.1", "224.0.0.1", "255.255.255.255", "2001:db8::1", "ff02::1"] {
            let ip = address.parse().unwrap();
            assert!(!is_loopback(ip) && !is_own_address(ip), "{address}");
        }
        let list = without_proxy();
        assert!(list.starts_with("localhost,") && !list.contains(",,") && !list.contains(' '), "{list}");
    }
}
