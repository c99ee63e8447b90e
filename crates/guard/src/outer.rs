//! The outer guard: checks which process asked for it, starts the inner guard and watches over it.

use crate::children::{Children, List, Reaped, drain};
use crate::failure::{Failure, check};
use crate::handover::{INNER_DONE, INNER_KEEPS, INNER_LEAVES_REPORT, Shared};
use crate::lifeline::{LIFELINE, report_error, say};
use crate::program;
use crate::protocol::{
    CALL_CLONE, CALL_EPOLL_CTL, CALL_GETPPID, CALL_MMAP, CALL_PIDFD_OPEN, CALL_RECEIVE, CALL_SIGNALFD,
    FLAG_PID_NAMESPACE, FRAME_LOST, HEADER_BYTES, Header, ORIGIN_OUTER, STAGE_FORK, STAGE_REQUEST,
    STAGE_SUPERVISE,
};
use crate::waiter::{PEER_ENDED, READABLE, Waiter};
use crate::watch::{
    CHILDREN, HOST, HOST_END, Watch, become_subreaper, forbid_debuggers, wake_when_the_parent_dies,
};
use crate::{group, host_end, inner, namespace, syscall};

/// Descriptor number of the folder that the guard begins in.
const FOLDER: isize = 4;
/// How long the inner guard may take when the host is gone and the program has no more time, before the outer guard takes over.
const INNER_GRACE_US: u64 = 50_000;

const PR_SET_NAME: usize = 15;
const EVERY_SIGNAL: u64 = u64::MAX;

pub(crate) fn run() -> ! {
    // The host's folder at the time of the call. The host may have changed to another one since. Without one, the descriptor is a
    // socket, and this changes nothing.
    syscall::fchdir(FOLDER);
    // Close descriptors that the host left open without close-on-exec. Neither the guard nor the program may have them.
    syscall::close_range(LIFELINE as usize + 1, u32::MAX as usize);
    syscall::close_on_exec(LIFELINE);
    // SIGTERM, SIGHUP and the like stay pending for ever: only the guard's own decision or SIGKILL ends it.
    syscall::set_signal_mask(EVERY_SIGNAL);
    // posix_spawn has reset the other signals to their default, but leaves the C library's own two ignored.
    syscall::default_action(32);
    syscall::default_action(33);
    // A group but not a session: under load a new session costs milliseconds, because the scheduler groups by session (autogroup)
    // and a new group waits for its first turn.
    group::own_group();
    syscall::prctl(PR_SET_NAME, c"sheepdog-guard".as_ptr() as usize);
    // The inner guard inherits them.
    syscall::ask_for_short_turns();
    match begin() {
        Ok(begun) => {
            forbid_debuggers();
            // The inner guard passes the program's pipes on.
            syscall::close_range(0, 2);
            watch_over(begun)
        }
        Err(failure) => {
            report_error(ORIGIN_OUTER, failure);
            syscall::exit(1)
        }
    }
}

struct Begun {
    header: Header,
    inner: isize,
    waiter: Waiter,
    watch: Watch,
    children: Children,
    shared: *const Shared,
}

/// Opens all that the guards need, and starts the inner one. Each of these calls carries the level, so that none may fail.
fn begin() -> Result<Begun, Failure> {
    become_subreaper()?;
    wake_when_the_parent_dies()?;
    let refused = Failure { stage: STAGE_REQUEST, call: CALL_RECEIVE, result: syscall::EPROTO };
    let header = receive_header().ok_or(refused)?;
    let host = syscall::getppid();
    let children = syscall::signalfd(1 << (syscall::SIGCHLD - 1));
    let watch = Watch {
        children: check(STAGE_SUPERVISE, CALL_SIGNALFD, children)?,
        host: check(STAGE_SUPERVISE, CALL_PIDFD_OPEN, syscall::pidfd_open(host))?,
        outer: check(STAGE_SUPERVISE, CALL_PIDFD_OPEN, syscall::pidfd_open(syscall::getpid()))?,
    };
    // The host died before its pidfd was opened, so the pidfd refers to another process.
    if host != header.host_pid as isize || syscall::getppid() != host {
        return Err(Failure { stage: STAGE_SUPERVISE, call: CALL_GETPPID, result: syscall::ESRCH });
    }
    let waiter = Waiter::new()?;
    for (place, descriptor, wanted) in
        [(CHILDREN, watch.children, READABLE), (HOST_END, LIFELINE, PEER_ENDED), (HOST, watch.host, READABLE)]
    {
        check(STAGE_SUPERVISE, CALL_EPOLL_CTL, waiter.add(place, descriptor, wanted))?;
    }
    let children = Children::new(0, false, List::open(&header));
    let shared = syscall::map_shared_memory(size_of::<Shared>());
    let shared = check(STAGE_SUPERVISE, CALL_MMAP, shared)?;
    // SAFETY: a mapping of that size, zeroed, which is a valid value, used by nobody else in this process. The inner guard writes
    // to it, and this one reads it after the inner guard's end.
    let left = unsafe { &mut *(shared as *mut Shared) };
    let in_namespace = header.flags & FLAG_PID_NAMESPACE != 0;
    let pid =
        if in_namespace { namespace::fork()? } else { check(STAGE_FORK, CALL_CLONE, syscall::fork(0))? };
    if pid == 0 {
        inner::run(&header, watch, left)
    }
    Ok(Begun { header, inner: pid, waiter, watch, children, shared: shared as *const Shared })
}

