//! PURE. Errors for requests that the system, or its containment, refuses.

use ground::error::{Error, ErrorCode};
use ground::os::Fault;
use std::io;

/// The system gave no thread to start the program on.
pub(crate) fn no_thread(error: io::Error) -> Error {
    let message = format!(
        "the system refused a thread to start the program ({error}): raise the limit of processes (`ulimit -u`), or run fewer at once"
    );
    Error::new(ErrorCode::ProcessSpawnFailed, message)
        .with("errno", error.raw_os_error().unwrap_or(0))
        .with("syscall", "clone")
}

/// Nothing here can hold a program in its sandbox.
pub(super) fn no_sandbox(reason: &str) -> Error {
    Error::new(
        ErrorCode::SandboxUnavailable,
        format!("`sandbox` is unavailable on this machine, so nothing was started: {reason}"),
    )
}

/// `CONTAINMENT_UNAVAILABLE` for limits that nothing could enforce.
pub(super) fn no_limits(fault: Option<&Fault>) -> Error {
    let causes = "nothing here can enforce `memoryMaxBytes` or `maxProcesses`: they need a writable cgroup (version 2) with the \
         controllers memory and pids, as `systemd-run --user --scope` gives one, and `containment` other than \"group\"";
    let error =
        |message: String| Error::new(ErrorCode::ContainmentUnavailable, message).with("containment", "group");
    match fault {
        Some(fault) => fault.mark(error(format!("{causes}: {fault}"))),
        None => error(causes.to_owned()),
    }
}
