//! The system calls that the guard makes, without a C library. Each wrapper returns what the kernel returned: a negative
//! value is minus an errno.
//!
//! SAFETY, for all wrappers here: `raw` executes one system call instruction and tells the compiler what that clobbers.
//! A wrapper is safe when the kernel touches no memory but what its arguments own for the length of the call.

pub(crate) use crate::number;
use core::arch::asm;

pub(crate) const EAGAIN: isize = -11;
pub(crate) const EINTR: isize = -4;
pub(crate) const ENOEXEC: isize = -8;
pub(crate) const EPERM: isize = -1;
pub(crate) const EPROTO: isize = -71;
pub(crate) const ESRCH: isize = -3;

pub(crate) const SIGKILL: usize = 9;
pub(crate) const SIGTERM: usize = 15;
pub(crate) const SIGCHLD: usize = 17;
pub(crate) const SIGCONT: usize = 18;
pub(crate) const SIGSTOP: usize = 19;
pub(crate) const SIGTTOU: usize = 22;

pub(crate) const CLONE_VM: usize = 0x100;
pub(crate) const CLONE_VFORK: usize = 0x4000;
pub(crate) const CLONE_NEWNS: usize = 0x0002_0000;
pub(crate) const CLONE_NEWUSER: usize = 0x1000_0000;
pub(crate) const CLONE_NEWPID: usize = 0x2000_0000;

pub(crate) const AT_FDCWD: isize = -100;
pub(crate) const O_RDONLY: usize = 0;
pub(crate) const O_WRONLY: usize = 1;
pub(crate) const O_CLOEXEC: usize = 0o2000000;
#[cfg(target_arch = "x86_64")]
pub(crate) const O_DIRECTORY: usize = 0o200000;
#[cfg(target_arch = "aarch64")]
pub(crate) const O_DIRECTORY: usize = 0o40000;

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;
const WNOHANG: usize = 1;
const WALL: usize = 0x4000_0000;

// The same on both architectures.
const PIDFD_SEND_SIGNAL: usize = 424;
const PIDFD_OPEN: usize = 434;
const CLOSE_RANGE: usize = 436;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11 and nothing else; what it does to memory is the caller's matter.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel changes x0 and nothing else; what it does to memory is the caller's matter.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack));
    }
    result
}

/// A call whose arguments are plain numbers, or pointers that the kernel only reads and that outlive the call.
#[inline(always)]
pub(crate) fn plain(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    // SAFETY: see the head of this file; the callers below pass no writable memory.
    unsafe { raw(number, [a, b, c, d, 0, 0]) }
}

pub(crate) fn exit(code: usize) -> ! {
    loop {
        plain(number::EXIT_GROUP, code, 0, 0, 0);
    }
}

pub(crate) fn getpid() -> isize {
    plain(number::GETPID, 0, 0, 0, 0)
}

pub(crate) fn getppid() -> isize {
    plain(number::GETPPID, 0, 0, 0, 0)
}

pub(crate) fn getuid() -> u32 {
    plain(number::GETUID, 0, 0, 0, 0) as u32
}

pub(crate) fn getgid() -> u32 {
    plain(number::GETGID, 0, 0, 0, 0) as u32
}

pub(crate) fn setsid() -> isize {
    plain(number::SETSID, 0, 0, 0, 0)
}

/// Makes this terminal the controlling one of the session that the caller leads.
pub(crate) fn control_terminal(descriptor: isize) -> isize {
    const TIOCSCTTY: usize = 0x540e;
    plain(number::IOCTL, descriptor as usize, TIOCSCTTY, 0, 0)
}

pub(crate) fn prctl(option: usize, value: usize) -> isize {
    plain(number::PRCTL, option, value, 0, 0)
}

pub(crate) fn kill(pid: isize, signal: usize) -> isize {
    plain(number::KILL, pid as usize, signal, 0, 0)
}

pub(crate) fn close(descriptor: isize) {
    plain(number::CLOSE, descriptor as usize, 0, 0, 0);
}

