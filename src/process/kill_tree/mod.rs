//! Finding and killing what a run left behind, where no guard holds it: process group, parents, a mark in the environment.
//!
//! - A descendant is found by its process group, by walking parents (before a kill: afterwards orphans have a new parent), or
//!   by the mark that it inherited. What hides from all three is the guard's business.
//! - A pid is only trusted together with its start time, looked at again just before the signal, through a pidfd: a recycled
//!   pid is never hit.
//! - Runs that end in the same moment share one look at the process table ([`sweep`]).

mod sweep;
mod table;

pub(crate) use sweep::{SweepRequest, Swept, sweep};
pub use table::TreeUsage;
pub(crate) use table::{ProcessTable, start_time, walk_descendants};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// A process that can't be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessIdentity {
    pub pid: i32,
    /// Clock ticks since boot.
    pub start_time: u64,
}

/// SIGKILL, unless the process is gone or its pid is another's by now. True when the signal was sent.
pub(crate) fn kill_process(identity: ProcessIdentity) -> bool {
    // A pidfd taken first, then the start time checked: from there on the descriptor means the same process or none.
    #[cfg(target_os = "linux")]
    if let Ok(descriptor) = super::pidfd::open(identity.pid) {
        return table::start_time(identity.pid) == Some(identity.start_time)
            && super::pidfd::send_signal(&descriptor, Signal::SIGKILL);
    }
    table::start_time(identity.pid) == Some(identity.start_time)
        && kill(Pid::from_raw(identity.pid), Signal::SIGKILL).is_ok()
}

/// Whether the group has a member, zombies included.
pub(crate) fn group_exists(leader: i32) -> bool {
    !matches!(killpg(Pid::from_raw(leader), None), Err(nix::errno::Errno::ESRCH))
}

/// A signal to a whole process group. Only while its leader is not yet reaped: then the group's number can't be another's.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    let _ = killpg(Pid::from_raw(leader), signal);
}
