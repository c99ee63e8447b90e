//! What the handles of a run have its owner do.

use super::newcomer::{Moment, Newcomer};
use super::sink::Sink;
use super::spec::StopReason;
use ground::os::{TerminalSize, TreeUsage};
use nix::sys::signal::Signal;
use tokio::sync::oneshot;

/// What the handles have the owner task do.
pub(super) enum Order {
    Stop(WantedEnd),
    Resize(TerminalSize),
    Subscribe(Box<dyn Sink>),
    Detach,
    TreeUsage(oneshot::Sender<TreeUsage>),
    Newcomers { since: Moment, until: Moment, reply: oneshot::Sender<Vec<Newcomer>> },
}

/// The end that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedEnd {
    pub reason: StopReason,
    /// What the group is sent in place of SIGTERM: at once, also when it has been sent another one before.
    pub signal: Option<Signal>,
}

impl WantedEnd {
    /// By the ladder's own signals.
    pub(super) fn because(reason: StopReason) -> WantedEnd {
        WantedEnd { reason, signal: None }
    }
}
