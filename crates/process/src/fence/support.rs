//! Whether this machine lets one process decide about the connections of another.

use ground::os::Fault;
use ground::os::unix::{ProcFolder, proc_folder};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, openat2};
use nix::libc;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

/// Yama's setting from which on only a privileged process may look at others.
const PRIVILEGED_ALONE: u32 = 2;
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Whether the kernel, and whatever holds this process, allow all that the fence needs. Once they have, they are not asked again.
pub(crate) fn can_decide() -> Result<(), Fault> {
    static ALLOWED: OnceLock<()> = OnceLock::new();
    if ALLOWED.get().is_some() {
        return Ok(());
    }
    can_find_callers()?;
    can_take_sockets()?;
    can_read_callers()?;
    can_open_below()?;
    may_look_at_children()?;
    can_listen()?;
    ALLOWED.get_or_init(|| ());
    Ok(())
}

fn refused(call: &'static str) -> impl Fn(Errno) -> Fault {
    move |errno| Fault::of_errno(call, None, errno as i32)
}

/// A caller is looked up in /proc by its number.
fn can_find_callers() -> Result<(), Fault> {
    if proc_folder() == ProcFolder::Own {
        return Ok(());
    }
    let reason = io::Error::other("its numbers are those of another PID namespace");
    Err(Fault::of("readlink", Some(Path::new("/proc/self")), &reason))
}

/// pidfd_getfd, from Linux 5.6 on. Containers may forbid it.
fn can_take_sockets() -> Result<(), Fault> {
    let own = nix::unistd::getpid().as_raw();
    let process = ground::os::unix::pidfd::open(own).map_err(refused("pidfd_open"))?;
    // SAFETY: a call without pointers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), process.as_raw_fd(), 0) };
    let taken = Errno::result(taken).map_err(refused("pidfd_getfd"))?;
    // SAFETY: the kernel has just given this process the descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(taken as RawFd) });
    Ok(())
}

fn can_read_callers() -> Result<(), Fault> {
    let (source, mut target) = ([1u8], [0u8]);
    let local = libc::iovec { iov_base: target.as_mut_ptr().cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: source.as_ptr().cast_mut().cast(), iov_len: 1 };
    // SAFETY: one byte of this process is copied to another one.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    Errno::result(read).map(drop).map_err(refused("process_vm_readv"))
}

fn can_open_below() -> Result<(), Fault> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    openat2(AT_FDCWD, "/", how).map(drop).map_err(refused("openat2"))
}

fn may_look_at_children() -> Result<(), Fault> {
    // Without Yama there is no setting.
    let Ok(setting) = fs::read_to_string(YAMA) else { return Ok(()) };
    if setting.trim().parse::<u32>().is_ok_and(|scope| scope < PRIVILEGED_ALONE) {
        return Ok(());
    }
    let reason = format!("the setting is {}", setting.trim());
    Err(Fault::of("read", Some(Path::new(YAMA)), &io::Error::other(reason)))
}

/// Installs a filter that allows everything, with a listener, for one thread that then ends. A filter with a listener above this process
/// is the only way to fail that the kernel's version does not tell.
fn can_listen() -> Result<(), Fault> {
    let thread = std::thread::Builder::new().name("sheepdog-probe".to_owned()).spawn(|| {
        const SET_MODE_FILTER: libc::c_uint = 1;
        const NEW_LISTENER: libc::c_uint = 1 << 3;
        let mut allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        // SAFETY: no pointers; it holds for this thread, which executes nothing and ends.
        let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        Errno::result(set).map_err(refused("prctl(PR_SET_NO_NEW_PRIVS)"))?;
        // SAFETY: the kernel reads one instruction.
        let listener =
            unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program) };
        let listener = Errno::result(listener).map_err(refused("seccomp"))?;
        // SAFETY: the kernel has just given this process the descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(listener as RawFd) });
        Ok(())
    });
    let thread = thread.map_err(Fault::in_call("clone"))?;
    thread.join().unwrap_or_else(|_| Err(Fault::of("seccomp", None, &io::Error::other("the thread failed"))))
}
