//! How the host ended: in order, or by SIGKILL.
//!
//! The host sets its exit status before it closes its descriptors, so that a guard that sees the end of the lifeline can read the status
//! in /proc until the host's parent has waited for it. After that, the pidfd tells it (from Linux 6.15 on), but only to a process that
//! has the host in its PID namespace. So the outer guard alone looks, and leaves what it found in the memory of both.

use crate::children::{open_proc, state_of_pid};
use crate::protocol::{Header, ProcessState};
use crate::syscall;
use core::sync::atomic::{AtomicU64, Ordering};

/// While the host is waited for, neither of the two places tells its status.
const ATTEMPTS: u32 = 20;
/// How long the inner guard waits for what the outer one found, which may be stopped or dead.
const ATTEMPTS_OF_THE_OUTER: u32 = 50;
const PAUSE_US: u64 = 1000;

const SIGHUP: u32 = 1;
/// SIGINT lies between the two.
const SIGQUIT: u32 = 3;

/// The status, as wait(2) has it, by which the host is ending or has ended in order: by anything but SIGKILL. `None` also where nobody can
/// tell, and when the host is alive and has only closed the lifeline.
pub(crate) fn in_order(header: &Header, pidfd: isize) -> Option<u32> {
    let listed = header.host_listed as isize;
    for _ in 0..ATTEMPTS {
        let state = if listed > 0 { state_in_proc(listed) } else { None };
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

/// The finding of the outer guard about the host's end, in memory that both guards have.
pub(crate) struct Found(AtomicU64);

impl Found {
    const UNKNOWN: u64 = 1 << 32;
    const IN_ORDER: u64 = 1 << 33;

    pub(crate) fn leave(&self, status: Option<u32>) {
        let word = status.map_or(Self::UNKNOWN, |status| Self::IN_ORDER | u64::from(status));
        self.0.store(word, Ordering::Release);
    }

    /// For the inner guard. Waits for the outer one, but not for long.
    pub(crate) fn await_in_order(&self) -> Option<u32> {
        for _ in 0..ATTEMPTS_OF_THE_OUTER {
            match self.0.load(Ordering::Acquire) {
                0 => syscall::sleep(PAUSE_US),
                word => return (word & Self::IN_ORDER != 0).then_some(word as u32),
            }
        }
        None
    }
}

/// Whether a terminal asked for this end, by its keys or by hanging up, so that the whole group got the signal: the host ended by it, or
/// with the status that shells have for it.
pub(crate) fn is_by_terminal(status: u32) -> bool {
    let code = status >> 8 & 0xff;
    matches!((status & 0x7f, code.wrapping_sub(128)), (SIGHUP..=SIGQUIT, _) | (0, SIGHUP..=SIGQUIT))
}

fn state_in_proc(pid: isize) -> Option<ProcessState> {
    let proc = open_proc();
    let state = state_of_pid(proc, pid);
    syscall::close(proc);
    state
}
