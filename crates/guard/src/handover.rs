//! The things that the inner guard leaves to the outer one.

use crate::failure::Failure;
use crate::host_end;
use crate::lifeline::report_error;
use crate::program::Cgroup;
use crate::protocol::{Frame, ORIGIN_INNER};
use crate::syscall;

/// The inner guard's exit codes. Any other end means that it was lost.
pub(crate) const INNER_DONE: usize = 40;
pub(crate) const INNER_KEEPS: usize = 41;
/// The tree is gone, and its report is in [`Shared`]: this guard sends it.
pub(crate) const INNER_LEAVES_REPORT: usize = 42;

/// The memory that both guards have, by which the inner one leaves things to the outer one.
pub(crate) struct Shared {
    /// Path of the run's own cgroup.
    pub cgroup: Cgroup,
    pub report: Frame,
    /// The outer guard leaves it for the inner one.
    pub host_end: host_end::Found,
}

/// Reports a failure and exits. The outer guard ends by that.
pub(crate) fn fail(failure: Failure) -> ! {
    report_error(ORIGIN_INNER, failure);
    syscall::exit(INNER_DONE)
}