/// Closes `first..=last`; with ENOSYS (Linux before 5.9) one by one.
pub(crate) fn close_range(first: usize, last: usize) {
    if plain(CLOSE_RANGE, first, last, 0, 0) < 0 {
        for descriptor in first..=last.min(65_535) {
            plain(number::CLOSE, descriptor, 0, 0, 0);
        }
    }
}

pub(crate) fn close_on_exec(descriptor: isize) {
    const F_SETFD: usize = 2;
    plain(number::FCNTL, descriptor as usize, F_SETFD, 1, 0);
}

/// struct sched_attr: size and policy, flags, nice and priority, runtime, deadline, period.
type Scheduling = [u64; 6];
const SCHEDULING_BYTES: usize = size_of::<Scheduling>();

/// Makes the kernel wake this process, if it was stopped, whenever something happens at the socket's other end, its end included.
pub(crate) fn wake_by(socket: isize) {
    const F_GETFL: usize = 3;
    const F_SETFL: usize = 4;
    const F_SETOWN: usize = 8;
    const F_SETSIG: usize = 10;
    const O_ASYNC: usize = 0o20000;
    let control = |command, value| plain(number::FCNTL, socket as usize, command, value, 0);
    control(F_SETOWN, getpid() as usize);
    control(F_SETSIG, SIGCONT);
    control(F_SETFL, control(F_GETFL, 0) as usize | O_ASYNC);
}

/// A timer that makes the kernel send this process SIGCONT, which wakes it if it was stopped. The signal is blocked and has no
/// other effect.
pub(crate) struct Alarm(Option<i32>);

impl Alarm {
    /// At the user's limit of signals (RLIMIT_SIGPENDING) there is none.
    pub(crate) fn new() -> Alarm {
        const SIGEV_SIGNAL: u64 = 0;
        // struct sigevent: a value, the signal and the way of notification, and a reserve.
        let event: [u64; 8] = [0, SIGCONT as u64 | SIGEV_SIGNAL << 32, 0, 0, 0, 0, 0, 0];
        let mut id = 0i32;
        let (event, place) = (event.as_ptr() as usize, &raw mut id as usize);
        // SAFETY: the kernel reads one sigevent and writes one int.
        let made = unsafe { raw(number::TIMER_CREATE, [CLOCK_MONOTONIC, event, place, 0, 0, 0]) };
        Alarm((made == 0).then_some(id))
    }

    /// It goes off once, in so many seconds, unless it is set again before.
    pub(crate) fn set(&self, seconds: usize) {
        if let Some(id) = self.0 {
            // struct itimerspec: the interval and the first time, in seconds and nanoseconds.
            let times = [0, 0, seconds, 0];
            plain(number::TIMER_SETTIME, id as usize, 0, times.as_ptr() as usize, 0);
        }
    }
}

/// Wakes the process of a pidfd, if it was stopped.
pub(crate) fn wake(pidfd: isize) {
    plain(PIDFD_SEND_SIGNAL, pidfd as usize, SIGCONT, 0, 0);
}

/// Asks for short time slices. A process that needs the processor for microseconds then gets it sooner under load. Linux before
/// 6.12 ignores this. Niceness and scheduling class stay unchanged, and a process outside of the normal class is not affected.
pub(crate) fn ask_for_short_turns() {
    const SHORTEST_NS: u64 = 100_000;
    set_turns(SHORTEST_NS);
}

/// Restores the system's time slices for the program, which would inherit the short ones.
pub(crate) fn ask_for_usual_turns() {
    set_turns(0);
}

fn set_turns(nanoseconds: u64) {
    let mut scheduling: Scheduling = [0; 6];
    let start = scheduling.as_mut_ptr() as usize;
    // SAFETY: the kernel writes at most so many bytes.
    let got = unsafe { raw(number::SCHED_GETATTR, [0, start, SCHEDULING_BYTES, 0, 0, 0]) };
    let [size_and_policy, _, _, runtime, _, _] = &mut scheduling;
    // 0 is the normal class.
    if got < 0 || *size_and_policy >> 32 != 0 {
        return;
    }
    *size_and_policy = SCHEDULING_BYTES as u64;
    *runtime = nanoseconds;
    plain(number::SCHED_SETATTR, 0, scheduling.as_ptr() as usize, 0, 0);
}

