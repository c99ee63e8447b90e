//! The kernel's side of the fence: calls of a program that wait for an answer.

use ground::os::unix::file_of_process;
use nix::errno::Errno;
use nix::libc::{self, Ioctl, c_int};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

// Ioctl has 64 bits with glibc and 32, signed, with musl.
const RECEIVE: Ioctl = 0xc050_2100_u32 as Ioctl;
const SEND: Ioctl = 0xc018_2101_u32 as Ioctl;
const IS_VALID: Ioctl = 0x4008_2102_u32 as Ioctl;
/// The call goes on as if nobody had been asked.
const CONTINUE: u32 = 1;

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawNotice {
    id: u64,
    /// Number of the calling thread, as this process sees it.
    thread: u32,
    flags: u32,
    call: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct RawAnswer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The listener of a program's filter. The calls fail when it is closed.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice(RawNotice);

/// The result of a call for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Value(i64),
    Failed(Errno),
    /// The kernel does it. Memory may have changed since it was read, so this decides nothing that memory says.
    Continue,
}

impl From<Result<(), Errno>> for Answer {
    fn from(result: Result<(), Errno>) -> Answer {
        result.map_or_else(Answer::Failed, |()| Answer::Value(0))
    }
}

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Listener {
        Listener(descriptor)
    }

    /// The next call that waits, without waiting for one. An error: no process uses the filter any more.
    pub(super) fn next(&self) -> io::Result<Option<Notice>> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives for the call. The kernel's own call to receive would wait.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } < 0 {
            return if Errno::last() == Errno::EINTR { Ok(None) } else { Err(io::Error::last_os_error()) };
        }
        if poll.revents & libc::POLLIN == 0 {
            let is_over = poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
            return if is_over { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
        }
        let mut notice = RawNotice::default();
        // SAFETY: the kernel fills in a structure of this layout.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut notice) } == 0 {
            return Ok(Some(Notice(notice)));
        }
        match Errno::last() {
            // The caller was killed meanwhile.
            Errno::ENOENT | Errno::EINTR => Ok(None),
            errno => Err(errno.into()),
        }
    }

    /// Whether the call still waits. Until then the caller's numbers are its own.
    pub(super) fn is_waiting(&self, notice: &Notice) -> bool {
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::ioctl(self.0.as_raw_fd(), IS_VALID, &raw const notice.0.id) == 0 }
    }

    pub(super) fn answer(&self, notice: &Notice, answer: Answer) {
        let mut raw = RawAnswer { id: notice.0.id, value: 0, error: 0, flags: 0 };
        match answer {
            Answer::Value(value) => raw.value = value,
            Answer::Failed(errno) => raw.error = -(errno as i32),
            Answer::Continue => raw.flags = CONTINUE,
        }
        // SAFETY: the kernel reads a structure of this layout. A failure means that the caller is gone.
        let _ = unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw mut raw) };
    }
}

impl Notice {
    pub(super) fn call(&self) -> libc::c_long {
        libc::c_long::from(self.0.call)
    }

    pub(super) fn thread(&self) -> u32 {
        self.0.thread
    }

    /// An argument that is an `int`.
    pub(super) fn int(&self, index: usize) -> i32 {
        self.0.arguments.get(index).map_or(-1, |argument| *argument as i32)
    }

    /// A copy of the caller's memory at the address in this argument.
    pub(super) fn memory(&self, index: usize, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0u8; length];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let start = self.0.arguments.get(index).copied().unwrap_or(0) as usize;
        let remote = libc::iovec { iov_base: start as *mut _, iov_len: length };
        let thread = self.0.thread as libc::pid_t;
        // SAFETY: the kernel writes at most `length` bytes into `bytes`; the other side is another process's memory.
        let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
        if Errno::result(read)? as usize == length { Ok(bytes) } else { Err(Errno::EFAULT) }
    }

    /// The process of the calling thread.
    pub(super) fn process(&self) -> Option<i32> {
        let status = fs::read_to_string(file_of_process(self.thread().cast_signed(), "status")?).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    }

    /// The caller's name for itself.
    pub(super) fn program(&self) -> Option<String> {
        let name = fs::read_to_string(file_of_process(self.thread().cast_signed(), "comm")?).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// A descriptor of this process for the open socket behind the caller's descriptor.
    pub(super) fn socket(&self, index: usize) -> Result<OwnedFd, Errno> {
        let process = self.process().ok_or(Errno::EACCES)?;
        let held = ground::os::unix::pidfd::open(process).map_err(|_| Errno::EACCES)?;
        take(&held, self.int(index))
    }
}

fn take(process: &OwnedFd, descriptor: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: a call without pointers.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0) };
    match Errno::result(taken) {
        // SAFETY: the kernel has just given this process the descriptor.
        Ok(taken) => Ok(unsafe { OwnedFd::from_raw_fd(taken as RawFd) }),
        Err(Errno::EBADF) => Err(Errno::EBADF),
        // A program that forbids others to look at it can't be helped.
        Err(_) => Err(Errno::EACCES),
    }
}
