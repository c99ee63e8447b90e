//! The descriptors that both guards watch, and the calls that keep them at it.

use crate::failure::{Failure, check};
use crate::protocol::{CALL_DEATH_SIGNAL, CALL_SUBREAPER, STAGE_SUPERVISE};
use crate::syscall;

pub(crate) const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;
const PR_SET_CHILD_SUBREAPER: usize = 36;

/// The bits of a guard's waiter.
pub(crate) const CHILDREN: u64 = 0;
pub(crate) const HOST_END: u64 = 1;
pub(crate) const HOST: u64 = 2;
pub(crate) const OUTER: u64 = 3;

/// The descriptors that both guards watch.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    /// Readable when a child has ended.
    pub children: isize,
    /// Readable when the host has ended.
    pub host: isize,
    /// Readable when the outer guard has ended.
    pub outer: isize,
}

/// A process that may signal a guard may also stop it. When a process that the guard watches dies meanwhile, the kernel sends
/// SIGCONT.
pub(crate) fn wake_when_the_parent_dies() -> Result<(), Failure> {
    let set = syscall::prctl(PR_SET_PDEATHSIG, syscall::SIGCONT);
    check(STAGE_SUPERVISE, CALL_DEATH_SIGNAL, set).map(drop)
}

/// Forbids debuggers: one of the same user could stop a guard for ever.
pub(crate) fn forbid_debuggers() {
    syscall::prctl(PR_SET_DUMPABLE, 0);
}

pub(crate) fn become_subreaper() -> Result<(), Failure> {
    check(STAGE_SUPERVISE, CALL_SUBREAPER, syscall::prctl(PR_SET_CHILD_SUBREAPER, 1)).map(drop)
}
