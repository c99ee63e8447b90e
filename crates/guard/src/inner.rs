//! The inner guard: starts the program, carries out the host's commands, reports, and kills the tree at the end.

use crate::children::{Children, List, Reaped, drain, open_outputs};
use crate::failure::{Failure, check};
use crate::handover::{INNER_DONE, INNER_KEEPS, INNER_LEAVES_REPORT, Shared, fail};
use crate::lifeline::{LIFELINE, say};
use crate::program::{self, Started};
use crate::protocol::{
    CALL_EPOLL_CTL, COMMAND_KILL, COMMAND_RELEASE, COMMAND_SIGNAL, FLAG_LENT_TERMINAL, FLAG_PID_NAMESPACE,
    FLAG_TRIAL, FRAME_GONE, FRAME_LOST, FRAME_STARTED, Frame, Header, ORIGIN_INNER, STAGE_SUPERVISE,
};
use crate::waiter::{PEER_ENDED, READABLE, Waiter};
use crate::watch::{
    CHILDREN, HOST, HOST_END, OUTER, Watch, become_subreaper, forbid_debuggers, wake_when_the_parent_dies,
};
use crate::{group, host_end, namespace, syscall, trial};

/// Interval of the checks whether a group that got SIGTERM still lives, and whether it printed.
const LOOK_INTERVAL_US: u64 = 10_000;
/// A full pipe has so many reads.
const READS_A_LOOK: u32 = 16;

/// The time of a program whose host ended in order.
struct Grace {
    /// On the monotonic clock, in microseconds.
    until: u64,
    /// When SIGTERM is sent. It lies behind `until` as soon as it was.
    terminate_at: u64,
    /// Its stdout and stderr, which are read and forgotten. Negative: they are no pipes.
    outputs: [isize; 2],
}

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
    let is_lent = header.flags & FLAG_LENT_TERMINAL != 0;
    if !is_lent {
        // A group of its own, so that no group contains both guards or the program (which is in a session of its own).
        group::own_group();
    }
    let (waiter, list, host_view) = prepare(header, watch).unwrap_or_else(|failure| fail(failure));
    if header.flags & FLAG_TRIAL != 0
        && let Err(failure) = trial::run(header)
    {
        fail(failure)
    }
    let started = program::start(header).unwrap_or_else(|failure| fail(failure));
    if is_lent {
        // The program is in the host's session. Its parent must not be there in another group: then the kernel would let the terminal stop a
        // group that nobody can continue (orphaned process groups).
        syscall::setsid();
    }
    shared.cgroup = started.cgroup;
    // The program has its own copies of its pipes. The guard needs none of them.
    syscall::close_range(0, 2);
    let in_namespace = header.flags & FLAG_PID_NAMESPACE != 0;
    let seen_pid = namespace::pid_for_host(host_view, started.pid);
    // In a namespace the program can't stop this guard, and its pid has no meaning outside.
    let own_pid = if in_namespace { 0 } else { syscall::getpid() };
    say(&Frame::new(FRAME_STARTED, ORIGIN_INNER)
        .u32(seen_pid as u32)
        .u32((started.cgroup[0] != 0).into())
        .u32(own_pid as u32));
    let inner = Inner { header, waiter, watch, leader: started.pid };
    inner.supervise(Children::new(started.pid, true, list), &started, in_namespace, shared)
}

/// The waiter, the list of children, and the /proc that shows the host if it is not the usual one (else negative).
fn prepare(header: &Header, watch: Watch) -> Result<(Waiter, List, isize), Failure> {
    become_subreaper()?;
    wake_when_the_parent_dies()?;
    // The outer guard may have died before another process stopped this one. Then the host's end is the last event that can wake
    // it.
    syscall::wake_by(LIFELINE);
    let in_namespace = header.flags & FLAG_PID_NAMESPACE != 0;
    let host_view = if in_namespace { namespace::enter()? } else { -1 };
    // The ids are mapped by now. A process that forbids debuggers may not map them, so this comes later.
    forbid_debuggers();
    let waiter = Waiter::new()?;
    for (place, descriptor, wanted) in [
        (CHILDREN, watch.children, READABLE),
        (HOST_END, LIFELINE, READABLE | PEER_ENDED),
        (HOST, watch.host, READABLE),
        (OUTER, watch.outer, READABLE),
    ] {
        check(STAGE_SUPERVISE, CALL_EPOLL_CTL, waiter.add(place, descriptor, wanted))?;
    }
    Ok((waiter, List::open(header), host_view))
}

/// A guard whose program runs.
struct Inner<'a> {
    header: &'a Header,
    waiter: Waiter,
    watch: Watch,
    leader: isize,
}

/// The result of a look at the lifeline.
enum Order {
    None,
    End(End),
    /// The lifeline is closed.
    HostGone,
}

