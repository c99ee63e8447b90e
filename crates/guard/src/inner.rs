//! The inner guard: starts the program, carries out the host's commands, reports, and kills the tree at the end.

use crate::children::{Children, List, Reaped, drain};
use crate::outer::{CHILDREN, HOST, HOST_END, OUTER, Shared};
use crate::program::{self, Started};
use crate::protocol::{
    COMMAND_KILL, COMMAND_RELEASE, COMMAND_SIGNAL, FLAG_PID_NAMESPACE, FLAG_SCAN_PROC, FRAME_GONE,
    FRAME_LOST, FRAME_STARTED, Frame, Header, ORIGIN_INNER, STAGE_SUPERVISE,
};
use crate::waiter::{PEER_ENDED, READABLE, Waiter};
use crate::{
    LIFELINE, Watch, forbid_debuggers, namespace, outer, report_error, say, syscall,
    wake_when_the_parent_dies,
};

/// The reason why the inner guard stopped waiting.
enum End {
    /// The program ended and left no process behind.
    Alone,
    /// The program ended, and the host wants the remaining processes to live on.
    Released,
    /// The host sent the command, or is gone.
    Killed,
    /// The outer guard is gone, and with it half of the protection: the run is lost.
    Lost,
}

/// `shared` is memory that the outer guard reads too.
pub(crate) fn run(header: &Header, watch: Watch, shared: &mut Shared) -> ! {
    // Close the descriptors that the outer guard waits with.
    syscall::close_range(watch.outer as usize + 1, u32::MAX as usize);
    // A group of its own, so that no group contains both guards or the program (which is in a session of its own).
    syscall::own_group();
    outer::become_subreaper();
    wake_when_the_parent_dies();
    // The outer guard may have died before another process stopped this one. Then the host's end is the last event that can wake
    // it.
    syscall::wake_by(LIFELINE);
    let in_namespace = header.flags & FLAG_PID_NAMESPACE != 0;
    let mut host_view = -1;
    if in_namespace {
        host_view = namespace::enter().unwrap_or_else(|failure| fail(failure.stage, failure.result));
    }
    // The ids are mapped by now. A process that forbids debuggers may not map them, so this comes later.
    forbid_debuggers();
    let waiter = waiter(watch).unwrap_or_else(|errno| fail(STAGE_SUPERVISE, errno));
    let list = List::open(header.flags & FLAG_SCAN_PROC != 0);
    let started = program::start(header).unwrap_or_else(|failure| fail(failure.stage, failure.result));
    shared.cgroup = started.cgroup;
    // The program has its own copies of its pipes. The guard needs none of them.
    syscall::close_range(0, 2);
    let seen_pid = namespace::pid_for_host(host_view, started.pid);
    // In a namespace the program can't stop this guard, and its pid has no meaning outside.
    let own_pid = if in_namespace { 0 } else { syscall::getpid() };
    say(&Frame::new(FRAME_STARTED, ORIGIN_INNER)
        .u32(seen_pid as u32)
        .u32((started.cgroup[0] != 0).into())
        .u32(own_pid as u32));
    let children = Children::new(started.pid, true, list);
    supervise(waiter, watch, children, &started, in_namespace, shared)
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

/// Reports a failure and exits. The outer guard ends by that.
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
    shared: &mut Shared,
) -> ! {
    let end = wait(&mut children, waiter, watch, started.pid);
    if let End::Released = end {
        say(&Frame::new(FRAME_GONE, ORIGIN_INNER).u32(0).u32(0).u32(0));
        syscall::exit(outer::INNER_KEEPS)
    }
    if matches!(end, End::Alone) && started.cgroup[0] == 0 {
        // Nothing is left to do. The outer guard sends the report as its last act, so that the host, which waits for its end too,
        // is woken once.
        shared.report = children.end(FRAME_GONE, ORIGIN_INNER);
        syscall::exit(outer::INNER_LEAVES_REPORT)
    }
    children.kill_all(in_namespace, &started.cgroup);
    // Its own alarm would wake it some seconds later.
    syscall::wake(watch.outer);
    let kind = if matches!(end, End::Lost) { FRAME_LOST } else { FRAME_GONE };
    say(&children.end(kind, ORIGIN_INNER));
    program::remove_cgroup(&started.cgroup);
    syscall::exit(outer::INNER_DONE)
}

/// Waits for the end. The program's exit alone is not the end: other processes may still write into its pipes, and the host
/// decides how long they may.
fn wait(children: &mut Children, waiter: Waiter, watch: Watch, leader: isize) -> End {
    loop {
        let there = waiter.wait(None);
        let is_there = |place: u64| there & 1 << place != 0;
        // Ended children are handled first, so that a program that has ended is not reported as killed.
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
                    // As long as the leader is not reaped, the group's number belongs to its group.
                    signal if signal & COMMAND_SIGNAL != 0 && children.leader != 0 => {
                        syscall::kill(-leader, usize::from(signal & !COMMAND_SIGNAL));
                    }
                    COMMAND_RELEASE if children.leader == 0 => return End::Released,
                    COMMAND_KILL => return End::Killed,
                    _ => {}
                }
            }
            // The lifeline is closed: nothing is left to read, and the host can't write any more.
            if length == 0 || (length < 0 && length != syscall::EAGAIN && length != syscall::EINTR) {
                return End::Killed;
            }
        }
    }
}
