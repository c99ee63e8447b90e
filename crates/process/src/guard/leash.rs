//! The outer guard as the host's child: its end, the guarantee that no zombie stays, and a way to wake a guard that was stopped.
//!
//! No descriptor is held for it while its program runs. Its pid is its own until it has been waited for, which happens here alone.
//! A pidfd is opened to signal it or to wait for its end, and is checked to be that of a child of this process: another part of
//! the host may have waited for all children, and then the number may belong to any process.

use crate::command::GUARD;
use ground::lock::lock;
use ground::os::short_name_of;
use ground::os::unix::pidfd;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::os::fd::{AsFd, OwnedFd};
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
    /// The inner guard's pid; 0 as long as it is not known.
    inner: AtomicI32,
}

impl Guard {
    /// `None`: it is gone, or no descriptor is free.
    fn open(&self) -> Option<OwnedFd> {
        let pidfd = pidfd::open(self.pid).ok()?;
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // ECHILD: a process of somebody else. EINVAL: before Linux 5.4, which can't tell.
        (waitid(Id::PIDFd(pidfd.as_fd()), flags) != Err(Errno::ECHILD)).then_some(pidfd)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pidfd) = self.open() {
            pidfd::send_signal(&pidfd, signal);
        }
    }

    /// Ends a guard whose work is done. Another child of the host, which could have its number by now, is spared.
    fn kill(&self) {
        if let Some(pidfd) = self.open()
            && is_guard(self.pid)
        {
            pidfd::send_signal(&pidfd, Signal::SIGKILL);
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
            match waitid(Id::Pid(Pid::from_raw(self.pid)), what | WaitPidFlag::WNOHANG) {
                Err(Errno::EINTR) => {}
                asked => return asked,
            }
        }
    }

    /// Wakes a guard that was stopped: any program of the same user may stop one. The outer guard wakes the inner one while it
    /// lives.
    fn wake_if_stopped(&self) {
        match self.ask(WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(WaitStatus::Stopped(..)) => self.signal(Signal::SIGCONT),
            Ok(WaitStatus::StillAlive) => {}
            _ => self.wake_inner(),
        }
    }

    fn wake_inner(&self) {
        let inner = self.inner.load(Ordering::Acquire);
        // The inner guard is not our child, so its pid may have been reused by a process that must not be signalled.
        if inner > 0 && is_guard(inner) {
            let _ = kill(Pid::from_raw(inner), Signal::SIGCONT);
        }
    }
}

fn is_guard(pid: i32) -> bool {
    short_name_of(pid) == GUARD
}

/// A child of the host, waited for by nobody else.
#[derive(Debug)]
pub(super) struct Leash {
    pid: i32,
    /// `None`: it has been waited for.
    guard: Option<Arc<Guard>>,
}

impl Leash {
    /// Takes over a child that has not been waited for.
    pub(super) fn new(pid: i32) -> Leash {
        Leash { pid, guard: Some(Arc::new(Guard { pid, inner: AtomicI32::new(0) })) }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn set_inner(&self, pid: i32) {
        if let Some(guard) = &self.guard {
            guard.inner.store(pid, Ordering::Release);
        }
    }

    /// Wakes both guards: somebody may have stopped them. A guard that is gone is no error.
    pub(super) fn wake(&self) {
        if let Some(guard) = &self.guard {
            guard.signal(Signal::SIGCONT);
            guard.wake_inner();
        }
    }

    /// Wakes the guard that somebody has stopped; the other one, when it has ended.
    pub(super) fn wake_if_stopped(&self) {
        if let Some(guard) = &self.guard {
            guard.wake_if_stopped();
        }
    }

    /// Ends the guard itself, not its tree.
    pub(super) fn kill(&self) {
        if let Some(guard) = &self.guard {
            guard.kill();
        }
    }

    /// True: the guard has ended, and is no zombie any more.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.guard.as_ref().is_some_and(|guard| guard.reap()) {
            self.guard = None;
        }
        self.guard.is_none()
    }

    /// Waits for the guard's end, and wakes it before: somebody may have stopped it. The future may be dropped and the call
    /// repeated.
    pub(super) async fn ended(&mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.has_ended() {
            let Some(guard) = &self.guard else { return };
            // Without a descriptor, and after a false end, the guard is asked ever more seldom.
            let is_over = match guard.open() {
                Some(pidfd) => {
                    pidfd::send_signal(&pidfd, Signal::SIGCONT);
                    readable(pidfd).await && guard.reap()
                }
                None => false,
            };
            if !is_over {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// False: it could not be watched.
async fn readable(pidfd: OwnedFd) -> bool {
    // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
    match unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) } {
        Ok(watched) => watched.readable().await.is_ok(),
        Err(_) => false,
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
