//! The link between the ways out of a run's sandbox and the watcher of the run, while the run lasts.

use crate::refusals::Refusals;
use ground::lock::lock;
use serde::Serialize;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Tokens that models' answers to a run used, as seen on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metered {
    /// Those read from a cache included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
    /// Answers of models.
    pub requests: u64,
    /// Those among them that did not say their tokens, so that they were estimated.
    pub estimated: u64,
    /// Answers that could not be read.
    pub unread: u64,
    /// The models, as they name themselves.
    pub models: Vec<String>,
}

/// Most connections to a gate that it has not looked at yet.
const MOST_CALLERS: usize = 4096;

/// The addresses from which a program's tree was connected to its gate, until the gate has asked for each.
#[derive(Clone, Debug, Default)]
pub struct Callers(Arc<Mutex<HashSet<SocketAddr>>>);

impl Callers {
    /// The host process made this connection for the program.
    pub fn add(&self, from: SocketAddr) {
        let mut callers = lock(&self.0);
        if callers.len() < MOST_CALLERS {
            callers.insert(plain(from));
        }
    }

    /// Whether it did. It is told once, because another process may have the address later.
    pub fn take(&self, from: SocketAddr) -> bool {
        lock(&self.0).remove(&plain(from))
    }
}

/// A socket of IPv6 has an address of IPv4 in another form.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A run's traffic. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub refusals: Refusals,
    pub callers: Callers,
    metered: Arc<watch::Sender<Metered>>,
    cut: Arc<watch::Sender<bool>>,
}

impl Traffic {
    /// Sets the sum of everything that was metered so far.
    pub fn meter(&self, sum: Metered) {
        self.metered.send_replace(sum);
    }

    /// Follows the sum.
    pub fn metered(&self) -> watch::Receiver<Metered> {
        self.metered.subscribe()
    }

    /// No more may be spent: answers of models are cut off in their middle, and later requests are refused.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Follows whether it was cut.
    pub fn watch_cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }
}
