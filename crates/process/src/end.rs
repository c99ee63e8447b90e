//! PURE. Decides the stage of a run's end by the events of its process tree.
//!
//! | event of the tree | the command has exited | consequence |
//! |---|---|---|
//! | the command exited | | the watchdog decides about pipes and strays |
//! | killed processes are still ending | | the time limit of the kill starts again |
//! | the tree is gone | yes | the run is over, with the command's own status |
//! | the tree is gone | no | it could not be killed, and its end is unknown; the runner stops waiting |
//! | the guard was lost | | this is the reason of the end, whatever was reported before; the runner stops waiting |

use super::launch::{ExitStatus, TreeEvent};
use super::spec::ProcessUsage;

/// The end of a tree, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct End {
    pub status: Option<ExitStatus>,
    pub usage: ProcessUsage,
    pub strays_killed: u32,
    pub strays_left: u32,
}

impl End {
    /// The end of a tree that nothing reports on any more; it may be alive.
    pub(super) const UNKNOWN: End = End {
        status: None,
        usage: ProcessUsage { user_ms: 0.0, system_ms: 0.0, max_rss_bytes: 0 },
        strays_killed: 0,
        strays_left: 1,
    };
}

/// The stage of a run's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EndStage {
    Exited,
    Dying,
    Over {
        end: End,
        /// The guard that held the tree was killed.
        is_lost: bool,
        /// The runner stops waiting for anything else.
        gives_up: bool,
    },
}

pub(super) fn stage_of(event: TreeEvent, has_exited: bool) -> EndStage {
    match event {
        TreeEvent::Exited => EndStage::Exited,
        TreeEvent::Dying => EndStage::Dying,
        TreeEvent::Gone { status, usage, strays_killed, strays_left } => EndStage::Over {
            end: End { status: has_exited.then_some(status), usage, strays_killed, strays_left },
            is_lost: false,
            gives_up: !has_exited,
        },
        TreeEvent::Lost { strays_killed, strays_left } => EndStage::Over {
            end: End { strays_killed, strays_left, ..End::default() },
            is_lost: true,
            gives_up: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tree_tells_makes_the_end() {
        let status = ExitStatus { code: Some(3), signal: None };
        let usage = ProcessUsage { user_ms: 1.0, ..ProcessUsage::default() };
        let gone = TreeEvent::Gone { status, usage, strays_killed: 2, strays_left: 1 };
        let lost = TreeEvent::Lost { strays_killed: 2, strays_left: 1 };
        let end = |status, usage| End { status, usage, strays_killed: 2, strays_left: 1 };
        let over = |end, is_lost, gives_up| EndStage::Over { end, is_lost, gives_up };
        let none = ProcessUsage::default();
        for (event, has_exited, expected) in [
            (TreeEvent::Exited, false, EndStage::Exited),
            (TreeEvent::Dying, false, EndStage::Dying),
            (TreeEvent::Dying, true, EndStage::Dying),
            (gone, true, over(end(Some(status), usage), false, false)),
            (gone, false, over(end(None, usage), false, true)),
            (lost, false, over(end(None, none), true, true)),
            (lost, true, over(end(None, none), true, true)),
        ] {
            assert_eq!(stage_of(event, has_exited), expected, "{event:?}, exited: {has_exited}");
        }
    }
}
