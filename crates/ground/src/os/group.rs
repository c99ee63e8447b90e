//! Process groups. A group's number is trusted only while its leader is not yet reaped: then it can't be another's.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Whether the group has a member, zombies included.
pub fn group_exists(leader: i32) -> bool {
    !matches!(killpg(Pid::from_raw(leader), None), Err(nix::errno::Errno::ESRCH))
}

/// A signal to a whole process group. Only while its leader is not yet reaped.
pub fn signal_group(leader: i32, signal: Signal) {
    let _ = killpg(Pid::from_raw(leader), signal);
}
