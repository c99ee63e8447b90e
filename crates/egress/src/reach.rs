//! From a host that was asked for to a connection: is it listed, which addresses does it have, and may they be reached.

use crate::access::Access;
use crate::host::{Host, Hosts, Way};
use ground::os::blocking;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

/// For one address.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Names of one program that are asked about at once, and of all programs. The system's resolver keeps a thread for each, for as
/// long as a name server says nothing, and the threads are those of all other work of this process.
const NAMES_OF_ONE: usize = 8;
const NAMES_OF_ALL: usize = 64;
static ASKING: Semaphore = Semaphore::const_new(NAMES_OF_ALL);
/// For a turn to ask.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// Resolves a name. It may block.
pub type Resolve = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// The world outside of this process, which tests replace.
pub struct Outside {
    pub resolve: Resolve,
    /// TLS to hosts; `None`: as everywhere in this process.
    pub tls: Option<Arc<ClientConfig>>,
    /// The variables that the program gets from the host.
    pub inherited: Vec<(OsString, OsString)>,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside { resolve: Arc::new(system), tls: None, inherited: Vec::new() }
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

/// Asks for the addresses of one program's hosts.
pub(crate) struct Resolver {
    resolve: Resolve,
    asking: Arc<Semaphore>,
}

impl Resolver {
    pub(crate) fn new(resolve: Resolve) -> Resolver {
        Resolver { resolve, asking: Arc::new(Semaphore::new(NAMES_OF_ONE)) }
    }

    async fn addresses(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(_) if host.is_local() => {
                return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
            }
            Host::Name(name) => name.clone(),
        };
        let turn = async {
            let own = self.asking.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((own, ASKING.acquire().await.map_err(io::Error::other)?))
        };
        let too_many = || io::Error::other("too many names are asked about at once, and none is answered");
        let turn = timeout(TURN_WITHIN, turn).await.map_err(|_| too_many())??;
        let resolve = self.resolve.clone();
        let mut found = blocking(move || {
            // The caller may be gone, but the thread is taken until there is an answer.
            let _turn = turn;
            resolve(&name)
        })
        .await??;
        found.dedup();
        found.truncate(MOST_ADDRESSES);
        Ok(found)
    }
}

/// Connects to a host that is listed.
pub(crate) async fn connect(
    hosts: &Hosts,
    resolver: &Resolver,
    host: &Host,
    port: u16,
) -> Result<TcpStream, NoWay> {
    let found = resolver
        .addresses(host)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_silent_name_server_takes_a_few_threads_and_no_more() {
        let (asked, questions) = mpsc::channel();
        let (answer, waits) = mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let resolver = Arc::new(Resolver::new(Arc::new(move |name: &str| {
            asked.send(name.to_owned()).unwrap();
            // Until the other end is dropped.
            let _ = waits.lock().unwrap().recv();
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })));
        let ask = |n: usize| {
            let resolver = resolver.clone();
            ground::task::spawn(async move { resolver.addresses(&Host::Name(format!("n{n}.example"))).await })
        };
        let all: Vec<_> = (0..4 * NAMES_OF_ONE).map(ask).collect();
        let (first, questions) = tokio::task::spawn_blocking(move || {
            let first: Vec<String> = questions.iter().take(NAMES_OF_ONE).collect();
            (first.len(), questions)
        })
        .await
        .unwrap();
        // Those that gave up keep their threads.
        all.iter().for_each(|one| one.abort());
        tokio::task::yield_now().await;
        assert_eq!((first, questions.try_recv().is_err()), (NAMES_OF_ONE, true));
        assert_eq!(resolver.asking.available_permits(), 0);
        drop(answer);
        let late = ask(0).await.unwrap().unwrap();
        assert_eq!(late, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
    }
}
