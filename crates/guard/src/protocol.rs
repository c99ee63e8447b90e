//! The messages between the host and its guard over the lifeline. This is the only definition of the format, compiled into both
//! sides (the addon includes this file by path). `docs/internals/guard.md` describes it in words. PURE, no allocation.
//!
//! Host to guard: one spawn request (header, then strings), then single-byte commands. Guard to host: frames of four bytes (kind,
//! origin, payload length) and a payload. All numbers are little-endian.

/// The first bytes of a request.
pub(crate) const MAGIC: [u8; 4] = *b"SHPG";
/// Raised whenever the meaning of the format changes. A guard refuses every version but its own.
pub(crate) const VERSION: u16 = 7;
pub const HEADER_BYTES: usize = 40;
/// More than any system accepts for arguments and environment.
pub const MAX_BODY_BYTES: u32 = 32 << 20;

/// The program is started only inside the cgroup, because limits were requested.
pub const FLAG_CGROUP_REQUIRED: u32 = 1;
/// The program runs in a PID namespace of its own.
pub const FLAG_PID_NAMESPACE: u32 = 1 << 1;
/// Children are found by reading every /proc/*/stat, as where the kernel has no list of children (for tests).
pub const FLAG_SCAN_PROC: u32 = 1 << 2;
/// Descriptor 0 is a terminal and becomes the controlling terminal of the program's session.
pub const FLAG_TERMINAL: u32 = 1 << 3;
/// /proc was mounted for another PID namespace: its numbers are not those of the guard's own namespace.
pub const FLAG_FOREIGN_PROC: u32 = 1 << 4;
/// A trial: the guard proves that it finds and kills a descendant, and the program's process ends with 0 where it would become the
/// program.
pub const FLAG_TRIAL: u32 = 1 << 5;
/// The host lends its terminal: the program stays in the host's session and process group, which the terminal signals.
pub const FLAG_LENT_TERMINAL: u32 = 1 << 6;

/// Added to a signal's number: send that signal to the program's group.
pub const COMMAND_SIGNAL: u8 = 0x80;
/// Send SIGKILL to the whole tree now. After EXITED: to the processes that the program left behind.
pub const COMMAND_KILL: u8 = b'K';
/// After EXITED: the processes that the program left behind live on, unguarded.
pub const COMMAND_RELEASE: u8 = b'R';

pub const FRAME_STARTED: u8 = 1;
pub const FRAME_SPAWN_ERROR: u8 = 2;
pub const FRAME_EXITED: u8 = 3;
pub const FRAME_GONE: u8 = 4;
pub const FRAME_LOST: u8 = 5;
/// Sent while a kill takes long: the killed processes are exiting and have much memory to free. Without payload.
pub const FRAME_DYING: u8 = 6;
/// Comes with a descriptor: the listener of the sandbox's filter, by which the host decides about system calls. It precedes STARTED. Without
/// payload.
pub const FRAME_LISTENER: u8 = 7;
pub const FRAME_HEADER_BYTES: usize = 4;
/// Payload length of the longest frame, EXITED.
pub const MAX_PAYLOAD_BYTES: usize = 28;

/// The guard that sent a frame.
pub const ORIGIN_OUTER: u8 = 0;
pub const ORIGIN_INNER: u8 = 1;

/// The stage that failed, in a SPAWN_ERROR.
pub const STAGE_REQUEST: u32 = 1;
pub const STAGE_SUPERVISE: u32 = 2;
pub const STAGE_NAMESPACE: u32 = 3;
pub const STAGE_CGROUP: u32 = 4;
pub const STAGE_FORK: u32 = 5;
pub const STAGE_CHDIR: u32 = 6;
pub const STAGE_EXEC: u32 = 7;
pub const STAGE_SANDBOX: u32 = 8;
/// Opening one of the sandbox's paths. The path's number is in the bits above these 16.
pub const STAGE_SANDBOX_PATH: u32 = 9;
pub const STAGE_TERMINAL: u32 = 10;

