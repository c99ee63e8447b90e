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

const SIGHUP: u32 = 1;
/// SIGINT lies between the two.
const SIGQUIT: u32 = 3;

/// The status, as wait(2) has it, by which the host is ending or has ended in order: by anything but SIGKILL. `None` also where nobody can
/// tell, and when the host is alive and has only closed the lifeline. `proc`: a /proc that lists the host, negative: the one at its usual
/// place.
pub(crate) fn in_order(header: &Header, proc: isize, pidfd: isize) -> Option<u32> {
    let listed = header.host_listed as isize;
    for _ in 0..ATTEMPTS {
        let state = if listed > 0 { state_in_proc(listed, proc) } else { None };
        let status = match state {
            Some(state) if state.is_exiting() => Some(state.status),
            // A living host, or a process that has the number by now.
            Some(_) => return None,
            None => syscall::exit_status(pidfd),
        };
        if let Some(status) = status {
            return if status & 0x7f == syscall::SIGKILL as u32 { None } else { Some(status) };
        }
        syscall::sleep(PAUSE_US);
    }
    None
}

/// Whether a terminal asked for this end, by its keys or by hanging up, so that the whole group got the signal: the host ended by it, or
/// with the status that shells have for it.
pub(crate) fn is_by_terminal(status: u32) -> bool {
    let code = status >> 8 & 0xff;
    matches!((status & 0x7f, code.wrapping_sub(128)), (SIGHUP..=SIGQUIT, _) | (0, SIGHUP..=SIGQUIT))
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
