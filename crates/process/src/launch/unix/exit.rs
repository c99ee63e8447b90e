//! The exit status of a program, as wait(2) tells it.

use super::super::tree_event::ExitStatus;
use nix::libc;

/// Reads the status word of wait(2).
pub(super) fn exit_of(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus { code: None, signal: Some(libc::WTERMSIG(status)) }
    } else {
        ExitStatus { code: Some(libc::WEXITSTATUS(status)), signal: None }
    }
}
