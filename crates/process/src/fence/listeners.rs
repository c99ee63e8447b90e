//! The listening sockets of a tree, and which process answers on a port of this machine.

use ground::lock::lock;
use ground::os::listening_on;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;

/// More listening sockets of one tree at once than this are not remembered, so they are not connected to.
const MOST: usize = 4096;
/// The kernel's lists of TCP sockets. Those that listen come first.
const LISTS: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Inodes of the tree's listening sockets. A socket that was closed stays here until there are too many: its number is not given to another
/// socket before all other numbers were.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashSet<u64>>);

/// The owner of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    /// Every socket that may answer is the tree's.
    Tree,
    Other,
}

impl Listeners {
    pub(super) fn add(&self, inode: u64) {
        let mut inodes = lock(&self.0);
        if inodes.len() >= MOST {
            let there: HashSet<u64> = listening().map(|row| row.inode).collect();
            inodes.retain(|inode| there.contains(inode));
        }
        if inodes.len() < MOST {
            inodes.insert(inode);
        }
    }

    /// The process that answers at an address of this machine.
    pub(super) fn owner(&self, address: SocketAddr) -> Owner {
        // The lists take as long as there are sockets. Some kernels have nothing else.
        let rows: Vec<Row> = match listening_on(address.port()) {
            Ok(rows) => rows.into_iter().map(|(address, inode)| Row { address, inode }).collect(),
            Err(_) => listening().collect(),
        };
        let found: Vec<Row> = rows.into_iter().filter(|row| row.answers(address)).collect();
        self.owner_among(&found)
    }

    fn owner_among(&self, rows: &[Row]) -> Owner {
        let own = lock(&self.0);
        match rows {
            [] => Owner::Nobody,
            rows if rows.iter().all(|row| own.contains(&row.inode)) => Owner::Tree,
            _ => Owner::Other,
        }
    }
}

/// All sockets of this machine that listen.
fn listening() -> impl Iterator<Item = Row> {
    // Without IPv6 there is no second list.
    let lists = LISTS.iter().filter_map(|list| File::open(list).ok());
    lists.flat_map(|list| {
        let lines = BufReader::new(list).lines().skip(1).map_while(Result::ok);
        lines.map_while(|line| Row::parse(&line))
    })
}

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    address: SocketAddr,
    inode: u64,
}

impl Row {
    /// `None`: a socket that does not listen, or no row of the list.
    fn parse(line: &str) -> Option<Row> {
        const LISTENS: &str = "0A";
        let mut fields = line.split_ascii_whitespace();
        let (host, port) = fields.nth(1)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        fields.next()?;
        if fields.next()? != LISTENS {
            return None;
        }
        // Each group of eight digits is a word of the address as the processor reads it.
        let word = |at: usize| u32::from_str_radix(host.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
        let ip: IpAddr = match host.len() {
            8 => Ipv4Addr::from(word(0)?).into(),
            32 => {
                let mut octets = [0; 16];
                for (part, at) in octets.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                    part.copy_from_slice(&word(at)?);
                }
                Ipv6Addr::from(octets).into()
            }
            _ => return None,
        };
        // After the state: queues, timer, retransmits, user, timeout.
        let inode = fields.nth(5)?.parse().ok()?;
        Some(Row { address: SocketAddr::new(ip, port), inode })
    }

    fn answers(&self, address: SocketAddr) -> bool {
        let (own, asked) = (self.address.ip().to_canonical(), address.ip().to_canonical());
        // A socket of IPv6 that stands for all addresses may answer for IPv4 too.
        let stands_for_it = own.is_unspecified() && (own.is_ipv6() || asked.is_ipv4());
        self.address.port() == address.port() && (own == asked || stands_for_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn rows_are_read_until_one_does_not_listen() {
        let listens = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        let row = Row::parse(listens).unwrap();
        assert_eq!((row.address, row.inode), ("127.0.0.1:8080".parse().unwrap(), 4711));
        assert_eq!(Row::parse(&listens.replace(" 0A ", " 01 ")), None);
        let six = listens.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(Row::parse(&six).unwrap().address, "[::1]:8080".parse().unwrap());
        for line in ["", "sl local_address", "0: 0100007F 0", "0: 01:1 0:0 0A"] {
            assert_eq!(Row::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_socket_that_may_answer_counts() {
        let row = |address: &str| Row { address: address.parse().unwrap(), inode: 1 };
        let answers = |own: &str, asked: &str| row(own).answers(asked.parse().unwrap());
        assert!(answers("0.0.0.0:80", "127.0.0.1:80"));
        assert!(answers("[::]:80", "127.0.0.1:80"));
        assert!(answers("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(answers("127.0.0.1:80", "[::ffff:127.0.0.1]:80"));
        assert!(!answers("127.0.0.2:80", "127.0.0.1:80"));
        assert!(!answers("0.0.0.0:80", "[::1]:80"));
        assert!(!answers("127.0.0.1:81", "127.0.0.1:80"));
    }

    #[test]
    fn a_port_is_the_trees_when_every_socket_on_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inode = nix::sys::stat::fstat(listener.as_fd()).unwrap().st_ino;
        let listeners = Listeners::default();
        assert_eq!(listeners.owner(address), Owner::Other);
        listeners.add(inode);
        assert_eq!(listeners.owner(address), Owner::Tree);
        let rows = [inode, inode + 1].map(|inode| Row { address, inode });
        assert_eq!(listeners.owner_among(&rows), Owner::Other);
        drop(listener);
        // A process that another test is starting has it until its program begins.
        while listeners.owner(address) == Owner::Tree {
            std::thread::yield_now();
        }
        assert_eq!(listeners.owner(address), Owner::Nobody);
    }

    #[test]
    fn sockets_that_were_closed_take_no_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = nix::sys::stat::fstat(listener.as_fd()).unwrap().st_ino;
        let listeners = Listeners::default();
        listeners.add(inode);
        // Numbers that no socket has.
        for closed in 0..2 * MOST as u64 {
            listeners.add(u64::MAX - closed);
        }
        let later = TcpListener::bind("127.0.0.1:0").unwrap();
        listeners.add(nix::sys::stat::fstat(later.as_fd()).unwrap().st_ino);
        for listener in [listener, later] {
            assert_eq!(listeners.owner(listener.local_addr().unwrap()), Owner::Tree);
        }
        assert!(lock(&listeners.0).len() <= MOST);
    }
}
