//! From a host that was asked for to a connection: is it listed, which addresses does it have, and may they be reached.

use crate::access::Access;
use crate::host::{Host, Hosts, Way};
use ground::os::blocking;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

/// For one address.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Resolves a name. It may block.
pub type Resolve = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// The world outside of this process, which tests replace.
pub struct Outside {
    pub resolve: Resolve,
    /// TLS to hosts; `None`: as everywhere in this process.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside { resolve: Arc::new(system), tls: None }
    }
}

/// Why there is no connection, in words for the program.
#[derive(Debug)]
pub(crate) enum NoWay {
    /// The sandbox refuses it. `what` is for the user's report.
    Refused { what: String, line: String },
    /// The host can't be reached.
    Failed(String),
}

/// Asks the system.
fn system(name: &str) -> io::Result<Vec<IpAddr>> {
    // The port is of no consequence to the system.
    Ok((name, 443).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// How a host may be reached.
pub(crate) fn way(access: &Access, host: &Host, port: u16) -> Result<Way, NoWay> {
    let refused = || NoWay::Refused {
        what: format!("{host}:{port}"),
        line: format!("{host}:{port} is not in `sandbox.network.hosts`"),
    };
    access.way(host, port).ok_or_else(refused)
}

/// Connects to a host that is listed.
pub(crate) async fn connect(
    hosts: &Hosts,
    resolve: &Resolve,
    host: &Host,
    port: u16,
) -> Result<TcpStream, NoWay> {
    let found = addresses(resolve, host)
        .await
        .map_err(|error| NoWay::Failed(format!("{host} has no address: {error}")))?;
    let mut problem = NoWay::Failed(format!("{host} has no address"));
    // All of them are checked before one is used: a name with both kinds of address is a trap.
    for ip in &found {
        hosts.check_address(host, *ip, port).map_err(|kind| NoWay::Refused {
            what: format!("{host}:{port} at {ip}"),
            line: format!("{host} leads to {ip}, {kind}: list the address itself if it is meant"),
        })?;
    }
    for ip in found {
        match timeout(CONNECT_WITHIN, TcpStream::connect(SocketAddr::new(ip, port))).await {
            Ok(Ok(stream)) => {
                // Small messages go at once. A failure costs time only.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => problem = NoWay::Failed(format!("{host}:{port} can't be reached: {error}")),
            Err(_) => problem = NoWay::Failed(format!("{host}:{port} did not answer")),
        }
    }
    Err(problem)
}

async fn addresses(resolve: &Resolve, host: &Host) -> io::Result<Vec<IpAddr>> {
    let name = match host {
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) if name == "localhost" => {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        Host::Name(name) => name.clone(),
    };
    let resolve = resolve.clone();
    let mut found = blocking(move || resolve(&name)).await??;
    found.dedup();
    found.truncate(MOST_ADDRESSES);
    Ok(found)
}
