//! Facts about processes by /proc, and signals to processes.
//!
//! A pid is trusted only together with its start time, which is checked again just before a signal, through a pidfd. So a
//! recycled pid is never hit.

use super::super::process_entry::{ProcessEntry, ProcessIdentity};
use super::proc_folder::{ProcFolder, file_of_process, proc_folder, processes};
use super::signal::native;
use crate::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Sends a signal, unless the process is gone or its pid belongs to another one by now. True when the signal was sent.
pub fn signal_process(identity: ProcessIdentity, signal: Signal) -> bool {
    let Some(signal) = native(signal) else { return false };
    // The pidfd is opened before the start time is checked. From then on the descriptor means the same process or none.
    #[cfg(target_os = "linux")]
    if let Ok(descriptor) = super::pidfd::open(identity.pid) {
        return start_time(identity.pid) == Some(identity.start_time)
            && super::pidfd::send_signal(&descriptor, signal);
    }
    start_time(identity.pid) == Some(identity.start_time) && kill(Pid::from_raw(identity.pid), signal).is_ok()
}

/// Resident memory of a process; 0 where the system does not report it.
pub fn rss_bytes(pid: i32) -> u64 {
    let Some(text) = text_of(pid, "status") else { return 0 };
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The processes that are alive now. `None`: this system has no readable table (no /proc; macOS). Then only the process group is
/// known.
pub(crate) fn living_processes() -> Option<Vec<ProcessEntry>> {
    let entries: Vec<ProcessEntry> = processes()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()))
        .filter_map(entry_of)
        .collect();
    // A /proc without processes is an empty folder: this process itself would have to be listed.
    (!entries.is_empty()).then_some(entries)
}

/// Tells the parent of a process.
pub(crate) fn parents() -> impl Fn(i32) -> Option<i32> {
    |pid| entry_of(pid).map(|entry| entry.parent)
}

/// The children of all threads of a process; `None` where the kernel does not list them.
pub(crate) fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(file_of_process(pid, "task")?).ok()?.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).ok()?;
        children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// The current time in the unit of start times. A value read before a spawn is never later than the new process's start time.
pub fn ticks_now() -> u64 {
    #[cfg(target_os = "linux")]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME) {
        let millis = std::time::Duration::from(time).as_millis() as u64;
        return millis * super::super::process_entry::TICKS_PER_SECOND / 1000;
    }
    0
}

/// The start time of a living process, in clock ticks since boot.
pub fn start_time(pid: i32) -> Option<u64> {
    entry_of(pid).map(|entry| entry.identity.start_time)
}

fn entry_of(pid: i32) -> Option<ProcessEntry> {
    let stat = std::fs::read(file_of_process(pid, "stat")?).ok()?;
    parse_stat(&stat)
}

fn text_of(pid: i32, name: &str) -> Option<String> {
    std::fs::read_to_string(file_of_process(pid, name)?).ok()
}

/// Whether there is such a process, where the system has no process table; false where it has one.
pub(crate) fn is_there(pid: i32) -> bool {
    // EPERM: there is such a process, but it belongs to another user.
    proc_folder() != ProcFolder::Own && kill(Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}

/// Bytes that a process has read and written, files and pipes alike; 0 where the system does not report them.
pub(crate) fn io_bytes(pid: i32) -> u64 {
    let Some(text) = text_of(pid, "io") else { return 0 };
    text.lines()
        .filter_map(|line| line.strip_prefix("rchar: ").or_else(|| line.strip_prefix("wchar: ")))
        .filter_map(|number| number.parse::<u64>().ok())
        .sum()
}

/// Parses a line of /proc/PID/stat; `None` for a zombie. The name in parentheses may contain anything, parentheses too.
///
/// The line describes the first thread. Where that thread has ended and others have not, the process is alive: until the last
/// thread is gone it keeps its files, ports and locks.
fn parse_stat(stat: &[u8]) -> Option<ProcessEntry> {
    let text = std::str::from_utf8(stat.get(memchr::memrchr(b')', stat)? + 1..)?).ok()?;
    let pid = std::str::from_utf8(stat.split(|&byte| byte == b' ').next()?).ok()?.parse().ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let threads = number(17)?;
    if matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1 {
        return None;
    }
    Some(ProcessEntry {
        identity: ProcessIdentity { pid, start_time: number(19)? },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_a_stat_line_whose_name_holds_parentheses_and_spaces() {
        let line = b"42 (a) R (b) S 7 8 9 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 987654 1 2 3";
        let parsed = parse_stat(line).expect("a process");
        assert_eq!(parsed.identity, ProcessIdentity { pid: 42, start_time: 987_654 });
        assert_eq!((parsed.parent, parsed.group, parsed.cpu_ticks), (7, 8, 42));
    }

    #[test]
    fn a_zombie_or_garbage_is_no_process() {
        assert_eq!(parse_stat(b"42 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0"), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"42 (x"), None);
        assert_eq!(parse_stat(b"42 (x) S 1"), None);
    }

    /// A process whose first thread has ended and whose second thread waits for ever.
    #[cfg(target_os = "linux")]
    fn without_its_first_thread() -> i32 {
        extern "C" fn wait(_: *mut libc::c_void) -> libc::c_int {
            loop {
                // SAFETY: it takes nothing and only waits.
                unsafe { libc::pause() };
            }
        }
        let mut stack = vec![0_u128; 4096];
        let flags = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        // SAFETY: the child makes system calls and nothing else; the thread's stack is memory of its own that is never freed there.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                // The process must not keep other tests' locks and pipes open.
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
                libc::clone(wait, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            pid
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_alive_until_its_last_thread_is_gone() {
        let pid = without_its_first_thread();
        assert!(pid > 0);
        let is_zombie = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("not reaped yet");
            stat.contains(") Z ")
        };
        let begun = std::time::Instant::now();
        while !is_zombie() {
            assert!(begun.elapsed() < Duration::from_secs(30), "its first thread does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let start_time = start_time(pid);
        let table = living_processes().expect("a table");
        let is_listed = table.iter().any(|entry| entry.identity.pid == pid);
        let identity = ProcessIdentity { pid, start_time: start_time.unwrap_or(0) };
        let is_killed = signal_process(identity, Signal::Kill);
        let _ = kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        nix::sys::wait::waitpid(Pid::from_raw(pid), None).expect("a child");
        assert_eq!((start_time.is_some(), is_listed, is_killed), (true, true, true));
        assert_eq!(super::start_time(pid), None);
    }
}
