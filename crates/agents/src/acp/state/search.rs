//! The result of a search for processes that a cancelled turn left.

use crate::acp::state::order::Reply;
use ground::mpsc::UnboundedSender;
use ground::os::ProcessIdentity;
use process::{Moment, Newcomer};

/// A turn that ended by a cancel, and its time window.
#[derive(Clone, Copy)]
pub(crate) struct CancelledTurn {
    pub number: u32,
    pub since: Moment,
    pub until: Moment,
}

/// A caller that waits for the end of a cancelled turn.
pub(crate) struct CancelWaiter {
    pub(crate) kills_strays: bool,
    pub(crate) reply: Reply<()>,
}

/// Processes that cancelled turns left, each with its turn. Start times are known to ten milliseconds only. Without this list,
/// a short turn that follows at once would take these processes for its own, and kill them.
#[derive(Clone, Default)]
pub(crate) struct Left(Vec<(u32, ProcessIdentity)>);

impl Left {
    /// Whether another turn left this process.
    pub(crate) fn is_of_another(&self, turn: u32, identity: ProcessIdentity) -> bool {
        self.0.iter().any(|(of, left)| *of != turn && *left == identity)
    }

    pub(crate) fn keep(&mut self, turn: u32, identity: ProcessIdentity) {
        if !self.0.contains(&(turn, identity)) {
            self.0.push((turn, identity));
        }
    }
}

/// The search for processes that cancelled turns left.
pub(crate) struct Leftovers {
    /// The last turn that ended by our cancel.
    pub(crate) cancelled: Option<CancelledTurn>,
    pub(crate) waiters: Vec<CancelWaiter>,
    pub(crate) left: Left,
    /// Sends the result of a search to the owner.
    pub(crate) sender: UnboundedSender<Search>,
}

/// The processes found, and the callers that wait for the result. Dropping it answers them with success: their turn is over,
/// whatever became of the session since.
pub(crate) struct Search {
    /// The turn that left the processes.
    pub turn: u32,
    pub strays: Vec<Newcomer>,
    pub waiters: Vec<Reply<()>>,
}

impl Drop for Search {
    fn drop(&mut self) {
        for reply in self.waiters.drain(..) {
            let _ = reply.send(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_turn_has_left_is_not_the_next_ones_though_born_in_the_same_tick() {
        let process = |pid| ProcessIdentity { pid, start_time: 100 };
        let mut left = Left::default();
        left.keep(1, process(7));
        left.keep(1, process(7));
        assert_eq!(left.0.len(), 1);
        assert!(left.is_of_another(2, process(7)));
        assert!(!left.is_of_another(1, process(7)), "looked for again, on demand");
        assert!(!left.is_of_another(2, process(8)));
        assert!(
            !left.is_of_another(2, ProcessIdentity { pid: 7, start_time: 101 }),
            "a number that was given again"
        );
    }
}
