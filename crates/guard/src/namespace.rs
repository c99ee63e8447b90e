//! The strict level: the program and everything it starts live in a PID namespace whose init is the inner guard. No process
//! inside can kill that init. When it ends, the kernel kills every process inside.

use crate::children;
use crate::failure::{Failure, check};
use crate::handover::fail;
use crate::protocol::{
    CALL_CLONE, CALL_GID_MAP, CALL_MOUNT_PROC, CALL_MOUNT_ROOT, CALL_OPEN_PROC, CALL_SETGROUPS, CALL_UID_MAP,
    STAGE_NAMESPACE,
};
use crate::syscall::{self, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER};

const MS_NOSUID: usize = 2;
const MS_NODEV: usize = 4;
const MS_NOEXEC: usize = 8;
const MS_REC: usize = 1 << 14;
const MS_SLAVE: usize = 1 << 19;

/// Forks into new PID and mount namespaces. A process that may not create those creates a user namespace first, which every user
/// may unless the machine forbids it.
pub(crate) fn fork() -> Result<isize, Failure> {
    if syscall::getuid() == 0 {
        let pid = syscall::fork(CLONE_NEWPID | CLONE_NEWNS);
        if pid != syscall::EPERM {
            return check(STAGE_NAMESPACE, CALL_CLONE, pid);
        }
    }
    // The current ids: in the new namespace they are unknown until the maps are written.
    let (user, group) = (syscall::getuid(), syscall::getgid());
    let pid = syscall::fork(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
    check(STAGE_NAMESPACE, CALL_CLONE, pid)?;
    if pid == 0
        && let Err(failure) = map_ids(user, group)
    {
        // This is the new process: it fails as the inner guard does.
        fail(failure)
    }
    Ok(pid)
}

/// Maps the ids to the same numbers as outside. An unprivileged process may map its own ids, once it has given up setgroups.
fn map_ids(user: u32, group: u32) -> Result<(), Failure> {
    check(STAGE_NAMESPACE, CALL_SETGROUPS, write_file(b"/proc/self/setgroups\0", b"deny"))?;
    check(STAGE_NAMESPACE, CALL_UID_MAP, write_map(b"/proc/self/uid_map\0", user))?;
    check(STAGE_NAMESPACE, CALL_GID_MAP, write_map(b"/proc/self/gid_map\0", group)).map(drop)
}

fn write_map(path: &[u8], id: u32) -> isize {
    // "ID ID 1"
    let mut digits = [b'0'; 10];
    let mut rest = id;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut text = [b' '; 23];
    let line = digits.iter().chain(b" ").chain(&digits).chain(b" 1");
    for (place, byte) in text.iter_mut().zip(line) {
        *place = *byte;
    }
    write_file(path, &text)
}

fn write_file(path: &[u8], text: &[u8]) -> isize {
    let file = syscall::open(syscall::AT_FDCWD, path, syscall::O_WRONLY);
    if file < 0 {
        return file;
    }
    let written = syscall::write(file, text);
    syscall::close(file);
    written
}

/// Runs in the new namespaces: mounts a /proc that shows this PID namespace. Returns the old one, which shows the host.
pub(crate) fn enter() -> Result<isize, Failure> {
    let old = check(STAGE_NAMESPACE, CALL_OPEN_PROC, children::open_proc())?;
    // Mounts of the host keep appearing here; mounts made here never appear there.
    let result = syscall::mount(b"none\0", b"/\0", b"none\0", MS_REC | MS_SLAVE);
    check(STAGE_NAMESPACE, CALL_MOUNT_ROOT, result)?;
    let result = syscall::mount(b"proc\0", b"/proc\0", b"proc\0", MS_NOSUID | MS_NODEV | MS_NOEXEC);
    check(STAGE_NAMESPACE, CALL_MOUNT_PROC, result)?;
    Ok(old)
}

/// The pid of the only child as the host sees it: the last number but one, whatever namespace the old /proc was mounted for. 0: the old
/// /proc does not show it.
pub(crate) fn pid_for_host(old_proc: isize, pid: isize) -> isize {
    if old_proc < 0 {
        return pid;
    }
    let mut listed = 0;
    let list = syscall::open(old_proc, b"thread-self/children\0", syscall::O_RDONLY);
    children::each_in(list, &mut |pid| listed = pid);
    syscall::close(list);
    children::pid_above(old_proc, listed)
}
