//! The guard's own children: finding them, and killing them until none is left.

use crate::lifeline::say;
use crate::protocol::{
    FLAG_FOREIGN_PROC, FLAG_SCAN_PROC, FRAME_DYING, FRAME_EXITED, Frame, Header, NamespacePids, ORIGIN_INNER,
    Outlook, ProcessState,
};
use crate::{program, syscall};

/// When no child ends for this long, the state of the remaining ones is checked.
const STALLED_US: u64 = 1_000_000;
/// Limit for children that SIGKILL can end, without any of them ending.
const LIMIT_US: u64 = 10_000_000;
/// Limit for children that are already exiting: the kernel takes long to free much memory.
const DYING_LIMIT_US: u64 = 60_000_000;
/// Longest wait between two rounds. A child that ends wakes the loop at once; a new child does not.
const NAP_US: u64 = 1000;

/// Counts of ended children, and the state of the program itself.
pub(crate) struct Children {
    /// The program's pid; 0 when there is none, or it has been reaped.
    pub leader: isize,
    /// Tell the host when the leader ends.
    pub reports: bool,
    /// Number of reaped children that this guard, or the kernel on its behalf, had killed.
    pub killed: u32,
    pub rounds: u32,
    /// Number of children that were alive when killing was given up.
    pub left: u32,
    /// The report of the leader's end, as long as it has not been sent. It goes together with the report of the tree's end when
    /// the leader leaves no process behind, because each message wakes the host.
    exit: Option<Frame>,
    list: List,
}

/// The list of children. It is opened at the start, because at the end no descriptor may be available.
pub(crate) struct List {
    source: Source,
    /// How many levels the own PID namespace is below the one that /proc was mounted for. Not 0: the numbers in /proc are not those
    /// that calls take, and each is looked up.
    depth: usize,
}

enum Source {
    /// The kernel's list of this thread's children.
    Own(isize),
    /// The table of all processes, where the kernel keeps no such list (CONFIG_PROC_CHILDREN).
    Table(isize),
}

/// A child that was listed.
struct Child {
    /// 0: its number in the own namespace can't be read.
    pid: isize,
    /// Its number in /proc.
    listed: isize,
}

pub(crate) enum Reaped {
    /// Children are left, and none of them has ended.
    Alive,
    /// No child is left.
    None,
}

impl Children {
    /// `list`: the result of [`List::open`] in this process.
    pub(crate) fn new(leader: isize, reports: bool, list: List) -> Children {
        Children { leader, reports, killed: 0, rounds: 0, left: 0, exit: None, list }
    }

    /// Reaps all children that have ended. `each` gets the pid and the wait status of each. The end of the leader is reported
    /// here if children are left, otherwise by [`Children::end`].
    pub(crate) fn reap(&mut self, mut each: impl FnMut(isize, i32)) -> Reaped {
        loop {
            let mut status = 0;
            let mut usage = [0; 18];
            let pid = syscall::reap(&mut status, &mut usage);
            if pid == 0 {
                if let Some(exit) = self.exit.take() {
                    say(&exit);
                }
                return Reaped::Alive;
            }
            if pid == syscall::EINTR {
                continue;
            }
            if pid < 0 {
                return Reaped::None;
            }
            if syscall::let_go_on(pid, status) {
                continue;
            }
            if pid == self.leader {
                self.leader = 0;
                if self.reports {
                    let [user_s, user_us, system_s, system_us, peak_kib, ..] = usage;
                    let exit = Frame::new(FRAME_EXITED, ORIGIN_INNER)
                        .u32(status as u32)
                        .u64(user_s.wrapping_mul(1_000_000).wrapping_add(user_us))
                        .u64(system_s.wrapping_mul(1_000_000).wrapping_add(system_us))
                        .u64(peak_kib.wrapping_mul(1024));
                    self.exit = Some(exit);
                }
            } else {
                each(pid, status);
            }
        }
    }

    /// Reaps what has ended and returns how many; `None` when no child is left.
    fn reap_killed(&mut self, killing: bool) -> Option<u32> {
        let mut ended = 0;
        let mut killed = 0;
        let reaped = self.reap(|_, status| {
            ended += 1;
            // Children that had ended before the first round do not count as killed.
            if killing && status & 0x7f == syscall::SIGKILL as i32 {
                killed += 1;
            }
        });
        self.killed = self.killed.wrapping_add(killed);
        if let Reaped::None = reaped { None } else { Some(ended) }
    }

