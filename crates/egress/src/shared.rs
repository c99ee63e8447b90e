//! The parts of a proxy that all its connections share.

use crate::access::Access;
use crate::answer::{Body, refused, unreachable};
use crate::authority::Authority;
use crate::host::{Host, Way};
use crate::meter::Meter;
use crate::reach::{NoWay, Resolver, connect, way};
use hyper::Response;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::CancellationToken;

/// Whether a connection from this address is one of the program's, whose credential then need not be asked for.
pub type IsOwn = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;
/// Takes reports: the host and the port that are asked. Returns what to call when they answer.
pub type OnAsk = Arc<dyn Fn(&str) -> Box<dyn FnOnce() + Send> + Send + Sync>;
/// Takes reports: the host and the port that were refused.
pub type OnRefused = Arc<dyn Fn(String) + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) access: Access,
    /// For programs whose requests are looked into.
    pub(crate) authority: Option<Authority>,
    pub(crate) meter: Arc<Meter>,
    /// Cancelled with the end of the proxy.
    pub(crate) ended: CancellationToken,
    pub(crate) resolver: Resolver,
    pub(crate) on_refused: OnRefused,
    pub(crate) is_own: IsOwn,
    pub(crate) asks: OnAsk,
    pub(crate) cut: watch::Receiver<bool>,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: String,
    pub(crate) tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Shared {
    /// Connects to a host that is listed.
    pub(crate) async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, NoWay> {
        connect(&self.access.hosts, &self.resolver, host, port).await
    }

    /// Reports what was refused.
    pub(crate) fn refuse(&self, what: String) {
        (self.on_refused)(what);
    }

    /// The answer to every request once no more may be spent.
    pub(crate) fn used_up(&self) -> Option<Response<Body>> {
        self.cut.borrow().then(|| refused("the budget of this program is used up"))
    }

    /// Resolves when the proxy has ended, or when everything under way is cut off.
    pub(crate) fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let (ended, mut cut) = (self.ended.clone(), self.cut.clone());
        // A cut before this one's beginning is no end of it.
        cut.mark_unchanged();
        async move {
            let cut_off = async {
                // Without its sender nobody can cut.
                if cut.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = ended.cancelled() => {}
                () = cut_off => {}
            }
        }
    }

    /// The configuration of TLS to hosts. Blocks the first time, for the system's certificates.
    pub(crate) fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.get_or_init(client_config).clone()
    }

    /// Connects to a host by the way that leads to it; else the answer to the program.
    pub(crate) async fn reach(&self, host: &Host, port: u16) -> Result<(Way, TcpStream), Response<Body>> {
        let reached = async {
            let way = way(&self.access, host, port)?;
            Ok((way, self.connect(host, port).await?))
        };
        reached.await.map_err(|problem| match problem {
            NoWay::Refused { what, line } => {
                self.refuse(what);
                refused(&line)
            }
            NoWay::Failed(line) => unreachable(&line),
        })
    }
}

/// The configuration of TLS to hosts: as everywhere in this process.
fn client_config() -> Result<Arc<ClientConfig>, String> {
    wires::http::tls_config().map(Arc::new).map_err(|error| error.to_string())
}
