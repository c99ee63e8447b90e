//! Resolves host names on a thread of the addon: tokio's own look-up panics when the system refuses it a thread.

use super::blocking::blocking;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use tokio::net::TcpStream;

/// The addresses of a host, in the order in which to try them. A numeric address needs no thread.
pub async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    blocking(move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect)).await?
}

/// Connects to the first of the host's addresses that answers.
pub async fn connect_to(host: &str, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(addresses_of(host, port).await?.as_slice()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn digits_are_addresses_with_and_without_brackets() {
        for host in ["::1", "[::1]"] {
            assert_eq!(addresses_of(host, 7).await.expect("an address"), ["[::1]:7".parse().expect("one")]);
        }
        assert_eq!(
            addresses_of("127.0.0.1", 7).await.expect("an address"),
            ["127.0.0.1:7".parse().expect("one")]
        );
    }

    #[tokio::test]
    async fn names_are_looked_up() {
        let found = addresses_of("localhost", 80).await.expect("addresses");
        assert!(!found.is_empty() && found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
        assert!(addresses_of("no such host", 80).await.is_err());
    }
}
