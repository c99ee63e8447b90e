//! Processes as the system lists them.

use super::super::process_entry::{ProcessEntry, ProcessIdentity, TICKS_PER_SECOND};
use super::opened::opened;
use crate::signal::Signal;
use std::collections::HashMap;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::{FILETIME, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::SystemInformation::GetSystemTimeAsFileTime;
use windows_sys::Win32::System::Threading::{
    GetProcessIoCounters, GetProcessTimes, IO_COUNTERS, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

/// Units of 100 ns in a tick.
const UNITS_PER_TICK: u64 = 10_000_000 / TICKS_PER_SECOND;

/// The exit code of a process that is killed.
pub(crate) const KILLED: u32 = 1;

/// Kills the process, if it still is the one that is meant. True when it was. No other signal reaches a single process.
pub fn signal_process(identity: ProcessIdentity, signal: Signal) -> bool {
    if signal != Signal::Kill {
        return false;
    }
    let rights = PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;
    // While the handle is open, the number belongs to no other process.
    let Some(process) = opened(identity.pid, rights) else { return false };
    let is_meant = times(&process).is_some_and(|times| times.start() == identity.start_time);
    // SAFETY: the handle lives for the call.
    is_meant && unsafe { TerminateProcess(process.as_raw_handle(), KILLED) } != 0
}

/// Memory of the process that is in RAM.
pub fn rss_bytes(pid: i32) -> u64 {
    let Some(process) = queried(pid) else { return 0 };
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let bytes = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle and the structure, of this size, live for the call.
    let told = unsafe { K32GetProcessMemoryInfo(process.as_raw_handle(), &mut counters, bytes) };
    if told == 0 { 0 } else { counters.WorkingSetSize as u64 }
}

/// All processes; `None` when the system does not tell them.
pub(crate) fn living_processes() -> Option<Vec<ProcessEntry>> {
    // SAFETY: a call without pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: the system has just given us this handle, nobody else owns it.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut found = PROCESSENTRY32W { dwSize: size_of::<PROCESSENTRY32W>() as u32, ..Default::default() };
    let (mut entries, mut started) = (Vec::new(), HashMap::new());
    // SAFETY: the handle and the structure, which tells its size, live for the calls.
    let mut has_more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &mut found) } != 0;
    while has_more {
        let pid = found.th32ProcessID.cast_signed();
        // The processes of others can't be opened. They are not ours either.
        if let Some(times) = queried(pid).and_then(|process| times(&process)) {
            started.insert(pid, times.started);
            entries.push(ProcessEntry {
                identity: ProcessIdentity { pid, start_time: times.start() },
                parent: found.th32ParentProcessID.cast_signed(),
                group: 0,
                cpu_ticks: times.cpu,
            });
        }
        // SAFETY: as above.
        has_more = unsafe { Process32NextW(snapshot.as_raw_handle(), &mut found) } != 0;
    }
    forget_strangers(&mut entries, &started);
    (!entries.is_empty()).then_some(entries)
}

/// A process keeps the number of its parent when that has ended. The number may belong to a stranger by now, which began later.
fn forget_strangers(entries: &mut [ProcessEntry], started: &HashMap<i32, u64>) {
    for entry in entries {
        let born = started.get(&entry.identity.pid);
        if born.zip(started.get(&entry.parent)).is_some_and(|(born, parent)| parent > born) {
            entry.parent = 0;
        }
    }
}

/// Tells the parent of a process, as it was when this was called.
pub(crate) fn parents() -> impl Fn(i32) -> Option<i32> {
    let table = living_processes().unwrap_or_default();
    move |pid| table.iter().find(|entry| entry.identity.pid == pid).map(|entry| entry.parent)
}

/// `None`: the system has no list of a process's children.
pub(crate) fn children_of(_: i32) -> Option<Vec<i32>> {
    None
}

/// The present as start times count it: from 1601 on.
pub fn ticks_now() -> u64 {
    let mut now = FILETIME::default();
    // SAFETY: the structure lives for the call.
    unsafe { GetSystemTimeAsFileTime(&mut now) };
    units(now) / UNITS_PER_TICK
}

/// The start of a living process.
pub fn start_time(pid: i32) -> Option<u64> {
    let process = queried(pid)?;
    // SAFETY: the handle lives for the call, which does not wait.
    let lives = unsafe { WaitForSingleObject(process.as_raw_handle(), 0) } == WAIT_TIMEOUT;
    lives.then(|| times(&process)).flatten().map(|times| times.start())
}

/// False: the system has a process table.
pub(crate) fn is_there(_: i32) -> bool {
    false
}

/// Bytes that the process has read and written.
pub(crate) fn io_bytes(pid: i32) -> u64 {
    let Some(process) = queried(pid) else { return 0 };
    let mut counters = IO_COUNTERS::default();
    // SAFETY: the handle and the structure live for the call.
    let told = unsafe { GetProcessIoCounters(process.as_raw_handle(), &mut counters) };
    if told == 0 { 0 } else { counters.ReadTransferCount + counters.WriteTransferCount }
}

struct Times {
    /// In units of 100 ns since 1601.
    started: u64,
    /// In ticks.
    cpu: u64,
}

impl Times {
    /// In ticks since 1601.
    fn start(&self) -> u64 {
        self.started / UNITS_PER_TICK
    }
}

fn times(process: &OwnedHandle) -> Option<Times> {
    let [mut start, mut end, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle and the structures live for the call.
    let told =
        unsafe { GetProcessTimes(process.as_raw_handle(), &mut start, &mut end, &mut kernel, &mut user) };
    (told != 0).then(|| Times { started: units(start), cpu: (units(kernel) + units(user)) / UNITS_PER_TICK })
}

fn units(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}

fn queried(pid: i32) -> Option<OwnedHandle> {
    opened(pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_that_has_the_number_of_a_dead_parent_is_no_parent() {
        let entry = |pid, parent| ProcessEntry {
            identity: ProcessIdentity { pid, start_time: 7 },
            parent,
            group: 0,
            cpu_ticks: 0,
        };
        let mut entries = vec![entry(4, 0), entry(8, 4), entry(12, 8), entry(16, 12)];
        let started = HashMap::from([(4, 70), (8, 71), (12, 72), (16, 71)]);
        forget_strangers(&mut entries, &started);
        assert_eq!(entries.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [0, 4, 8, 0]);
    }

    #[test]
    fn a_child_has_this_process_for_its_parent() {
        let own = std::process::id().cast_signed();
        let mut child = std::process::Command::new("cmd")
            .args(["/c", "pause"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let parent = living_processes().unwrap().into_iter().find(|entry| entry.identity.pid == pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent.map(|entry| entry.parent), Some(own));
    }
}
