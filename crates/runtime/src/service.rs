//! The parts that connections and sessions of one server share, and the progress of its shutdown.

use super::handler::AgentHandler;
use super::intake::Intake;
use process::EnvironmentBase;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wires::http::HttpClient;

/// The progress of the server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Open,
    /// Requests are cancelled, open uploads are finished.
    Winding,
    /// Everything that is left is ended.
    Now,
}

/// The parts that connections and sessions share.
pub struct Service {
    pub handler: Arc<dyn AgentHandler>,
    pub environment: EnvironmentBase,
    pub http: HttpClient,
    /// HTTP client for uploads, made by [`super::upload::upload_client`].
    pub upload_http: HttpClient,
    pub heartbeat_interval: Option<Duration>,
    pub drain_timeout: Duration,
    pub ping_interval: Duration,
    pub grace: Duration,
    pub closing: watch::Sender<Closing>,
    pub intake: Arc<Intake>,
    pub live: watch::Sender<usize>,
}

/// A live connection or session. It is counted until this is dropped.
pub struct Live(watch::Sender<usize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Service {
    pub fn live(&self) -> Live {
        self.live.send_modify(|count| *count += 1);
        Live(self.live.clone())
    }
}
