//! Orders from the handles of a run to its owner task.

use super::newcomer::{Moment, Newcomer};
use super::sink::Sink;
use super::spec::StopReason;
use ground::os::{TerminalSize, TreeUsage};
use ground::signal::Signal;
use tokio::sync::oneshot;

/// An order from a handle to the owner task.
pub(super) enum Order {
    Stop(WantedEnd),
    Resize(TerminalSize),
    Subscribe(Box<dyn Sink>),
    Detach,
    TreeUsage(oneshot::Sender<TreeUsage>),
    Newcomers { since: Moment, until: Moment, reply: oneshot::Sender<Vec<Newcomer>> },
}

/// A request to end the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedEnd {
    pub reason: StopReason,
    /// The signal to send to the group in place of SIGTERM. It is sent at once, even if another signal was sent before.
    pub signal: Option<Signal>,
}

impl WantedEnd {
    /// The end by the usual sequence of signals.
    pub(super) fn because(reason: StopReason) -> WantedEnd {
        WantedEnd { reason, signal: None }
    }
}
