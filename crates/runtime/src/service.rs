//! What connections and sessions of one server share, and how far its end is.

use super::handler::AgentHandler;
use super::intake::Intake;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wires::http::HttpClient;

/// How far the end of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Open,
    /// Requests are cancelled, open uploads finished.
    Winding,
    /// Whatever is left, ends.
    Now,
}

/// What connections and sessions share.
pub struct Service {
    pub handler: Arc<dyn AgentHandler>,
    pub http: HttpClient,
    /// As [`super::upload::upload_client`] makes it.
    pub upload_http: HttpClient,
    pub heartbeat_interval: Option<Duration>,
    pub drain_timeout: Duration,
    pub ping_interval: Duration,
    pub grace: Duration,
    pub closing: watch::Sender<Closing>,
    pub intake: Arc<Intake>,
    pub live: watch::Sender<usize>,
}

/// Counts as alive until it is dropped.
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
