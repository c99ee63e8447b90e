//! Where no interface tells of sockets, nobody asks for listening ones, and the other end of a connection is taken to be there.

use std::net::SocketAddr;

pub fn peer_has_left(_: SocketAddr, _: SocketAddr) -> bool {
    false
}
