//! The address of a socket as a program passed it, in this process's own copy. PURE.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub(super) const UNSPECIFIED: u16 = 0;
pub(super) const UNIX: u16 = 1;
pub(super) const INET: u16 = 2;
pub(super) const INET6: u16 = 10;

/// The size of `struct sockaddr_storage`: the kernel takes no longer address.
pub(super) const MAX_BYTES: usize = 128;

/// An address, read from a program's memory once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An address of TCP. One that is IPv4 in the form of IPv6 is kept as IPv6.
    Inet(SocketAddr),
    /// A socket in the file system.
    Path(PathBuf),
    /// A socket with a name that is no path, or without a name.
    Abstract(Vec<u8>),
    /// Ends a connection.
    Unspecified,
    /// Another family, by its number.
    Other(u16),
}

impl Address {
    /// `None`: too short for its family.
    pub(super) fn parse(bytes: &[u8]) -> Option<Address> {
        let (family, rest) = bytes.split_first_chunk::<2>()?;
        Some(match u16::from_ne_bytes(*family) {
            UNSPECIFIED => Address::Unspecified,
            UNIX => match rest {
                [] | [0, ..] => Address::Abstract(rest.get(1..).unwrap_or_default().to_vec()),
                path => {
                    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                    Address::Path(OsString::from_vec(path[..end].to_vec()).into())
                }
            },
            INET => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
                Address::Inet(SocketAddr::new(ip.into(), u16::from_be_bytes(*port)))
            }
            INET6 => {
                let (port, rest) = rest.split_first_chunk::<2>()?;
                let (_flow, rest) = rest.split_first_chunk::<4>()?;
                let ip = Ipv6Addr::from(*rest.first_chunk::<16>()?);
                Address::Inet(SocketAddr::V6(SocketAddrV6::new(ip, u16::from_be_bytes(*port), 0, 0)))
            }
            other => Address::Other(other),
        })
    }
}

/// The bytes of an address for a system call.
pub(super) fn encode(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address.ip() {
        IpAddr::V4(ip) => [&INET.to_ne_bytes()[..], &port, &ip.octets(), &[0; 8]].concat(),
        IpAddr::V6(ip) => [&INET6.to_ne_bytes()[..], &port, &[0; 4], &ip.octets(), &[0; 4]].concat(),
    }
}

/// The address of a Unix socket for a system call. `path` is short.
pub(super) fn encode_path(path: &str) -> Vec<u8> {
    [&UNIX.to_ne_bytes()[..], path.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[&[u8]]) -> Option<Address> {
        Address::parse(&bytes.concat())
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        for text in ["127.0.0.1:80", "[::1]:443", "[::ffff:10.0.0.1]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::parse(&encode(address)), Some(Address::Inet(address)), "{text}");
        }
        assert_eq!(parsed(&[&[2, 0], &[0, 80, 127, 0]]), None, "too short");
        assert_eq!(parsed(&[&[2]]), None);
        assert_eq!(parsed(&[&[0, 0], &[0; 14]]), Some(Address::Unspecified));
        assert_eq!(parsed(&[&[16, 0], &[0; 10]]), Some(Address::Other(16)));
    }

    #[test]
    fn a_path_ends_at_its_first_nul_and_a_name_begins_with_one() {
        assert_eq!(Address::parse(&encode_path("/run/x")), Some(Address::Path("/run/x".into())));
        assert_eq!(parsed(&[&[1, 0], b"/run/x"]), Some(Address::Path("/run/x".into())));
        assert_eq!(parsed(&[&[1, 0], b"/run/x\0/y"]), Some(Address::Path("/run/x".into())));
        assert_eq!(parsed(&[&[1, 0], b"\0name"]), Some(Address::Abstract(b"name".to_vec())));
        assert_eq!(parsed(&[&[1, 0]]), Some(Address::Abstract(Vec::new())));
    }
}
