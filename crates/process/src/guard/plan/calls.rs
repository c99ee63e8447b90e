//! System calls by which a process acts on another one, and how a sandbox handles each. PURE.
//!
//! | what | held by |
//! | --- | --- |
//! | signals (`kill`, `tgkill`, `rt_sigqueueinfo`, `pidfd_send_signal`, SIGIO) | Landlock's scope, from Linux 6.12 |
//! | `ptrace`, /proc/PID/{mem,environ,fd,root,…} of a process outside | Landlock; within the tree a debugger works |
//! | memory, files and pages of another process; kernel-wide tracing | refused here |
//! | limits, priority, scheduling of another process | refused here, but for the caller's own |
//! | keys, System V memory, semaphores and queues, POSIX queues: they have no path, so Landlock doesn't see them | refused here |
//! | typing into a terminal that was inherited | refused here |
//! | changing names or contents through a folder or file that is open for reading (`ioctl` of btrfs, bcachefs, OCFS2) | refused here |
//! | a child in another control group (`clone3`) | refused here: a C library uses `clone` in its place |
//!
//! "The caller's own" is a pid of 0: a filter is made before its process has a pid, and is inherited. A program that names its own
//! pid or a thread's is refused as well, as if it had no right to it.
//!
//! Numbers differ by architecture, and mean other calls elsewhere (359 is `socket` on i386 and `pipe2` on ARM), so each has a column
//! of its own. They are those of the kernel's `syscall.tbl` files.

/// The treatment of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Refused,
    /// Allowed only if the first argument, a pid, is 0.
    OwnPid,
    /// Allowed only if the first argument, the kind of id in the second one, has this value and the second one is 0.
    OwnOf(u32),
    /// `prlimit64`: allowed only if the pid is 0, or no new limit is given.
    Limits,
    /// Reported as absent from the system: a program then uses an older call in its place.
    Absent,
    /// `ioctl`: none of [`TYPING`], [`FILE_REQUESTS`] and [`FILE_SYSTEMS`].
    Requests,
}

/// A call and its numbers; 0 where an architecture has none.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "a build reads the columns of its own architecture; tests read all")
)]
pub(super) struct Call {
    pub name: &'static str,
    pub x86_64: u32,
    pub aarch64: u32,
    pub i386: u32,
    pub arm: u32,
    pub rule: Rule,
}

const fn call(name: &'static str, numbers: [u32; 4], rule: Rule) -> Call {
    let [x86_64, aarch64, i386, arm] = numbers;
    Call { name, x86_64, aarch64, i386, arm, rule }
}

/// `PRIO_PROCESS`, and `IOPRIO_WHO_PROCESS`.
const PRIORITY_OF_PROCESS: u32 = 0;
const IO_PRIORITY_OF_PROCESS: u32 = 1;

/// `TIOCSTI` and `TIOCLINUX`.
pub(super) const TYPING: [u32; 2] = [0x5412, 0x541c];

/// Requests of file systems that need nothing but a file that is open for reading, and whose path Landlock never sees: OCFS2 makes a
/// copy of a file (`OCFS2_IOC_REFLINK`), fs-verity makes it read-only for good, and keys of encrypted folders come and go.
pub(super) const FILE_REQUESTS: [u32; 6] =
    [0x4018_6f04, 0x4080_6685, 0x800c_6613, 0xc050_6617, 0xc040_6618, 0xc040_6619];

/// File systems, by the second byte of their requests, that make, copy and remove folders (subvolumes) by a request: btrfs, bcachefs.
pub(super) const FILE_SYSTEMS: [u32; 2] = [0x9400, 0xbc00];
pub(super) const FILE_SYSTEM: u32 = 0xff00;

/// Requests with the byte of btrfs that all file systems have: `FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`. They need a file that is open
/// for writing, or change no content.
pub(super) const COPYING: [u32; 3] = [0x4004_9409, 0x4020_940d, 0xc018_9436];

use Rule::{Absent, Limits, OwnOf, OwnPid, Refused, Requests};

#[rustfmt::skip]
pub(super) const CALLS: &[Call] = &[
    //                        x86_64 aarch64 i386 arm
    call("ioctl",              [16,  29,  54,  54],  Requests),
    call("prlimit64",          [302, 261, 340, 369], Limits),
    call("sched_setaffinity",  [203, 122, 241, 241], OwnPid),
    call("sched_setscheduler", [144, 119, 156, 156], OwnPid),
    call("sched_setparam",     [142, 118, 154, 154], OwnPid),
    call("sched_setattr",      [314, 274, 351, 380], OwnPid),
    call("setpriority",        [141, 140, 97,  97],  OwnOf(PRIORITY_OF_PROCESS)),
    call("ioprio_set",         [251, 30,  289, 314], OwnOf(IO_PRIORITY_OF_PROCESS)),
    call("move_pages",         [279, 239, 317, 344], OwnPid),
    call("migrate_pages",      [256, 238, 294, 400], OwnPid),
    call("process_vm_readv",   [310, 270, 347, 376], Refused),
    call("process_vm_writev",  [311, 271, 348, 377], Refused),
    call("process_madvise",    [440, 440, 440, 440], Refused),
    call("process_mrelease",   [448, 448, 448, 448], Refused),
    call("kcmp",               [312, 272, 349, 378], Refused),
    call("pidfd_getfd",        [438, 438, 438, 438], Refused),
    call("perf_event_open",    [298, 241, 336, 364], Refused),
    call("bpf",                [321, 280, 357, 386], Refused),
    // Landlock looks at every other change of mounts.
    call("mount_setattr",      [442, 442, 442, 442], Refused),
    call("open_tree_attr",     [467, 467, 467, 467], Refused),
    // Its control group is in memory, where no filter looks.
    call("clone3",             [435, 435, 435, 435], Absent),
    call("add_key",            [248, 217, 286, 309], Refused),
    call("request_key",        [249, 218, 287, 310], Refused),
    call("keyctl",             [250, 219, 288, 311], Refused),
    call("ipc",                [0,   0,   117, 117], Refused),
    call("shmget",             [29,  194, 395, 307], Refused),
    call("shmat",              [30,  196, 397, 305], Refused),
    call("shmctl",             [31,  195, 396, 308], Refused),
    call("semget",             [64,  190, 393, 299], Refused),
    call("semop",              [65,  193, 0,   298], Refused),
    call("semctl",             [66,  191, 394, 300], Refused),
    call("semtimedop",         [220, 192, 0,   312], Refused),
    call("semtimedop_time64",  [0,   0,   420, 420], Refused),
    call("msgget",             [68,  186, 399, 303], Refused),
    call("msgsnd",             [69,  189, 400, 301], Refused),
    call("msgrcv",             [70,  188, 401, 302], Refused),
    call("msgctl",             [71,  187, 402, 304], Refused),
    call("mq_open",            [240, 180, 277, 274], Refused),
    call("mq_unlink",          [241, 181, 278, 275], Refused),
    // A queue can be opened by its path as well, to read from.
    call("mq_timedsend",       [242, 182, 279, 276], Refused),
    call("mq_timedreceive",    [243, 183, 280, 277], Refused),
    call("mq_notify",          [244, 184, 281, 278], Refused),
    call("mq_getsetattr",      [245, 185, 282, 279], Refused),
    call("mq_timedsend_time64",    [0, 0, 418, 418], Refused),
    call("mq_timedreceive_time64", [0, 0, 419, 419], Refused),
];
