//! Whether this machine lets one process decide about the connections of another.

use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Yama's setting from which on only a privileged process may look at others.
const PRIVILEGED_ALONE: u32 = 2;

/// Whether the kernel, and whatever holds this process, allow all that the fence needs. Asked once.
pub(crate) fn can_decide() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| can_take_sockets() && may_look_at_children() && can_listen())
}

/// pidfd_getfd, from Linux 5.6 on. Containers may forbid it.
fn can_take_sockets() -> bool {
    let own = nix::unistd::getpid().as_raw();
    let Ok(process) = ground::os::unix::pidfd::open(own) else { return false };
    // SAFETY: a call without pointers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), process.as_raw_fd(), 0) };
    let Ok(taken) = Errno::result(taken) else { return false };
    // SAFETY: the kernel has just given this process the descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(taken as RawFd) });
    true
}

fn may_look_at_children() -> bool {
    let setting = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    // Without Yama there is no setting.
    setting.map_or(true, |setting| setting.trim().parse::<u32>().is_ok_and(|scope| scope < PRIVILEGED_ALONE))
}

/// Installs a filter that allows everything, with a listener, for one thread that then ends. A filter with a listener above this process
/// is the only way to fail that the kernel's version does not tell.
fn can_listen() -> bool {
    std::thread::Builder::new()
        .name("sheepdog-probe".to_owned())
        .spawn(|| {
            const SET_MODE_FILTER: libc::c_uint = 1;
            const NEW_LISTENER: libc::c_uint = 1 << 3;
            let mut allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
            let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
            // SAFETY: no pointers; it holds for this thread, which executes nothing and ends.
            if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                return false;
            }
            // SAFETY: the kernel reads one instruction.
            let listener = unsafe {
                libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program)
            };
            let Ok(listener) = Errno::result(listener) else { return false };
            // SAFETY: the kernel has just given this process the descriptor.
            drop(unsafe { OwnedFd::from_raw_fd(listener as RawFd) });
            true
        })
        .is_ok_and(|thread| thread.join().unwrap_or(false))
}
