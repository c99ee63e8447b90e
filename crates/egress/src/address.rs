//! Addresses that no public name stands for. PURE.
//!
//! A name's owner decides where it leads. Without this check, a listed name could lead to a server of the user's own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address that a name may not lead to; `None`: a public one.
pub(crate) fn closed_to_names(ip: IpAddr) -> Option<&'static str> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => closed_four(ip),
        IpAddr::V6(ip) => closed_six(ip),
    }
}

fn closed_four(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = ip.octets();
    Some(match (a, b, c) {
        // Azure's, for its machines.
        (168, 63, 129) if d == 16 => "a metadata address",
        (0, ..) => "an unspecified address",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local or metadata address",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "a shared address",
        (192, 0, 0) | (198, 18..=19, _) | (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => {
            "a reserved address"
        }
        (224.., ..) => "a multicast or reserved address",
        _ => return None,
    })
}

fn closed_six(ip: Ipv6Addr) -> Option<&'static str> {
    let four = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // An address of IPv4 in an address of IPv6: compatible, translated (SIIT, NAT64), 6to4.
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => closed_four(four(high, low)),
        [0x2002, high, low, ..] => closed_four(four(high, low)),
        [0x64, 0xff9b, 1, ..] => Some("a private address"),
        // Teredo hides the address that it leads to.
        [0x2001, 0, ..] | [0x2001, 0xdb8, ..] => Some("a reserved address"),
        [first, ..] if first & 0xfe00 == 0xfc00 => Some("a private address"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("a link-local address"),
        [first, ..] if first & 0xffc0 == 0xfec0 => Some("a private address"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("a multicast or reserved address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_networks_that_are_not_public_are_closed() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "168.63.129.16",
            "127.0.0.1",
            "127.255.255.255",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "::ffff:0:7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "192.0.2.1",
        ] {
            assert!(closed_to_names(text.parse().unwrap()).is_some(), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_open() {
        for text in [
            "1.1.1.1",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "64:ff9b::101:101",
            "2002:101:101::",
            "::ffff:1.1.1.1",
        ] {
            assert_eq!(closed_to_names(text.parse().unwrap()), None, "{text}");
        }
    }
}
