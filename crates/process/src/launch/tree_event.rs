//! PURE. The events of a process tree.

use super::super::spec::ProcessUsage;
use ground::os::signal_of;

/// The end of the command itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitStatus {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// The signal's name, "SIGTERM".
    pub(crate) fn signal_name(self) -> Option<String> {
        let number = self.signal?;
        Some(signal_of(number).map_or_else(|| format!("SIG{number}"), |signal| signal.as_str().to_owned()))
    }
}

/// An event of a process tree. Each comes at most once, except `Dying`; `Gone` or `Lost` is the last.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TreeEvent {
    /// The command itself exited; no other process was signalled yet.
    Exited,
    /// No process of the tree is alive, or, if strays are kept, none that has to be ended.
    Gone { status: ExitStatus, usage: ProcessUsage, strays_killed: u32, strays_left: u32 },
    /// The hold on the tree was lost: the guard was killed, or nobody tells of the exit. The tree is gone as well, except for
    /// processes that can't be killed.
    Lost { strays_killed: u32, strays_left: u32 },
    /// Killed processes are still ending: the kernel takes long to free much memory. May come many times.
    Dying,
}