/// Declares the calls, and the names by which the host tells of them.
macro_rules! calls {
    ($($call:ident = $number:literal => $name:literal, $file:literal;)*) => {
        $(pub const $call: u32 = $number;)*
        /// The name of a call, and the file that it is for; an empty file: none, or one that the request names. The host's alone: the
        /// guard has no room for names.
        pub const fn call_of(number: u32) -> (&'static str, &'static str) {
            match number {
                $($number => ($name, $file),)*
                _ => ("unknown", ""),
            }
        }
    };
}
// The system calls of a guard that can end a start, in a SPAWN_ERROR.
calls! {
    CALL_RECEIVE = 1 => "recvfrom", "";
    CALL_SIGNALFD = 2 => "signalfd4", "";
    CALL_PIDFD_OPEN = 3 => "pidfd_open", "";
    CALL_EPOLL_CREATE = 4 => "epoll_create1", "";
    CALL_EPOLL_CTL = 5 => "epoll_ctl", "";
    CALL_MMAP = 6 => "mmap", "";
    CALL_CLONE = 7 => "clone", "";
    CALL_SUBREAPER = 8 => "prctl(PR_SET_CHILD_SUBREAPER)", "";
    CALL_DEATH_SIGNAL = 9 => "prctl(PR_SET_PDEATHSIG)", "";
    CALL_LIST_CHILDREN = 10 => "read", "/proc/thread-self/children";
    CALL_SETGROUPS = 11 => "write", "/proc/self/setgroups";
    CALL_UID_MAP = 12 => "write", "/proc/self/uid_map";
    CALL_GID_MAP = 13 => "write", "/proc/self/gid_map";
    CALL_OPEN_PROC = 14 => "open", "/proc";
    CALL_MOUNT_ROOT = 15 => "mount", "/";
    CALL_MOUNT_PROC = 16 => "mount", "/proc";
    CALL_CGROUP_PROCS = 17 => "write", "cgroup.procs";
    CALL_CHDIR = 18 => "chdir", "";
    CALL_CONTROL_TERMINAL = 19 => "ioctl(TIOCSCTTY)", "";
    CALL_EXECVE = 20 => "execve", "";
    CALL_GETPPID = 21 => "getppid", "";
    CALL_CREATE_RULESET = 22 => "landlock_create_ruleset", "";
    CALL_ADD_RULE = 23 => "landlock_add_rule", "";
    CALL_RESTRICT_SELF = 24 => "landlock_restrict_self", "";
    CALL_NO_NEW_PRIVS = 25 => "prctl(PR_SET_NO_NEW_PRIVS)", "";
    CALL_CAPSET = 26 => "capset", "";
    CALL_SECCOMP_MODE = 27 => "prctl(PR_SET_SECCOMP)", "";
    CALL_SECCOMP = 28 => "seccomp", "";
    CALL_SENDMSG = 29 => "sendmsg", "";
    CALL_OPENAT = 30 => "openat", "";
    CALL_SETPGID = 31 => "setpgid", "";
}

/// Flag in the rights on a path: it must not be a link, and no link may lead to it.
pub const PATH_WITHOUT_LINKS: u64 = 1 << 63;
/// Flag in the rights on a path: it must not be a link.
pub const PATH_IS_NO_LINK: u64 = 1 << 62;

/// Flag of a sandbox section: the filter asks the host about some calls, so the host must get the filter's listener.
pub const SANDBOX_ASKS: u32 = 1;
/// Offset of the flags in a sandbox section.
pub const SANDBOX_FLAGS_AT: usize = 36;
/// Offset of the lists in a sandbox section: ports, the paths' rights, the filter; see [`Header`].
pub const SANDBOX_HEAD_BYTES: usize = 40;