    /// Sends SIGKILL to every child, and to the orphans that become children by that, until none is left. The order is top-down:
    /// a killed process hands its children to this guard, so no child can be born unseen below a living parent. A process that
    /// forks and ends faster than the guard looks (pid hopper) loses that race within some rounds, because the guard does not
    /// pause while children end. `cgroup`: path of the run's own directory, or just a NUL.
    pub(crate) fn kill_all(&mut self, is_namespace_init: bool, cgroup: &[u8]) {
        let mut moved = syscall::now_us();
        let mut looked = moved;
        let mut was_stuck = false;
        let mut killing = false;
        loop {
            let Some(ended) = self.reap_killed(killing) else {
                self.left = 0;
                return;
            };
            let now = syscall::now_us();
            if ended > 0 {
                moved = now;
            }
            self.rounds = self.rounds.wrapping_add(1);
            if !killing {
                // Kills every process in the cgroup at once, fork bombs included. This is an addition: a process that left the
                // cgroup is a child of this guard.
                program::kill_cgroup(cgroup);
            }
            killing = true;
            if is_namespace_init {
                // Kills every process in the namespace except its init, in one call.
                syscall::kill(-1, syscall::SIGKILL);
            }
            let (count, refused) = self.kill_each();
            self.left = count;
            if now.wrapping_sub(moved) > STALLED_US && now.wrapping_sub(looked) > STALLED_US {
                looked = now;
                if refused == count {
                    return;
                }
                let limit = match self.outlook() {
                    // The state has to be seen twice, because any process may wait for a disk now and then.
                    Outlook::Stuck if was_stuck => return,
                    Outlook::Stuck => {
                        was_stuck = true;
                        LIMIT_US
                    }
                    Outlook::Ending => LIMIT_US,
                    Outlook::Dying => DYING_LIMIT_US,
                };
                if now.wrapping_sub(moved) > limit {
                    return;
                }
                // Without a frame, the host would conclude that the guards were stopped.
                say(&Frame::new(FRAME_DYING, ORIGIN_INNER));
            }
            syscall::wait_for_child_signal(NAP_US);
        }
    }

    /// The report of the tree's end, after that of the leader.
    pub(crate) fn end(&mut self, kind: u8, origin: u8) -> Frame {
        let end = Frame::new(kind, origin).u32(self.killed).u32(self.rounds).u32(self.left);
        match self.exit.take() {
            Some(exit) => exit.then(&end),
            None => end,
        }
    }

    /// Sends SIGKILL to every present child. Returns their number, and the number of those that this guard can't signal.
    fn kill_each(&self) -> (u32, u32) {
        let (mut count, mut refused) = (0, 0);
        let mut kill = |pid: isize| {
            count += 1;
            refused += u32::from(pid == 0 || syscall::kill(pid, syscall::SIGKILL) == syscall::EPERM);
        };
        if !self.list.each(&mut |child| kill(child.pid)) && self.leader > 0 {
            // Without /proc, kill at least the program's group. Its leader is unreaped and so still owns the number.
            kill(-self.leader);
        }
        (count, refused)
    }

    /// The prospects of the remaining children.
    fn outlook(&self) -> Outlook {
        let mut outlook = Outlook::Stuck;
        let proc = open_proc();
        let known = self.list.each(&mut |child| {
            // A process whose state can't be read may still end.
            let of_one = state_of_pid(proc, child.listed).map_or(Outlook::Ending, |state| state.outlook());
            outlook = outlook.max(of_one);
        });
        syscall::close(proc);
        if known { outlook } else { Outlook::Ending }
    }
}

impl List {
    pub(crate) fn open(header: &Header) -> List {
        // Tests ask for the table, as where the kernel keeps no list.
        let own = if header.flags & FLAG_SCAN_PROC == 0 { own_list() } else { -1 };
        let source = if own >= 0 { Source::Own(own) } else { Source::Table(open_proc()) };
        let is_foreign = header.flags & FLAG_FOREIGN_PROC != 0;
        List { source, depth: if is_foreign { own_depth() } else { 0 } }
    }

    /// Whoever is found is a child of this process, whatever /proc says: a signal never hits another process. False: children can't be
    /// listed on this system.
    fn each(&self, found: &mut impl FnMut(Child)) -> bool {
        let proc = if self.depth > 0 { open_proc() } else { -1 };
        let pid_of = |listed| if self.depth > 0 { pid_at(proc, listed, self.depth) } else { listed };
        let known = match self.source {
            Source::Own(list) => each_in(list, &mut |listed| {
                let pid = pid_of(listed);
                if pid == 0 || syscall::is_child(pid) {
                    found(Child { pid, listed });
                }
            }),
            Source::Table(table) => each_of_table(table, &mut |listed| {
                let pid = pid_of(listed);
                if pid > 0 && syscall::is_child(pid) {
                    found(Child { pid, listed });
                }
            }),
        };
        syscall::close(proc);
        known
    }
}

const PROC: &[u8] = b"/proc\0";
const DIRECTORY: usize = syscall::O_RDONLY | syscall::O_DIRECTORY;
/// More than a status file has before its line of numbers, with some dozens of groups.
const STATUS_BYTES: usize = 4096;

pub(crate) fn open_proc() -> isize {
    syscall::open(syscall::AT_FDCWD, PROC, DIRECTORY)
}

/// How many levels the own PID namespace is below the one that /proc was mounted for.
fn own_depth() -> usize {
    let proc = open_proc();
    let mut text = [0; STATUS_BYTES];
    let length = read_of(proc, b"self", b"/status\0", &mut text);
    syscall::close(proc);
    NamespacePids::parse(text.get(..length).unwrap_or(&[])).map_or(0, |pids| pids.depth())
}

