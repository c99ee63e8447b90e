//! Process groups: joining them, and signals to them.

use crate::syscall;

/// Becomes the leader of a process group of its own.
pub(crate) fn own_group() -> isize {
    join_group(0)
}

/// Joins a process group of the same session.
pub(crate) fn join_group(leader: isize) -> isize {
    syscall::plain(syscall::number::SETPGID, 0, leader as usize, 0, 0)
}

/// The process group of a process.
pub(crate) fn group_of(pid: isize) -> isize {
    syscall::plain(syscall::number::GETPGID, pid as usize, 0, 0, 0)
}

/// Sends a signal to a process, or to the group of this negative number, and wakes those that are stopped: they could not take it.
pub(crate) fn signal(target: isize, signal: usize) {
    syscall::kill(target, signal);
    // The signals that stop are from SIGSTOP to SIGTTOU, and SIGKILL needs nobody awake.
    if !(syscall::SIGSTOP..=syscall::SIGTTOU).contains(&signal) && signal != syscall::SIGKILL {
        syscall::kill(target, syscall::SIGCONT);
    }
}
