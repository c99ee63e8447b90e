//! Process descriptors (Linux). libuv owns SIGCHLD in a Node process, so exits are awaited through these descriptors.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Opens a descriptor that becomes readable when the process exits. ESRCH: no such process. ENOSYS: no pidfds, before Linux 5.3.
pub fn open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: a plain system call without pointers; the kernel sets close-on-exec on the new descriptor.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = Errno::result(descriptor)? as i32;
    // SAFETY: the kernel just gave us this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// True when the signal was sent.
pub fn send_signal(descriptor: &OwnedFd, signal: Signal) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor lives for the call; a null siginfo means the same as kill().
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), signal as i32, no_info, 0) == 0
    }
}
