//! Process groups. A group's number is trusted only while its leader is not reaped: until then it can't belong to another group.

use super::signal::native;
use crate::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

/// Whether the group has a member, zombies included.
pub fn group_exists(leader: i32) -> bool {
    !matches!(killpg(Pid::from_raw(leader), None), Err(nix::errno::Errno::ESRCH))
}

/// Sends a signal to a whole process group. Call it only while the group's leader is not reaped.
pub fn signal_group(leader: i32, signal: Signal) {
    if let Some(signal) = native(signal) {
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}
