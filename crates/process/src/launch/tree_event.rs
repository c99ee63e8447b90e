//! PURE. What a tree of processes tells of itself.

use super::super::spec::ProcessUsage;
use nix::sys::signal::Signal;

/// How the command itself ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitStatus {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// From the status word of wait(2).
    pub(crate) fn from_wait_status(status: i32) -> Self {
        if nix::libc::WIFSIGNALED(status) {
            ExitStatus { code: None, signal: Some(nix::libc::WTERMSIG(status)) }
        } else {
            ExitStatus { code: Some(nix::libc::WEXITSTATUS(status)), signal: None }
        }
    }

    /// The signal's name, "SIGTERM".
    pub(crate) fn signal_name(self) -> Option<String> {
        let number = self.signal?;
        let named = Signal::try_from(number).map(|signal| signal.as_str().to_owned());
        Some(named.unwrap_or_else(|_| format!("SIG{number}")))
    }
}

/// What a tree reports; each once, `Gone` or `Lost` last.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TreeEvent {
    /// The command itself exited; nothing else was touched yet.
    Exited,
    /// Nothing of the tree is alive (or, with strays kept, nothing that is still ours).
    Gone { status: ExitStatus, usage: ProcessUsage, strays_killed: u32, strays_left: u32 },
    /// What held the tree was killed; the tree is gone all the same, but for what can't be killed.
    Lost { strays_killed: u32, strays_left: u32 },
    /// Killed processes are on their way out: much memory takes the kernel its time. May come many times.
    Dying,
}
