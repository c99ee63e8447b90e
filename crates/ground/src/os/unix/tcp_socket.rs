//! The kernel's TCP sockets, by its own interface for that (`sock_diag`): one question for one port or one connection, whatever the
//! number of sockets of this machine.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

const BY_FAMILY: u16 = 20;
const IS_REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Length of the header of a netlink message, in bytes.
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const TCP: u8 = 6;
const LISTENS: u32 = 1 << 10;
const ANY_STATE: u32 = u32::MAX;
/// Offsets in a socket's row: of its address, and of its inode.
const ADDRESS: usize = 4;
const INODE: usize = 68;

/// The sockets that listen on a port of this machine, with their inodes.
///
/// # Errors
/// The system's: it may not have this interface.
pub fn listening_on(port: u16) -> io::Result<Vec<(SocketAddr, u64)>> {
    let netlink = open()?;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut id = [0; 48];
        write(&mut id, 0, &port.to_be_bytes());
        let rows = ask(&netlink, family as u8, DUMP, LISTENS, &id)?;
        found.extend(rows.iter().filter_map(|row| Some((address_of(row)?, inode_of(row)?))).filter(
            // Older kernels list all ports.
            |(address, _)| address.port() == port,
        ));
    }
    Ok(found)
}

/// Whether nobody has the socket at the other end of a connection within this machine: it was closed, and did not only end its half.
/// `own` and `peer` are the addresses at this end. Where the system does not tell, it is taken to be there.
pub fn peer_has_left(own: SocketAddr, peer: SocketAddr) -> bool {
    match row_of(peer, own) {
        // The kernel keeps a socket that was closed for a while, without an owner.
        Ok(row) => row.is_none_or(|row| inode_of(&row) == Some(0)),
        // A kernel without this interface says the same: it does not find the socket at this end either.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => row_of(own, peer).is_ok(),
        Err(_) => false,
    }
}

/// The row of the socket at the end `from` of a connection within this machine.
fn row_of(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Vec<u8>>> {
    let mut id = [0; 48];
    write(&mut id, 0, &from.port().to_be_bytes());
    write(&mut id, 2, &to.port().to_be_bytes());
    let family = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            write(&mut id, 4, &from.octets());
            write(&mut id, 20, &to.octets());
            libc::AF_INET
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            write(&mut id, 4, &from.octets());
            write(&mut id, 20, &to.octets());
            libc::AF_INET6
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    // No cookie of an earlier answer.
    write(&mut id, 40, &[0xff; 8]);
    Ok(ask(&open()?, family as u8, 0, ANY_STATE, &id)?.into_iter().next())
}

fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?)
}

fn write(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// The rows of the answer.
fn ask(netlink: &OwnedFd, family: u8, flags: u16, states: u32, id: &[u8; 48]) -> io::Result<Vec<Vec<u8>>> {
    let mut request = [0; REQUEST];
    write(&mut request, 0, &(REQUEST as u32).to_ne_bytes());
    write(&mut request, 4, &BY_FAMILY.to_ne_bytes());
    write(&mut request, 6, &(IS_REQUEST | flags).to_ne_bytes());
    write(&mut request, HEADER, &[family, TCP, 0, 0]);
    write(&mut request, HEADER + 4, &states.to_ne_bytes());
    write(&mut request, HEADER + 8, id);
    send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut rows = Vec::new();
    let mut answer = vec![0; 32 * 1024];
    loop {
        let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        let is_over = read(answer.get(..length).unwrap_or_default(), &mut rows)?;
        if is_over || flags & DUMP == 0 || length == 0 {
            return Ok(rows);
        }
    }
}

/// Takes the rows of a part of the answer, and returns whether it is the last one. A kernel that lacks the interface, or a module of it,
/// ends a list with `ENOENT`: by an error, or in the message that closes the list.
fn read(mut rest: &[u8], rows: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some((kind, message, after)) = first_message(rest) {
        if matches!(kind, DONE | ERROR) {
            let code = number(message, 0).map_or(0, u32::cast_signed);
            return if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(true) };
        }
        rows.push(message.to_vec());
        rest = after;
    }
    Ok(false)
}

/// The kind of a message, its content, and what is behind it.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..6)?.first_chunk()?);
    let message = bytes.get(HEADER..length)?;
    Some((kind, message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn inode_of(row: &[u8]) -> Option<u64> {
    number(row, INODE).map(u64::from)
}

fn address_of(row: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*row.get(ADDRESS..)?.first_chunk()?);
    let ip = row.get(ADDRESS + 4..)?;
    let ip: IpAddr = if i32::from(*row.first()?) == libc::AF_INET {
        Ipv4Addr::from(*ip.first_chunk::<4>()?).into()
    } else {
        Ipv6Addr::from(*ip.first_chunk::<16>()?).into()
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    fn sockets_that_listen_are_found_by_their_port() {
        for (address, expected) in
            [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "0.0.0.0"), ("[::1]:0", "::1")]
        {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let own = listener.local_addr().unwrap();
            let inode = nix::sys::stat::fstat(&listener).unwrap().st_ino;
            let found = listening_on(own.port()).unwrap();
            assert!(
                found.contains(&(SocketAddr::new(expected.parse().unwrap(), own.port()), inode)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_kernel_without_the_interface_is_no_machine_without_sockets() {
        let message = |kind: u16, code: i32| {
            let mut bytes = vec![0; HEADER];
            write(&mut bytes, 0, &(HEADER as u32 + 4).to_ne_bytes());
            write(&mut bytes, 4, &kind.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        for kind in [DONE, ERROR] {
            let error = read(&message(kind, -libc::ENOENT), &mut Vec::new()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{kind}");
        }
        let mut rows = Vec::new();
        let list = [message(BY_FAMILY, 7), message(DONE, 0)].concat();
        assert!(read(&list, &mut rows).unwrap());
        assert_eq!(rows, [7_i32.to_ne_bytes()]);
    }

    #[test]
    fn a_peer_that_ended_its_half_is_there_and_one_that_closed_has_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let (own, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        assert!(!peer_has_left(own, peer));
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert!(!peer_has_left(own, peer));
        drop(client);
        // A process that another test is starting has it until its program begins.
        while !peer_has_left(own, peer) {
            std::thread::yield_now();
        }
    }
}
