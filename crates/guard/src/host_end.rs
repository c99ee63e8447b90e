//! How the host ended: in order, or by SIGKILL.
//!
//! The host sets its exit status before it closes its descriptors, so that a guard that sees the end of the lifeline can read the status
//! in /proc until the host's parent has waited for it. After that, the pidfd tells it (from Linux 6.15 on).

use crate::children::{open_proc, state_of_pid};
use crate::protocol::{Header, ProcessState};
use crate::syscall;

/// While the host is waited for, neither of the two places tells its status.
const ATTEMPTS: u32 = 5;
const PAUSE_US: u64 = 1000;

/// Whether the host is ending, or has ended, by anything but SIGKILL: by an exit or by another signal. False where nobody can tell, and
/// when the host is alive and has only closed the lifeline. `proc`: a /proc that lists the host, negative: the one at its usual place.
pub(crate) fn is_in_order(header: &Header, proc: isize, pidfd: isize) -> bool {
    let listed = header.host_listed as isize;
    for _ in 0..ATTEMPTS {
        let state = if listed > 0 { state_in_proc(listed, proc) } else { None };
        let status = match state {
            Some(state) if state.is_exiting() => Some(state.status),
            // A living host, or a process that has the number by now.
            Some(_) => return false,
            None => syscall::exit_status(pidfd),
        };
        if let Some(status) = status {
            return status & 0x7f != syscall::SIGKILL as u32;
        }
        syscall::sleep(PAUSE_US);
    }
    false
}

fn state_in_proc(pid: isize, proc: isize) -> Option<ProcessState> {
    if proc >= 0 {
        return state_of_pid(proc, pid);
    }
    let proc = open_proc();
    let state = state_of_pid(proc, pid);
    syscall::close(proc);
    state
}
