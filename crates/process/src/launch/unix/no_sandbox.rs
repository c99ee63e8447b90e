//! PURE. The reasons why nothing here can hold a program in its sandbox, where a sandbox is possible.

use super::super::refusal::no_sandbox;
use ground::error::Error;
use ground::os::Fault;

/// Nothing can, because the system refused a call. `cause`: what may be behind it.
pub(super) fn no_sandbox_by(fault: &Fault, cause: &str) -> Error {
    fault.mark(no_sandbox(&format!("{fault}: {cause}")))
}

/// Possible causes why no guard is available.
pub(super) const NO_GUARD: &str =
    "no guard can work on this machine, which the container, a limit or the kernel's settings may forbid";
