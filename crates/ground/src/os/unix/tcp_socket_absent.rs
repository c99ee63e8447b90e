//! For systems without an interface that lists sockets: listening ones are not asked for, and a peer is taken to be there.

use std::net::SocketAddr;

pub fn peer_has_left(_: SocketAddr, _: SocketAddr) -> bool {
    false
}
