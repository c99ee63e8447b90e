//! The outer guard as the host's child: a pidfd to wait with, and the promise that no zombie stays.

use crate::os::pidfd;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Guards whose run was dropped where nobody could wait for them any more. Each later launch looks after them.
static UNATTENDED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A child of the host, waited for by pidfd and by nobody else.
#[derive(Debug)]
pub(super) struct Leash {
    pid: i32,
    /// `None`: it has been waited for.
    pidfd: Option<OwnedFd>,
}

impl Leash {
    /// Of a child that has not been waited for.
    pub(super) fn new(pid: i32) -> Result<Leash, Errno> {
        Ok(Leash { pid, pidfd: Some(pidfd::open(pid)?) })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// To the guard itself, not its tree. A guard that is gone is no error.
    pub(super) fn signal(&self, signal: i32) {
        if let Some(pidfd) = &self.pidfd {
            // SAFETY: the system call reads its numbers and no memory (no siginfo is passed).
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    pidfd.as_raw_fd(),
                    signal,
                    std::ptr::null::<u8>(),
                    0,
                );
            }
        }
    }

    /// Waits for its end. May be dropped half way and called again.
    pub(super) async fn ended(&mut self) {
        while let Some(pidfd) = &self.pidfd {
            if reap(pidfd) {
                self.pidfd = None;
                return;
            }
            let Ok(pidfd) = pidfd.as_fd().try_clone_to_owned() else { return };
            // Registered for one wait only: the guard lives in its own descriptor, and the run in its lifeline.
            // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
            let Ok(watched) = (unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }) else {
                return;
            };
            if watched.readable().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some(pidfd) = self.pidfd.take() else { return };
        if reap(&pidfd) {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let mut leash = Unattended(Leash { pid: self.pid, pidfd: Some(pidfd) });
                runtime.spawn(async move { leash.0.ended().await });
            }
            Err(_) => leave(pidfd),
        }
    }
}

/// A leash in a task of its own. When the runtime ends before the guard does, the next launch takes it over.
struct Unattended(Leash);

impl Drop for Unattended {
    fn drop(&mut self) {
        if let Some(pidfd) = self.0.pidfd.take() {
            leave(pidfd);
        }
    }
}

fn leave(pidfd: OwnedFd) {
    if let Ok(mut unattended) = UNATTENDED.lock() {
        unattended.push(pidfd);
    }
}

/// Waits for those that ended since.
pub(super) fn reap_unattended() {
    if let Ok(mut unattended) = UNATTENDED.lock() {
        unattended.retain(|pidfd| !reap(pidfd));
    }
}

/// True: it has ended, and is no zombie any more.
fn reap(pidfd: &OwnedFd) -> bool {
    loop {
        match waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::StillAlive) => return false,
            Err(Errno::EINTR) => {}
            // ECHILD: the host ignores SIGCHLD, so the kernel has reaped it.
            _ => return true,
        }
    }
}