/// The fixed part of a spawn request. `body_bytes` follow: the sandbox section, then strings, each ending in NUL: program path,
/// working directory (empty: the host's), cgroup directory (empty: none), `arguments` strings, `variables` strings, the sandbox's
/// paths.
///
/// The sandbox section is `sandbox_bytes` long (0: no sandbox), a multiple of 8. Its first 24 bytes are the kernel's own `struct
/// landlock_ruleset_attr`; then come three u32 (paths, ports, instructions of the filter) and the flags. Then come a u64
/// for each port that may be connected to, a u64 of rights for each path (with the bits above for how it is opened), and eight
/// bytes for each instruction of a seccomp filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub flags: u32,
    /// The guard serves only this process, and ends when its parent is another one.
    pub host_pid: u32,
    /// The host's number in /proc, which differs when /proc is another namespace's; 0: not known.
    pub host_listed: u32,
    /// Time between SIGTERM and SIGKILL when the host ends in order.
    pub grace_ms: u32,
    pub body_bytes: u32,
    pub arguments: u32,
    pub variables: u32,
    pub sandbox_bytes: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &(HEADER_BYTES as u16).to_le_bytes());
        put(&mut bytes, 8, &self.flags.to_le_bytes());
        put(&mut bytes, 12, &self.host_pid.to_le_bytes());
        put(&mut bytes, 16, &self.host_listed.to_le_bytes());
        put(&mut bytes, 20, &self.grace_ms.to_le_bytes());
        put(&mut bytes, 24, &self.body_bytes.to_le_bytes());
        put(&mut bytes, 28, &self.arguments.to_le_bytes());
        put(&mut bytes, 32, &self.variables.to_le_bytes());
        put(&mut bytes, 36, &self.sandbox_bytes.to_le_bytes());
        bytes
    }

    /// `None`: not a request, a request of another version, or one with impossible counts.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let size = u32_at(bytes, 4)?;
        if bytes.get(..4)? != MAGIC || size != (HEADER_BYTES as u32) << 16 | VERSION as u32 {
            return None;
        }
        let header = Header {
            flags: u32_at(bytes, 8)?,
            host_pid: u32_at(bytes, 12)?,
            host_listed: u32_at(bytes, 16)?,
            grace_ms: u32_at(bytes, 20)?,
            body_bytes: u32_at(bytes, 24)?,
            arguments: u32_at(bytes, 28)?,
            variables: u32_at(bytes, 32)?,
            sandbox_bytes: u32_at(bytes, 36)?,
        };
        // Each string takes a byte at least. Higher counts are wrong and would cost memory.
        let possible = header.body_bytes <= MAX_BODY_BYTES
            && header.arguments >= 1
            && header.arguments <= header.body_bytes
            && header.variables <= header.body_bytes
            && header.sandbox_bytes <= header.body_bytes;
        if possible { Some(header) } else { None }
    }
}

/// As much of a file as shells look at.
pub const SCRIPT_SAMPLE_BYTES: usize = 80;

/// Whether a file that the kernel can't execute may be a script, by its first bytes. bash's rule: a NUL in the first line is no text. A
/// binary of another kind of machine has one, and a shell would execute what it takes for lines.
pub fn begins_as_text(start: &[u8]) -> bool {
    start.iter().find(|byte| matches!(byte, 0 | b'\n')) != Some(&0)
}

/// The strings of a body, each with its NUL.
pub struct Strings<'a>(pub &'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (string, rest) = self.0.split_at_checked(self.0.iter().position(|byte| *byte == 0)? + 1)?;
        self.0 = rest;
        Some(string)
    }
}

/// Room for the longest message: two frames.
const MESSAGE_BYTES: usize = 2 * (FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES);

/// A frame being written: kind, origin and numbers. Another frame may follow in the same message.
pub struct Frame {
    bytes: [u8; MESSAGE_BYTES],
    length: usize,
}

impl Frame {
    pub fn new(kind: u8, origin: u8) -> Frame {
        let mut bytes = [0; MESSAGE_BYTES];
        put(&mut bytes, 0, &[kind, origin]);
        Frame { bytes, length: FRAME_HEADER_BYTES }
    }

    pub fn u32(self, value: u32) -> Frame {
        self.append(&value.to_le_bytes())
    }

