//! Own children: who they are, and killing them until none is left.

use crate::protocol::{FRAME_EXITED, Frame, ORIGIN_INNER};
use crate::{program, say, syscall};

/// Without any child ending for so long, those left can't be killed (a setuid program's, or stuck in the kernel).
const STALLED_US: u64 = 1_000_000;
/// And in all.
const LIMIT_US: u64 = 10_000_000;
/// A child that ends wakes the loop at once; this is for a child that came without one ending.
const NAP_US: u64 = 1000;

/// Children who ended, and what is known of the program itself.
pub struct Children {
    /// The program's pid; 0 when there is none, or it has been reaped.
    pub leader: isize,
    /// Tell the host when the leader ends.
    pub reports: bool,
    pub scan_proc: bool,
    /// Of those reaped, how many had been killed here or by the kernel for us.
    pub killed: u32,
    pub rounds: u32,
    /// Still alive when killing was given up.
    pub left: u32,
}

pub enum Reaped {
    /// Children are left, none of them has ended.
    Alive,
    /// No child is left.
    None,
}

impl Children {
    pub fn new(leader: isize, reports: bool, scan_proc: bool) -> Children {
        Children { leader, reports, scan_proc, killed: 0, rounds: 0, left: 0 }
    }

    /// Takes all children that have ended. `each` hears of them: pid and wait status.
    pub fn reap(&mut self, mut each: impl FnMut(isize, i32)) -> Reaped {
        loop {
            let mut status = 0;
            let mut usage = [0; 18];
            let pid = syscall::reap(&mut status, &mut usage);
            if pid == 0 {
                return Reaped::Alive;
            }
            if pid == syscall::EINTR {
                continue;
            }
            if pid < 0 {
                return Reaped::None;
            }
            if pid == self.leader {
                self.leader = 0;
                if self.reports {
                    let [user_s, user_us, system_s, system_us, peak_kib, ..] = usage;
                    say(&Frame::new(FRAME_EXITED, ORIGIN_INNER)
                        .u32(status as u32)
                        .u64(user_s.wrapping_mul(1_000_000).wrapping_add(user_us))
                        .u64(system_s.wrapping_mul(1_000_000).wrapping_add(system_us))
                        .u64(peak_kib.wrapping_mul(1024)));
                }
            } else {
                each(pid, status);
            }
        }
    }

    /// SIGKILL to every child, and to those that become children by that, until none is left. Top-down: a process that is
    /// killed hands its children to us, so nobody can be born unseen below a living parent; a process that forks and ends
    /// faster than we look (pid hopper) loses that race within some rounds, because we do not pause while things move.
    /// `cgroup`: the run's own directory, or just a NUL.
    pub fn kill_all(&mut self, child_signals: isize, is_namespace_init: bool, cgroup: &[u8]) {
        let began = syscall::now_us();
        let mut moved = began;
        let mut killing = false;
        loop {
            let mut ended = 0;
            let mut killed = 0;
            let reaped = self.reap(|_, status| {
                ended += 1;
                // Those that had ended before the first round are no strays.
                if killing && status & 0x7f == syscall::SIGKILL as i32 {
                    killed += 1;
                }
            });
            self.killed = self.killed.wrapping_add(killed);
            if let Reaped::None = reaped {
                self.left = 0;
                return;
            }
            let now = syscall::now_us();
            if ended > 0 {
                moved = now;
            }
            self.rounds = self.rounds.wrapping_add(1);
            if !killing {
                // Everybody in it at once, fork bombs included. It is an addition: who left the cgroup is a child of ours.
                program::kill_cgroup(cgroup);
            }
            killing = true;
            if is_namespace_init {
                // Everybody in the namespace but its init, in one call.
                syscall::kill(-1, syscall::SIGKILL);
            }
            self.left = self.kill_each();
            if now.wrapping_sub(moved) > STALLED_US || now.wrapping_sub(began) > LIMIT_US {
                return;
            }
            let mut entry =
                [syscall::PollEntry { descriptor: child_signals as i32, wanted: syscall::POLLIN, got: 0 }];
            syscall::poll(&mut entry, Some(NAP_US));
            drain(child_signals);
        }
    }

    /// SIGKILL to every child there is right now; returns how many.
    fn kill_each(&self) -> u32 {
        let mut count = 0;
        let mut kill = |pid: isize| {
            syscall::kill(pid, syscall::SIGKILL);
            count += 1;
        };
        let listed = !self.scan_proc && each_listed(&mut kill);
        if !listed && !each_scanned(&mut kill) && self.leader > 0 {
            // No /proc at all: at least the program's group, whose leader is unreaped and so still owns the number.
            kill(-self.leader);
        }
        count
    }
}

/// Forgets that children ended; `reap` sees for itself.
pub fn drain(child_signals: isize) {
    let mut records = [0; 128 * 4];
    while syscall::read(child_signals, &mut records) == records.len() as isize {}
}

/// The kernel's list of a thread's children. False: there is none (CONFIG_PROC_CHILDREN).
pub fn each_listed(found: &mut impl FnMut(isize)) -> bool {
    each_in_list(syscall::AT_FDCWD, b"/proc/thread-self/children\0", found)
}

/// The same under another /proc.
pub fn each_in_list(directory: isize, path: &[u8], found: &mut impl FnMut(isize)) -> bool {
    let list = syscall::open(directory, path, syscall::O_RDONLY);
    if list < 0 {
        return false;
    }
    let mut pid = 0;
    let mut text = [0; 1024];
    loop {
        let length = syscall::read(list, &mut text);
        if length <= 0 {
            break;
        }
        for byte in text.iter().take(length as usize) {
            if byte.is_ascii_digit() {
                pid = pid * 10 + isize::from(byte - b'0');
            } else if pid > 0 {
                found(pid);
                pid = 0;
            }
        }
    }
    syscall::close(list);
    true
}

/// Reads every process's parent. False: no /proc here.
fn each_scanned(found: &mut impl FnMut(isize)) -> bool {
    let own = syscall::getpid();
    let proc = syscall::open(syscall::AT_FDCWD, b"/proc\0", syscall::O_RDONLY | syscall::O_DIRECTORY);
    if proc < 0 {
        return false;
    }
    let mut entries = [0; 1024];
    loop {
        let length = syscall::read_directory(proc, &mut entries);
        if length <= 0 {
            break;
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
            if pid > 0 && parent_of(proc, name) == own {
                found(pid);
            }
            rest = rest.get(record.max(1)..).unwrap_or(&[]);
        }
    }
    syscall::close(proc);
    true
}

/// The parent named in /proc/PID/stat: "PID (any bytes) STATE PARENT ...". 0: gone, or unreadable.
fn parent_of(proc: isize, name: &[u8]) -> isize {
    let mut path = [0; 32];
    let name_and_file = name.iter().take_while(|byte| **byte != 0).chain(b"/stat\0");
    for (place, byte) in path.iter_mut().zip(name_and_file) {
        *place = *byte;
    }
    let file = syscall::open(proc, &path, syscall::O_RDONLY);
    if file < 0 {
        return 0;
    }
    let mut text = [0; 128];
    let length = syscall::read(file, &mut text).max(0) as usize;
    syscall::close(file);
    // The name may hold anything, brackets too; the last one ends it.
    let mut after_name = 0;
    for (at, byte) in text.iter().enumerate().take(length) {
        if *byte == b')' {
            after_name = at;
        }
    }
    let mut parent = 0;
    for byte in text.iter().take(length).skip(after_name + 4).take_while(|byte| byte.is_ascii_digit()) {
        parent = parent * 10 + isize::from(byte - b'0');
    }
    parent
}
