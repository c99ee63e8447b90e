//! What a socket says before it speaks WebSocket: `hyper` reads it and writes our answer.

use super::registry::SessionRegistry;
use super::upgrade::{AccessPolicy, UpgradeAnswer, answer, too_many_sessions};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Longest request head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// How long a client may take to say what it wants.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// And with what else it says, and until it has taken the answer.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(12);

/// A connection that speaks WebSocket from now on.
pub(super) struct Upgraded {
    pub permit: OwnedSemaphorePermit,
    pub stream: TcpStream,
    /// What came after the head.
    pub rest: Vec<u8>,
}

type Slot = Arc<Mutex<Option<(OwnedSemaphorePermit, OnUpgrade)>>>;

/// Answers what the client wants; `None` when that was not to come in, or it may not.
pub(super) async fn upgrade(
    stream: TcpStream,
    policy: Arc<AccessPolicy>,
    registry: &SessionRegistry,
) -> Option<Upgraded> {
    let slot = Slot::default();
    let (to_fill, registry) = (Arc::clone(&slot), registry.clone());
    let service = service_fn(move |request| {
        let response = admit(request, &policy, &registry, &to_fill);
        async move { Ok::<_, Infallible>(response) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        // As they are written everywhere: somebody may look for them so.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // What went wrong with a client is nobody else's business.
    let _ = timeout(WHOLE_TIMEOUT, conversation).await.ok()?;
    let (permit, upgrading) = slot.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let parts = upgrading.await.ok()?.downcast::<TokioIo<TcpStream>>().ok()?;
    Some(Upgraded { permit, stream: parts.io.into_inner(), rest: parts.read_buf.to_vec() })
}

fn admit(
    mut request: Request<Incoming>,
    policy: &AccessPolicy,
    registry: &SessionRegistry,
    slot: &Slot,
) -> Response<String> {
    match answer(&request, policy) {
        UpgradeAnswer::Refuse(response) => response,
        // Only who may come in takes room: a stranger's unfinished head keeps nobody out.
        UpgradeAnswer::Accept(response) => match registry.admit() {
            Some(permit) => {
                let upgrading = hyper::upgrade::on(&mut request);
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((permit, upgrading));
                response
            }
            None => too_many_sessions(),
        },
    }
}