pub(crate) fn pidfd_open(pid: isize) -> isize {
    plain(PIDFD_OPEN, pid as usize, 0, 0, 0)
}

/// The exit status, as wait(2) has it, of a process that has been waited for. `None`: it has not been, or the kernel keeps none (before
/// Linux 6.15).
pub(crate) fn exit_status(pidfd: isize) -> Option<u32> {
    /// _IOWR(0xFF, 11, struct pidfd_info), in its first size.
    const PIDFD_GET_INFO: usize = 0xc040_ff0b;
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    // struct pidfd_info: what is asked for and told, the cgroup, eleven ids, and the status.
    let mut info = [0u64; 8];
    info[0] = PIDFD_INFO_EXIT;
    let place = info.as_mut_ptr() as usize;
    // SAFETY: the kernel writes one struct of that size into `info`.
    let asked = unsafe { raw(number::IOCTL, [pidfd as usize, PIDFD_GET_INFO, place, 0, 0, 0]) };
    let [told, .., last] = info;
    (asked >= 0 && told & PIDFD_INFO_EXIT != 0).then_some((last >> 32) as u32)
}

/// Blocks exactly the signals of `mask` (bit n-1 is signal n).
pub(crate) fn set_signal_mask(mask: u64) {
    const SIG_SETMASK: usize = 2;
    plain(number::RT_SIGPROCMASK, SIG_SETMASK, &raw const mask as usize, 0, 8);
}

/// Resets a signal to its default action.
pub(crate) fn default_action(signal: usize) {
    // struct sigaction: all zero is SIG_DFL without flags.
    let action = [0u64; 4];
    plain(number::RT_SIGACTION, signal, action.as_ptr() as usize, 0, 8);
}

pub(crate) fn signalfd(mask: u64) -> isize {
    const SFD_NONBLOCK: usize = 0o4000;
    plain(number::SIGNALFD4, -1isize as usize, &raw const mask as usize, 8, SFD_NONBLOCK | O_CLOEXEC)
}

/// `path` ends in NUL, as `c"..."` and the strings of a request do.
pub(crate) fn open(directory: isize, path: &[u8], flags: usize) -> isize {
    plain(number::OPENAT, directory as usize, path.as_ptr() as usize, flags | O_CLOEXEC, 0)
}

/// Whether a descriptor that was opened without following links refers to a link itself.
pub(crate) fn is_link(descriptor: isize) -> bool {
    let (name, mut target) = ([0u8; 1], [0u8; 1]);
    // SAFETY: `name` is an empty string, and the kernel writes one byte into `target` at most.
    let read = unsafe {
        raw(
            number::READLINKAT,
            [descriptor as usize, name.as_ptr() as usize, target.as_mut_ptr() as usize, 1, 0, 0],
        )
    };
    read >= 0
}

pub(crate) fn chdir(path: &[u8]) -> isize {
    plain(number::CHDIR, path.as_ptr() as usize, 0, 0, 0)
}

pub(crate) fn fchdir(descriptor: isize) -> isize {
    plain(number::FCHDIR, descriptor as usize, 0, 0, 0)
}

pub(crate) fn rmdir(path: &[u8]) -> isize {
    const AT_REMOVEDIR: usize = 0x200;
    plain(number::UNLINKAT, AT_FDCWD as usize, path.as_ptr() as usize, AT_REMOVEDIR, 0)
}

pub(crate) fn mount(source: &[u8], target: &[u8], kind: &[u8], flags: usize) -> isize {
    plain(number::MOUNT, source.as_ptr() as usize, target.as_ptr() as usize, kind.as_ptr() as usize, flags)
}

pub(crate) fn write(descriptor: isize, bytes: &[u8]) -> isize {
    plain(number::WRITE, descriptor as usize, bytes.as_ptr() as usize, bytes.len(), 0)
}

/// Sends without waiting and without raising SIGPIPE.
pub(crate) fn send(descriptor: isize, bytes: &[u8]) -> isize {
    plain(
        number::SENDTO,
        descriptor as usize,
        bytes.as_ptr() as usize,
        bytes.len(),
        MSG_DONTWAIT | MSG_NOSIGNAL,
    )
}