/// The number of a listed process so many levels below the namespace of /proc. 0: it has none there, or can't be read.
fn pid_at(proc: isize, listed: isize, level: usize) -> isize {
    pid_by(proc, listed, |pids| pids.at(level))
}

/// The number of a listed process one level above its own namespace.
pub(crate) fn pid_above(proc: isize, listed: isize) -> isize {
    pid_by(proc, listed, |pids| pids.depth().checked_sub(1).and_then(|level| pids.at(level)))
}

fn pid_by(proc: isize, listed: isize, number: impl Fn(NamespacePids) -> Option<u32>) -> isize {
    let mut text = [0; STATUS_BYTES];
    let mut digits = [0; 20];
    let length = read_of(proc, decimal(listed, &mut digits), b"/status\0", &mut text);
    NamespacePids::parse(text.get(..length).unwrap_or(&[])).and_then(number).unwrap_or(0) as isize
}

/// Clears the signal that children ended. `reap` checks for itself.
pub(crate) fn drain(child_signals: isize) {
    let mut records = [0; 128 * 4];
    while syscall::read(child_signals, &mut records) == records.len() as isize {}
}

/// Opens the kernel's list of this thread's children. Negative: there is none (CONFIG_PROC_CHILDREN).
pub(crate) fn own_list() -> isize {
    syscall::open(syscall::AT_FDCWD, b"/proc/thread-self/children\0", syscall::O_RDONLY)
}

/// Reads the pids of such a list. False: it can't be read.
pub(crate) fn each_in(list: isize, found: &mut impl FnMut(isize)) -> bool {
    let mut pid = 0;
    let mut offset = 0;
    let mut text = [0; 1024];
    loop {
        let length = syscall::read_at(list, &mut text, offset);
        if length < 0 {
            return false;
        }
        if length == 0 {
            return true;
        }
        offset += length as usize;
        for byte in text.iter().take(length as usize) {
            if byte.is_ascii_digit() {
                pid = pid * 10 + isize::from(byte - b'0');
            } else if pid > 0 {
                found(pid);
                pid = 0;
            }
        }
    }
}

/// Calls `found` with each process in the table, without a further descriptor. False: there is no /proc.
fn each_of_table(table: isize, found: &mut impl FnMut(isize)) -> bool {
    if syscall::rewind(table) < 0 {
        return false;
    }
    let mut entries = [0; 1024];
    loop {
        let length = syscall::read_directory(table, &mut entries);
        if length <= 0 {
            return length == 0;
        }
        let mut rest = entries.get(..length as usize).unwrap_or(&[]);
        // struct linux_dirent64: 16 bytes, record length (u16), type (u8), name.
        while let Some([low, high]) = rest.get(16..).and_then(|at| at.first_chunk::<2>()) {
            let record = usize::from(u16::from_le_bytes([*low, *high]));
            let name = rest.get(19..record).unwrap_or(&[]);
            let mut pid = 0;
            for byte in name.iter().take_while(|byte| byte.is_ascii_digit()) {
                pid = pid * 10 + isize::from(byte - b'0');
            }
            if pid > 0 {
                found(pid);
            }
            rest = rest.get(record.max(1)..).unwrap_or(&[]);
        }
    }
}

/// The state of a process by its number in this /proc.
pub(crate) fn state_of_pid(proc: isize, listed: isize) -> Option<ProcessState> {
    let mut text = [0; 1024];
    let mut digits = [0; 20];
    let length = read_of(proc, decimal(listed, &mut digits), b"/stat\0", &mut text);
    ProcessState::parse(text.get(..length)?)
}

fn decimal(number: isize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        at = at.saturating_sub(1);
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
    }
    digits.get(at..).unwrap_or(&[])
}

fn open_of(proc: isize, process: &[u8], file: &[u8], flags: usize) -> isize {
    let mut path = [0; 32];
    for (place, byte) in path.iter_mut().zip(process.iter().chain(file)) {
        *place = *byte;
    }
    syscall::open(proc, &path, flags)
}

/// Opens reading ends of the pipes that a process has as stdout and stderr. Negative: it is no pipe, or can't be opened.
pub(crate) fn open_outputs(pid: isize) -> [isize; 2] {
    const O_NOCTTY: usize = 0o400;
    const O_NONBLOCK: usize = 0o4000;
    let proc = open_proc();
    let mut digits = [0; 20];
    let process = decimal(pid, &mut digits);
    let flags = syscall::O_RDONLY | O_NOCTTY | O_NONBLOCK;
    let opened = [&b"/fd/1\0"[..], b"/fd/2\0"].map(|file| open_of(proc, process, file, flags));
    syscall::close(proc);
    opened
}

/// Reads the beginning of a file of a process. Returns its length; 0: it can't be read.
fn read_of(proc: isize, process: &[u8], file: &[u8], text: &mut [u8]) -> usize {
    let file = open_of(proc, process, file, syscall::O_RDONLY);
    if file < 0 {
        return 0;
    }
    let length = syscall::read(file, text).max(0) as usize;
    syscall::close(file);
    length
}