fn receive_header() -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    let mut length = 0;
    while length < HEADER_BYTES {
        let got = syscall::receive_waiting(LIFELINE, bytes.get_mut(length..)?);
        if got == syscall::EAGAIN || got == syscall::EINTR {
            continue;
        }
        if got <= 0 {
            return None;
        }
        length += got as usize;
    }
    Header::decode(&bytes)
}

fn watch_over(begun: Begun) -> ! {
    let Begun { header, inner, waiter, watch, mut children, shared: left } = begun;
    // The time until which the inner guard may still finish. Set when the host is gone.
    let mut deadline = None;
    loop {
        let timeout = deadline.map(|at: u64| at.saturating_sub(syscall::now_us()).div_ceil(1000));
        let there = waiter.wait(timeout);
        if there & 1 << CHILDREN != 0 {
            drain(watch.children);
            let mut inner_status = None;
            let reaped = children.reap(|pid, status| {
                if pid == inner {
                    inner_status = Some(status);
                }
            });
            if let Some(status) = inner_status {
                finish(status, reaped, children, left)
            }
            // The inner guard may have been stopped. SIGCONT limits how long any signal keeps it from its work.
            syscall::kill(inner, syscall::SIGCONT);
        }
        if deadline.is_none() && there & (1 << HOST_END | 1 << HOST) != 0 {
            // The host is gone for good: from here on only the inner guard's end is awaited.
            waiter.remove(LIFELINE);
            waiter.remove(watch.host);
            let in_order = host_end::in_order(&header, watch.host);
            // SAFETY: the mapping lives as long as this process, and the field is an atomic.
            unsafe { &(*left).host_end }.leave(in_order);
            let grace_us = if in_order.is_some() { u64::from(header.grace_ms) * 1000 } else { 0 };
            deadline = Some(syscall::now_us().wrapping_add(grace_us).wrapping_add(INNER_GRACE_US));
        }
        if deadline.is_some_and(|at| syscall::now_us() >= at) {
            // The inner guard is stopped or stuck. Its children become this guard's.
            syscall::kill(inner, syscall::SIGKILL);
            take_over(children, left)
        }
    }
}

/// The inner guard has ended.
fn finish(status: i32, reaped: Reaped, mut children: Children, left: *const Shared) -> ! {
    let exited_with = |code: usize| status == (code as i32) << 8;
    if exited_with(INNER_KEEPS) || (exited_with(INNER_DONE) && matches!(reaped, Reaped::None)) {
        syscall::exit(0)
    }
    if exited_with(INNER_DONE) {
        // The inner guard had to leave processes behind.
        children.kill_all(false, &[0]);
        syscall::exit(0)
    }
    if exited_with(INNER_LEAVES_REPORT) {
        // Closing takes time. What comes after the report is short, so that this process has mostly ended when the host looks.
        syscall::close_range(LIFELINE as usize + 1, u32::MAX as usize);
        // SAFETY: as in `take_over`.
        say(unsafe { &(*left).report });
        syscall::exit(0)
    }
    take_over(children, left)
}

/// Takes over from an inner guard that is dead or about to be.
fn take_over(mut children: Children, left: *const Shared) -> ! {
    // SAFETY: the mapping lives as long as this process. Another process wrote it, but not any more; the address came from
    // the kernel, so the compiler assumes that each system call may have changed what is there.
    let cgroup = unsafe { &(*left).cgroup };
    children.kill_all(false, cgroup);
    say(&children.end(FRAME_LOST, ORIGIN_OUTER));
    program::remove_cgroup(cgroup);
    syscall::exit(2)
}