impl Inner<'_> {
    fn supervise(
        &self,
        mut children: Children,
        started: &Started,
        in_namespace: bool,
        shared: &mut Shared,
    ) -> ! {
        let end = self.wait(&mut children, &shared.host_end);
        if let End::Released = end {
            say(&Frame::new(FRAME_GONE, ORIGIN_INNER).u32(0).u32(0).u32(0));
            syscall::exit(INNER_KEEPS)
        }
        if matches!(end, End::Alone) && started.cgroup[0] == 0 {
            // Nothing is left to do. The outer guard sends the report as its last act, so that the host, which waits for its end too,
            // is woken once.
            shared.report = children.end(FRAME_GONE, ORIGIN_INNER);
            syscall::exit(INNER_LEAVES_REPORT)
        }
        children.kill_all(in_namespace, &started.cgroup);
        // Its own alarm would wake it some seconds later.
        syscall::wake(self.watch.outer);
        let kind = if matches!(end, End::Lost) { FRAME_LOST } else { FRAME_GONE };
        say(&children.end(kind, ORIGIN_INNER));
        program::remove_cgroup(&started.cgroup);
        syscall::exit(INNER_DONE)
    }

    /// Waits for the end. The program's exit alone is not the end: other processes may still write into its pipes, and the host
    /// decides how long they may.
    fn wait(&self, children: &mut Children, found: &host_end::Found) -> End {
        let mut grace = None;
        loop {
            let there = match &mut grace {
                None => self.waiter.wait(None),
                Some(grace) => match self.wait_in_grace(children, grace) {
                    Some(there) => there,
                    None => return End::Killed,
                },
            };
            let is_there = |place: u64| there & 1 << place != 0;
            // Ended children are handled first, so that a program that has ended is not reported as killed.
            if is_there(CHILDREN) {
                drain(self.watch.children);
                let reaped = children.reap(|_, _| {});
                if let (0, Reaped::None) = (children.leader, reaped) {
                    return End::Alone;
                }
            }
            if is_there(OUTER) {
                return End::Lost;
            }
            let mut host_is_gone = is_there(HOST);
            if is_there(HOST_END) {
                match self.take_orders(children) {
                    Order::None => {}
                    Order::End(end) => return end,
                    Order::HostGone => host_is_gone = true,
                }
            }
            if host_is_gone {
                match self.begin_grace(children, found) {
                    Some(begun) => grace = Some(begun),
                    None => return End::Killed,
                }
            }
        }
    }

    fn take_orders(&self, children: &Children) -> Order {
        let mut commands = [0; 16];
        let length = syscall::receive(LIFELINE, &mut commands);
        for command in commands.iter().take(length.max(0) as usize) {
            match *command {
                signal if signal & COMMAND_SIGNAL != 0 => {
                    self.signal(children, usize::from(signal & !COMMAND_SIGNAL));
                }
                COMMAND_RELEASE if children.leader == 0 => return Order::End(End::Released),
                COMMAND_KILL => return Order::End(End::Killed),
                _ => {}
            }
        }
        // The lifeline is closed: nothing is left to read, and the host can't write any more.
        let is_closed = length == 0 || (length < 0 && length != syscall::EAGAIN && length != syscall::EINTR);
        if is_closed { Order::HostGone } else { Order::None }
    }

    /// The host is gone. If it ended in order while the program runs, the program's group gets SIGTERM and time to end by itself. `None`:
    /// kill at once.
    fn begin_grace(&self, children: &Children, found: &host_end::Found) -> Option<Grace> {
        let grace_us = u64::from(self.header.grace_ms) * 1000;
        if children.leader == 0 || grace_us == 0 {
            return None;
        }
        let status = found.await_in_order()?;
        // Both would be ready for ever.
        self.waiter.remove(LIFELINE);
        self.waiter.remove(self.watch.host);
        // A program that prints while it cleans up would be ended by SIGPIPE: nobody has the other ends any more.
        let outputs = open_outputs(self.leader);
        let now = syscall::now_us();
        // The program got the terminal's own signal, and may be cleaning up by now.
        let had_signal = self.is_lent() && host_end::is_by_terminal(status);
        let terminate_at = if had_signal { now.wrapping_add(grace_us / 2) } else { now };
        Some(Grace { until: now.wrapping_add(grace_us), terminate_at, outputs })
    }

    fn is_lent(&self) -> bool {
        self.header.flags & FLAG_LENT_TERMINAL != 0
    }

    /// Signals the program's group. On a lent terminal that group is the host's, so that the program gets it alone. As long as the leader is
    /// not reaped, the number is its own.
    fn signal(&self, children: &Children, signal: usize) {
        if children.leader != 0 {
            group::signal(if self.is_lent() { self.leader } else { -self.leader }, signal);
        }
    }

    /// Waits for an event while the program's group may still end by itself. `None`: the time is over, or the group is gone.
    fn wait_in_grace(&self, children: &Children, grace: &mut Grace) -> Option<u32> {
        // The group's number can't be another group's yet, and no signal is sent.
        if children.leader == 0 && syscall::kill(-self.leader, 0) == syscall::ESRCH {
            return None;
        }
        let now = syscall::now_us();
        let left = grace.until.saturating_sub(now);
        if left == 0 {
            return None;
        }
        if grace.terminate_at <= now {
            self.signal(children, syscall::SIGTERM);
            grace.terminate_at = u64::MAX;
        }
        let mut unread = [0; 4096];
        for output in grace.outputs.into_iter().filter(|output| *output >= 0) {
            let mut reads = 0;
            while reads < READS_A_LOOK && syscall::read(output, &mut unread) > 0 {
                reads += 1;
            }
        }
        Some(self.waiter.wait(Some(left.min(LOOK_INTERVAL_US).div_ceil(1000))))
    }
}
