//! The outer guard as the host's child: a pidfd to wait with, the guarantee that no zombie stays, and a way to wake a guard
//! that was stopped.

use ground::lock::lock;
use ground::os::pidfd;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Guards whose run was dropped where nobody could wait for them any more. Each later launch looks after them.
static UNATTENDED: Mutex<Vec<Arc<Guard>>> = Mutex::new(Vec::new());

/// A traced zombie's pidfd says that it has ended, and nobody but its tracer may take it: asked ever more seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A child that nobody else waits for.
#[derive(Debug)]
struct Guard {
    pid: i32,
    pidfd: OwnedFd,
    /// The inner guard's pid; 0 as long as it is not known.
    inner: AtomicI32,
}

impl Guard {
    fn signal(&self, signal: i32) {
        // SAFETY: the system call reads its numbers and no memory (no siginfo is passed).
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd.as_raw_fd(),
                signal,
                std::ptr::null::<u8>(),
                0,
            );
        }
    }

    /// True: it has ended, and is no zombie any more.
    fn reap(&self) -> bool {
        match self.ask(WaitPidFlag::WEXITED) {
            Ok(WaitStatus::StillAlive) => false,
            // ECHILD: the host ignores SIGCHLD, so the kernel has reaped it.
            _ => true,
        }
    }

    fn ask(&self, what: WaitPidFlag) -> Result<WaitStatus, Errno> {
        loop {
            match waitid(Id::PIDFd(self.pidfd.as_fd()), what | WaitPidFlag::WNOHANG) {
                Err(Errno::EINTR) => {}
                // Before Linux 5.4. The pid can't be another's: it is this guard's until it has been waited for, here alone.
                Err(Errno::EINVAL) => {
                    return waitid(Id::Pid(Pid::from_raw(self.pid)), what | WaitPidFlag::WNOHANG);
                }
                asked => return asked,
            }
        }
    }

    /// Wakes a guard that was stopped: any program of the same user may stop one. The outer guard wakes the inner one while it
    /// lives.
    fn wake_if_stopped(&self) {
        match self.ask(WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(WaitStatus::Stopped(..)) => self.signal(libc::SIGCONT),
            Ok(WaitStatus::StillAlive) => {}
            _ => self.wake_inner(),
        }
    }

    fn wake_inner(&self) {
        let inner = self.inner.load(Ordering::Acquire);
        // The inner guard is not our child, so its pid may have been reused by a process that must not be signalled.
        let name = std::fs::read(format!("/proc/{inner}/comm")).unwrap_or_default();
        if inner > 0 && name == b"sheepdog-guard\n" {
            let _ = kill(Pid::from_raw(inner), Signal::SIGCONT);
        }
    }
}

/// A child of the host, waited for by pidfd and by nobody else.
#[derive(Debug)]
pub(super) struct Leash {
    pid: i32,
    /// `None`: it has been waited for.
    guard: Option<Arc<Guard>>,
}

impl Leash {
    /// Takes over a child that has not been waited for.
    pub(super) fn new(pid: i32) -> Result<Leash, Errno> {
        let guard = Arc::new(Guard { pid, pidfd: pidfd::open(pid)?, inner: AtomicI32::new(0) });
        Ok(Leash { pid, guard: Some(guard) })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn set_inner(&self, pid: i32) {
        if let Some(guard) = &self.guard {
            guard.inner.store(pid, Ordering::Release);
        }
    }

    /// Wakes both guards: somebody may have stopped them.
    pub(super) fn wake(&self) {
        self.signal(libc::SIGCONT);
        if let Some(guard) = &self.guard {
            guard.wake_inner();
        }
    }

    /// Wakes the guard that somebody has stopped; the other one, when it has ended.
    pub(super) fn wake_if_stopped(&self) {
        if let Some(guard) = &self.guard {
            guard.wake_if_stopped();
        }
    }

    /// Sends the signal to the guard itself, not to its tree. A guard that is gone is no error.
    pub(super) fn signal(&self, signal: i32) {
        if let Some(guard) = &self.guard {
            guard.signal(signal);
        }
    }

    /// Waits for the guard's end. The future may be dropped and the call repeated.
    pub(super) async fn ended(&mut self) {
        let mut pause = FIRST_PAUSE;
        while let Some(guard) = &self.guard {
            if guard.reap() {
                self.guard = None;
                return;
            }
            let Ok(pidfd) = guard.pidfd.as_fd().try_clone_to_owned() else { return };
            // Registered for one wait only: the guard lives in its own descriptor, and the run in its lifeline.
            // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
            let Ok(watched) = (unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }) else {
                return;
            };
            if watched.readable().await.is_err() {
                return;
            }
            if !guard.reap() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        if guard.reap() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let mut leash = Unattended(Leash { pid: self.pid, guard: Some(guard) });
                runtime.spawn(async move { leash.0.ended().await });
            }
            Err(_) => leave(guard),
        }
    }
}

/// A leash in a task of its own. When the runtime ends before the guard does, the next launch takes it over.
struct Unattended(Leash);

impl Drop for Unattended {
    fn drop(&mut self) {
        if let Some(guard) = self.0.guard.take() {
            leave(guard);
        }
    }
}

fn leave(guard: Arc<Guard>) {
    lock(&UNATTENDED).push(guard);
}

/// Reaps unattended guards that have ended since.
pub(super) fn reap_unattended() {
    lock(&UNATTENDED).retain(|guard| !guard.reap());
}