/// Sends bytes, and a copy of a descriptor with them.
pub(crate) fn send_descriptor(socket: isize, bytes: &[u8], descriptor: isize) -> isize {
    const SCM_RIGHTS: u64 = 1;
    const SOL_SOCKET: u64 = 1;
    /// A header of 16 bytes, and an int.
    const LENGTH: u64 = 20;
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    // struct cmsghdr, its one descriptor, and padding.
    let control = [LENGTH, SOL_SOCKET | SCM_RIGHTS << 32, descriptor as u64];
    // struct msghdr: no address.
    let message = [0, 0, vector.as_ptr() as usize, 1, control.as_ptr() as usize, size_of_val(&control), 0];
    plain(number::SENDMSG, socket as usize, message.as_ptr() as usize, MSG_NOSIGNAL, 0)
}

pub(crate) fn read(descriptor: isize, into: &mut [u8]) -> isize {
    // SAFETY: the kernel writes into `into` only, which is borrowed mutably for the call.
    unsafe { raw(number::READ, [descriptor as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Receives bytes; waits until some are there.
pub(crate) fn receive_waiting(descriptor: isize, into: &mut [u8]) -> isize {
    let (start, length) = (into.as_mut_ptr() as usize, into.len());
    // SAFETY: as in `read`; no address is asked for.
    unsafe { raw(number::RECVFROM, [descriptor as usize, start, length, 0, 0, 0]) }
}

/// Receives bytes without waiting.
pub(crate) fn receive(descriptor: isize, into: &mut [u8]) -> isize {
    let (start, length) = (into.as_mut_ptr() as usize, into.len());
    // SAFETY: as in `read`; no address is asked for.
    unsafe { raw(number::RECVFROM, [descriptor as usize, start, length, MSG_DONTWAIT, 0, 0]) }
}

pub(crate) fn read_at(descriptor: isize, into: &mut [u8], offset: usize) -> isize {
    // SAFETY: as in `read`.
    unsafe {
        raw(number::PREAD64, [descriptor as usize, into.as_mut_ptr() as usize, into.len(), offset, 0, 0])
    }
}

pub(crate) fn read_directory(descriptor: isize, into: &mut [u8]) -> isize {
    // SAFETY: as in `read`.
    unsafe { raw(number::GETDENTS64, [descriptor as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Moves the read position to the beginning.
pub(crate) fn rewind(descriptor: isize) -> isize {
    plain(number::LSEEK, descriptor as usize, 0, 0, 0)
}

/// Whether this is a child of the calling process, alive or ended. Does not reap it.
pub(crate) fn is_child(pid: isize) -> bool {
    const P_PID: usize = 1;
    const WEXITED: usize = 4;
    const WNOWAIT: usize = 0x0100_0000;
    plain(number::WAITID, P_PID, pid as usize, 0, WEXITED | WNOHANG | WNOWAIT | WALL) == 0
}

/// Waits until a child has ended, at most this many microseconds. Needs no descriptor.
pub(crate) fn wait_for_child_signal(timeout_us: u64) {
    let children: u64 = 1 << (SIGCHLD - 1);
    let limit = [timeout_us / 1_000_000, timeout_us % 1_000_000 * 1000];
    plain(number::RT_SIGTIMEDWAIT, &raw const children as usize, 0, limit.as_ptr() as usize, 8);
}

pub(crate) fn sleep(us: u64) {
    let mut limit = [us / 1_000_000, us % 1_000_000 * 1000];
    // SAFETY: without entries the kernel writes the remaining time into `limit` alone.
    unsafe { raw(number::PPOLL, [0, 0, limit.as_mut_ptr() as usize, 0, 8, 0]) };
}

const CLOCK_MONOTONIC: usize = 1;

/// The time of the monotonic clock in microseconds.
pub(crate) fn now_us() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes one timespec into `time`.
    unsafe { raw(number::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000).wrapping_add(time[1] / 1000)
}

/// struct rusage: user time, system time (seconds, microseconds each), peak memory in KiB, and 13 more.
pub(crate) type ResourceUsage = [u64; 18];

/// Reaps one child of any kind that has ended; 0 when none has.
pub(crate) fn reap(status: &mut i32, usage: &mut ResourceUsage) -> isize {
    let (status, usage) = (&raw mut *status as usize, usage.as_mut_ptr() as usize);
    // SAFETY: the kernel writes an int and a struct rusage, which the two arguments are the size of.
    unsafe { raw(number::WAIT4, [-1isize as usize, status, WNOHANG | WALL, usage, 0, 0]) }
}

/// Lets a child continue that made this process its tracer and stopped. The child is no longer traced and gets the signal that it
/// stopped for. `false`: the status says that it has ended.
pub(crate) fn let_go_on(child: isize, status: i32) -> bool {
    const STOPPED: i32 = 0x7f;
    const PTRACE_DETACH: usize = 17;
    const SIGTRAP: usize = 5;
    if status & 0xff != STOPPED {
        return false;
    }
    let signal = (status >> 8 & 0xff) as usize;
    // SIGTRAP only tells a tracer of an exec.
    let signal = if signal == SIGTRAP { 0 } else { signal };
    plain(number::PTRACE, PTRACE_DETACH, child as usize, 0, signal);
    true
}

/// Copies this process; 0 in the copy. Each continues with its own memory.
pub(crate) fn fork(namespaces: usize) -> isize {
    // SAFETY: without CLONE_VM and with no new stack this is fork(): both sides return with memory of their own.
    unsafe { raw(number::CLONE, [namespaces | SIGCHLD, 0, 0, 0, 0, 0]) }
}

/// Maps zeroed private memory. Negative: an error.
pub(crate) fn map_memory(length: usize) -> isize {
    const PRIVATE: usize = 2;
    map(length, PRIVATE)
}

/// Maps zeroed memory that both sides of a fork share. Negative: an error.
pub(crate) fn map_shared_memory(length: usize) -> isize {
    const SHARED: usize = 1;
    map(length, SHARED)
}

fn map(length: usize, kind: usize) -> isize {
    const READ_WRITE: usize = 3;
    const ANONYMOUS: usize = 0x20;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    unsafe { raw(number::MMAP, [0, length, READ_WRITE, kind | ANONYMOUS, -1isize as usize, 0]) }
}

/// # Safety
/// Nothing may use the memory afterwards.
pub(crate) unsafe fn unmap_memory(start: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { raw(number::MUNMAP, [start, length, 0, 0, 0, 0]) };
}

/// # Safety
/// `arguments` and `variables` are arrays of pointers to NUL-terminated strings and end with a null pointer.
pub(crate) unsafe fn execve(path: &[u8], arguments: *const *const u8, variables: *const *const u8) -> isize {
    // SAFETY: the caller's promise; the kernel only reads.
    unsafe { raw(number::EXECVE, [path.as_ptr() as usize, arguments as usize, variables as usize, 0, 0, 0]) }
}

/// vfork with a stack for the child: it runs `child(argument)` in this process's memory while this process waits, until
/// the child has executed a program or ended. Returns its pid.
///
/// # Safety
/// `stack_top` is 16-byte aligned and the end of memory that nothing else uses; `argument` is what `child` expects.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn vfork(stack_top: usize, child: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result: isize;
    // SAFETY: the child never comes out of the block (`child` does not return), so the compiler's view of one passage
    // holds; it leaves this frame alone because it has a stack of its own. Memory may change: no `nomem`.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            inlateout("rax") number::CLONE => result, in("rdi") CLONE_VM | CLONE_VFORK | SIGCHLD, in("rsi") stack_top,
            in("rdx") 0, in("r10") 0, in("r8") 0, in("r12") argument, in("r13") child,
            lateout("rcx") _, lateout("r11") _);
    }
    result
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn vfork(stack_top: usize, child: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result: isize;
    // SAFETY: as above.
    unsafe {
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x0, x21", "blr x22", "brk 1", "2:",
            in("x8") number::CLONE, inlateout("x0") CLONE_VM | CLONE_VFORK | SIGCHLD => result, in("x1") stack_top,
            in("x2") 0, in("x3") 0, in("x4") 0, in("x21") argument, in("x22") child);
    }
    result
}
