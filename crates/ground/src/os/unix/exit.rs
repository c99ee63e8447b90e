//! Waits for the exit of a child without reaping it and without SIGCHLD, which belongs to libuv.

use super::super::blocking::blocking;
use nix::libc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Poll interval for a child's exit, when neither a pidfd nor a thread is available.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Resolves when the child has exited; it stays a zombie. Call it within tokio.
pub fn wait_for_exit(pid: i32) -> JoinHandle<()> {
    #[cfg(target_os = "linux")]
    if let Ok(descriptor) = super::pidfd::open(pid) {
        // SAFETY: the descriptor is owned by the AsyncFd, and nothing else closes or replaces it.
        let watched = unsafe {
            tokio::io::unix::AsyncFd::register_with_interest(descriptor, tokio::io::Interest::READABLE)
        };
        if let Ok(watched) = watched {
            return crate::task::spawn(async move {
                let _ = watched.readable().await;
            });
        }
    }
    crate::task::spawn(async move {
        if blocking(move || await_exit(pid, 0)).await.is_err() {
            while !has_exited(pid) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    })
}

/// Whether a child has exited by now; it stays a zombie.
pub fn has_exited(pid: i32) -> bool {
    await_exit(pid, libc::WNOHANG)
}

/// WNOWAIT leaves the zombie to the code that reaps it.
fn await_exit(pid: i32, options: i32) -> bool {
    loop {
        // SAFETY: zeroed bytes are a valid siginfo_t, which the call only writes to.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT | options;
        // SAFETY: `info` outlives the call; the pid is a child of ours that nobody else waits for.
        if unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, options) } == 0 {
            return info.si_signo != 0;
        }
        if nix::errno::Errno::last() != nix::errno::Errno::EINTR {
            // Another part of the process has reaped the child, so it has exited.
            return true;
        }
    }
}
