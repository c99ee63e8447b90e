//! Descriptors of processes (Linux). libuv owns SIGCHLD in a Node process, so an exit is waited for here and by nothing else.

use nix::libc;
use nix::sys::signal::Signal;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A descriptor that becomes readable when the process exits; `None` when there is no such process (or no pidfd, before 5.3).
pub fn open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: a plain system call without pointers; the kernel sets close-on-exec on the new descriptor.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: the kernel just gave us this descriptor, nobody else owns it.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// True when the signal was sent.
pub fn send_signal(descriptor: &OwnedFd, signal: Signal) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor lives for the call; a null siginfo means the same as kill().
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), signal as i32, no_info, 0) == 0
    }
}