    pub fn u64(self, value: u64) -> Frame {
        self.append(&value.to_le_bytes())
    }

    fn append(mut self, value: &[u8]) -> Frame {
        put(&mut self.bytes, self.length, value);
        self.length += value.len();
        let payload = (self.length - FRAME_HEADER_BYTES) as u16;
        put(&mut self.bytes, 2, &payload.to_le_bytes());
        self
    }

    /// Adds a whole frame to the message. No number may be added after that.
    pub fn then(mut self, next: &Frame) -> Frame {
        put(&mut self.bytes, self.length, next.bytes());
        self.length += next.length;
        self
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*four))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*eight))
}

/// Writes the bytes that fit. Byte by byte without index checks, because the guard has no panic machinery.
fn put(into: &mut [u8], at: usize, value: &[u8]) {
    for (place, byte) in into.iter_mut().skip(at).zip(value) {
        *place = *byte;
    }
}

/// The prospects of a process that was sent SIGKILL, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// It waits in the kernel for an event that may never come.
    Stuck,
    /// It will end when it is scheduled.
    Ending,
    /// It is ending. The kernel takes long to free much memory.
    Dying,
}

/// The fields of /proc/PID/stat that a guard reads: "PID (any bytes) STATE PARENT GROUP SESSION TERMINAL ITS-GROUP FLAGS ...", and the
/// exit status, field 52.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessState {
    pub letter: u8,
    pub parent: u32,
    pub flags: u32,
    /// As wait(2) has it. 0 as long as the process is not ending, and where the line is cut before it.
    pub status: u32,
}

impl ProcessState {
    const EXITING: u32 = 4;

    pub fn parse(text: &[u8]) -> Option<ProcessState> {
        // The name may contain any bytes, brackets too; the last bracket ends it.
        let rest = text.get(text.iter().rposition(|byte| *byte == b')')? + 2..)?;
        Some(ProcessState {
            letter: *rest.first()?,
            parent: nth_number(rest, 1)?,
            flags: nth_number(rest, 6)?,
            status: nth_number(rest, 49).unwrap_or(0),
        })
    }

    /// The process is ending, or has ended.
    pub fn is_exiting(&self) -> bool {
        self.flags & Self::EXITING != 0 || matches!(self.letter, b'Z' | b'X')
    }

    pub fn outlook(&self) -> Outlook {
        let exiting = self.flags & Self::EXITING != 0;
        match self.letter {
            // A zombie whose other threads are still running.
            b'Z' | b'X' => Outlook::Dying,
            b'D' if !exiting => Outlook::Stuck,
            b'D' => Outlook::Ending,
            _ if exiting => Outlook::Dying,
            _ => Outlook::Ending,
        }
    }
}

/// The number at a place of a list that is divided by spaces or tabs, counted from 0.
fn nth_number(text: &[u8], place: usize) -> Option<u32> {
    let mut words = text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let word = words.nth(place)?;
    let mut number = 0u32;
    for byte in word.iter().take_while(|byte| byte.is_ascii_digit()) {
        number = number.wrapping_mul(10).wrapping_add((byte - b'0') as u32);
    }
    Some(number)
}

/// The numbers of a process in /proc/PID/status, from the PID namespace that this /proc was mounted for down to the process's own: line
/// `NSpid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespacePids<'a>(&'a [u8]);

impl<'a> NamespacePids<'a> {
    pub fn parse(status: &'a [u8]) -> Option<NamespacePids<'a>> {
        let mut lines = status.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(b"NSpid:")).map(NamespacePids)
    }

    /// The number in the namespace so many levels below that of the mount.
    pub fn at(&self, level: usize) -> Option<u32> {
        nth_number(self.0, level).filter(|number| *number != 0)
    }

    /// How many levels the process's own namespace is below that of the mount; 0: it is the same.
    pub fn depth(&self) -> usize {
        let words = self.0.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        words.count().saturating_sub(1)
    }
}
