//! A connection that is being opened, and can be given up.

use super::handle::RuntimeClient;
use super::line::RESUME_FOR;
use super::session::ClientSession;
use super::socket::{Address, greet, open};
use ground::error::{Error, ErrorCode, Result};
use ground::mpsc;
use ground::os::within;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// How long connecting waits for the hello of a runtime that did not announce itself. The session goes on without it, and
/// [`super::peer`] decides by what arrives.
const HELLO_WITHIN: Duration = Duration::from_millis(500);

/// How to connect.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub token: Option<String>,
    /// Connecting takes at most this long. `None`: no limit.
    pub connect_timeout: Option<Duration>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions { token: None, connect_timeout: Some(Duration::from_secs(60)) }
    }
}

impl RuntimeClient {
    /// Shorthand for [`Connecting::open`].
    ///
    /// # Errors
    /// The same as for [`Connecting::open`].
    pub async fn connect(url: &str, options: ClientOptions) -> Result<RuntimeClient> {
        Connecting::new(url, options).open().await
    }
}

/// Clones are the same connection.
#[derive(Clone)]
pub struct Connecting {
    url: String,
    options: ClientOptions,
    aborted: watch::Sender<bool>,
}

impl Connecting {
    pub fn new(url: impl Into<String>, options: ClientOptions) -> Connecting {
        Connecting { url: url.into(), options, aborted: watch::Sender::new(false) }
    }

    /// Gives up connecting and closes the socket. Has no effect once the connection is open.
    pub fn abort(&self) {
        self.aborted.send_replace(true);
    }

    /// The attempt has ended: it succeeded, failed or was given up.
    pub fn is_over(&self) -> bool {
        self.aborted.receiver_count() == 0
    }

    /// Connects and says hello.
    ///
    /// # Errors
    /// `INVALID_OPTION`, `RUNTIME_UNAUTHORIZED`, `RUNTIME_UNREACHABLE` when there is no runtime, `RUNTIME_TIMED_OUT`,
    /// `RUNTIME_ABORTED`.
    pub fn open(&self) -> impl Future<Output = Result<RuntimeClient>> + Send + use<> {
        // Subscribe now rather than when the future is first polled, so that no abort in between is missed.
        let (connecting, mut aborted) = (self.clone(), self.aborted.subscribe());
        async move {
            let aborted = async {
                // `self` holds the sender, so the channel can't be closed.
                let _ = aborted.wait_for(|aborted| *aborted).await;
            };
            tokio::select! {
                biased;
                () = aborted => {
                    Err(Error::new(ErrorCode::RuntimeAborted, "the connection was not opened: it was aborted"))
                }
                client = connecting.connect() => client,
            }
        }
    }

    async fn connect(&self) -> Result<RuntimeClient> {
        let address = Address { url: self.url.clone(), token: self.options.token.clone() };
        let session_id = ground::random::key::<16>()
            .ok_or_else(|| address.unreachable("the system provides no random bytes"))?;
        if self.options.connect_timeout == Some(Duration::ZERO) {
            return Err(not_answered(Duration::ZERO));
        }
        let connecting = async {
            let (mut stream, announced) = open(&address).await?;
            let limit = if announced { RESUME_FOR } else { HELLO_WITHIN };
            let greeting = greet(&mut stream, &session_id, 0, limit).await;
            Ok::<_, Error>((stream, greeting))
        };
        let (stream, greeting) = match self.options.connect_timeout {
            None => connecting.await?,
            Some(limit) => within(limit, connecting).await.ok_or_else(|| not_answered(limit))??,
        };
        let greeting = greeting.map_err(|end| address.unreachable_after(end))?;
        let (orders, order_queue) = mpsc::channel(16);
        let (event_sender, events) = mpsc::channel(16);
        let (ended_sender, ended) = watch::channel(None);
        let (closed_sender, closed) = watch::channel(false);
        let (resumes_sender, resumes) = watch::channel(None);
        let session = ClientSession::new(
            address,
            session_id,
            greeting.answer.map(|hello| hello.capabilities),
            resumes_sender,
            event_sender,
            ended_sender,
        );
        ground::task::spawn(session.run(stream, greeting.early, order_queue, closed_sender));
        Ok(RuntimeClient { orders, events: Arc::new(Mutex::new(events)), ended, closed, resumes })
    }
}

/// The error for a runtime that did not answer within `limit`.
fn not_answered(limit: Duration) -> Error {
    Error::new(ErrorCode::RuntimeTimedOut, format!("no runtime answered within {} ms", limit.as_millis()))
        .with("timeoutMs", limit.as_millis() as u64)
}
