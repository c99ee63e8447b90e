//! The inner guard: starts the program, obeys the host, reports, and kills the tree at the end.

use crate::children::{Children, List, Reaped, drain};
use crate::outer::{CHILDREN, HOST, HOST_END, OUTER};
use crate::program::{self, Cgroup, Started};
use crate::protocol::{
    COMMAND_KILL, COMMAND_RELEASE, COMMAND_SIGNAL, FLAG_PID_NAMESPACE, FLAG_SCAN_PROC, FRAME_GONE,
    FRAME_LOST, FRAME_STARTED, Frame, Header, ORIGIN_INNER, STAGE_SUPERVISE,
};
use crate::waiter::{PEER_ENDED, READABLE, Waiter};
use crate::{
    LIFELINE, Watch, forbid_debuggers, namespace, outer, report_error, say, syscall,
    wake_when_the_parent_dies,
};

/// Why the inner guard stopped waiting.
enum End {
    /// The program ended and left nobody behind.
    Alone,
    /// The program ended; the host wants what it left behind to live on.
    Released,
    /// The host asked, or is gone.
    Killed,
    /// The outer guard is gone; so is half of the protection: the run is lost.
    Lost,
}

/// `cgroup` is seen by the outer guard too.
pub(crate) fn run(header: &Header, watch: Watch, cgroup: &mut Cgroup) -> ! {
    // What the outer guard waits with is its own.
    syscall::close_range(watch.outer as usize + 1, u32::MAX as usize);
    // No group holds both guards, nor the program (which is in a session of its own).
    syscall::own_group();
    outer::become_subreaper();
    wake_when_the_parent_dies();
    // The outer guard may have died before somebody stopped this one: then the host's end is the last that happens.
    syscall::wake_by(LIFELINE);
    syscall::ask_for_short_turns();
    let in_namespace = header.flags & FLAG_PID_NAMESPACE != 0;
    let mut host_view = -1;
    if in_namespace {
        host_view = namespace::enter().unwrap_or_else(|failure| fail(failure.stage, failure.result));
    }
    // Ids have been mapped by now, which one who can't be debugged may not do.
    forbid_debuggers();
    let waiter = waiter(watch).unwrap_or_else(|errno| fail(STAGE_SUPERVISE, errno));
    let list = List::open(header.flags & FLAG_SCAN_PROC != 0);
    let started = program::start(header).unwrap_or_else(|failure| fail(failure.stage, failure.result));
    *cgroup = started.cgroup;
    // The program has its own copies; from here on its pipes are none of our business.
    syscall::close_range(0, 2);
    let seen_pid = namespace::pid_for_host(host_view, started.pid);
    // In a namespace nobody can stop this guard, and its pid means nothing outside.
    let own_pid = if in_namespace { 0 } else { syscall::getpid() };
    say(&Frame::new(FRAME_STARTED, ORIGIN_INNER)
        .u32(seen_pid as u32)
        .u32((started.cgroup[0] != 0).into())
        .u32(own_pid as u32));
    let children = Children::new(started.pid, true, list);
    supervise(waiter, watch, children, &started, in_namespace)
}

fn waiter(watch: Watch) -> Result<Waiter, isize> {
    let waiter = Waiter::new()?;
    for (place, descriptor, wanted) in [
        (CHILDREN, watch.children, READABLE),
        (HOST_END, LIFELINE, READABLE | PEER_ENDED),
        (HOST, watch.host, READABLE),
        (OUTER, watch.outer, READABLE),
    ] {
        let added = waiter.add(place, descriptor, wanted);
        if added < 0 {
            return Err(added);
        }
    }
    Ok(waiter)
}

/// Says what failed and ends; the outer guard ends by that.
pub(crate) fn fail(stage: u32, result: isize) -> ! {
    report_error(ORIGIN_INNER, stage, result);
    syscall::exit(outer::INNER_DONE)
}

fn supervise(
    waiter: Waiter,
    watch: Watch,
    mut children: Children,
    started: &Started,
    in_namespace: bool,
) -> ! {
    let end = wait(&mut children, waiter, watch, started.pid);
    if let End::Released = end {
        say(&Frame::new(FRAME_GONE, ORIGIN_INNER).u32(0).u32(0).u32(0));
        syscall::exit(outer::INNER_KEEPS)
    }
    children.kill_all(in_namespace, &started.cgroup);
    let kind = if matches!(end, End::Lost) { FRAME_LOST } else { FRAME_GONE };
    say(&Frame::new(kind, ORIGIN_INNER).u32(children.killed).u32(children.rounds).u32(children.left));
    program::remove_cgroup(&started.cgroup);
    syscall::exit(outer::INNER_DONE)
}

/// The program's exit alone ends nothing: others may still write into its pipes, and the host says how long they may.
fn wait(children: &mut Children, waiter: Waiter, watch: Watch, leader: isize) -> End {
    loop {
        let there = waiter.wait(None);
        let is_there = |place: u64| there & 1 << place != 0;
        // First of all who ended: a program that is done must not be reported as killed.
        if is_there(CHILDREN) {
            drain(watch.children);
            let reaped = children.reap(|_, _| {});
            if let (0, Reaped::None) = (children.leader, reaped) {
                return End::Alone;
            }
        }
        if is_there(OUTER) {
            return End::Lost;
        }
        if is_there(HOST) {
            return End::Killed;
        }
        if is_there(HOST_END) {
            let mut commands = [0; 16];
            let length = syscall::receive(LIFELINE, &mut commands);
            for command in commands.iter().take(length.max(0) as usize) {
                match *command {
                    // As long as the leader is not reaped, the group's number is its own.
                    signal if signal & COMMAND_SIGNAL != 0 && children.leader != 0 => {
                        syscall::kill(-leader, usize::from(signal & !COMMAND_SIGNAL));
                    }
                    COMMAND_RELEASE if children.leader == 0 => return End::Released,
                    COMMAND_KILL => return End::Killed,
                    _ => {}
                }
            }
            // Nothing to read any more, and no host that could write.
            if length == 0 || (length < 0 && length != syscall::EAGAIN && length != syscall::EINTR) {
                return End::Killed;
            }
        }
    }
}
