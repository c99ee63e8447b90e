//! The link between the ways out of a run's sandbox and the watcher of the run, while the run lasts.

use crate::refusals::Refusals;
use ground::lock::lock;
pub use ground::tokens::Metered;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

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

/// Requests that no host has answered yet.
#[derive(Clone, Debug, Default)]
pub struct Requests(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    last: u64,
    open: Vec<(u64, String)>,
}

impl Requests {
    /// Most hosts that are remembered.
    const MOST: usize = 100;

    /// A host is asked. Returns the request's number.
    pub fn ask(&self, host: &str) -> u64 {
        let mut asked = lock(&self.0);
        asked.last += 1;
        let number = asked.last;
        if asked.open.len() < Self::MOST {
            asked.open.push((number, host.to_owned()));
        }
        number
    }

    /// The host has answered. What was asked before waits for nothing any more: somebody read on.
    pub fn answer(&self, number: u64) {
        lock(&self.0).open.retain(|(open, _)| *open > number);
    }

    /// The host that was asked last and did not answer, also if nobody waits for it by now.
    pub fn unanswered(&self) -> Option<String> {
        lock(&self.0).open.last().map(|(_, host)| host.clone())
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
    pub requests: Requests,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_that_was_asked_last_and_did_not_answer_is_known() {
        let requests = Requests::default();
        assert_eq!(requests.unanswered(), None);
        let first = requests.ask("a.example:443");
        let second = requests.ask("b.example:443");
        assert_eq!(requests.unanswered().as_deref(), Some("b.example:443"));
        requests.answer(first);
        assert_eq!(requests.unanswered().as_deref(), Some("b.example:443"));
        requests.answer(second);
        assert_eq!(requests.unanswered(), None);
    }

    #[test]
    fn a_caller_is_known_once() {
        let callers = Callers::default();
        callers.add("[::ffff:127.0.0.1]:7".parse().unwrap());
        assert!(callers.take("127.0.0.1:7".parse().unwrap()));
        assert!(!callers.take("127.0.0.1:7".parse().unwrap()));
    }
}
