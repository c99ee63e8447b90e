//! Jobs: sets of processes that the kernel keeps. What a member starts is a member. When the last handle of a job is closed, which also
//! happens at the end of this process, however it ends, the kernel kills all members.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;
use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, GetLastError, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};

/// A set of processes. Dropping it kills them.
#[derive(Debug)]
pub struct Job(OwnedHandle);

/// Use of resources by the processes of a job so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobUsage {
    pub user: Duration,
    pub kernel: Duration,
    /// The most memory that one process had.
    pub peak_process_bytes: u64,
}

/// The list of members starts with two numbers.
const LIST_HEAD: usize = 8;
const PID_BYTES: usize = size_of::<usize>();

impl Job {
    /// An empty set, which nobody can leave.
    pub fn new() -> io::Result<Job> {
        // SAFETY: a call without pointers. The handle is not inherited by programs.
        let job = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has just given us this handle, nobody else owns it.
        let job = Job(unsafe { OwnedHandle::from_raw_handle(job) });
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    /// Lets the members live on when the job is closed.
    pub fn let_go(&self) -> io::Result<()> {
        self.limit(0)
    }

    fn limit(&self, flags: u32) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        let bytes = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
        // SAFETY: the handle and the structure, of this size, live for the call.
        asked(unsafe {
            SetInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                bytes,
            )
        })
    }

    /// Adds a process. What it starts from here on is a member too, so add it before it runs.
    pub fn add(&self, process: HANDLE) -> io::Result<()> {
        // SAFETY: both handles live for the call.
        asked(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process) })
    }

    /// Kills all members. They are gone a moment later: see [`Job::living`].
    pub fn kill(&self) {
        // SAFETY: the handle lives for the call.
        let _ = unsafe { TerminateJobObject(self.0.as_raw_handle(), super::process::KILLED) };
    }

    /// The number of members that have not ended.
    pub fn living(&self) -> u32 {
        self.accounting().ActiveProcesses
    }

    pub fn usage(&self) -> JobUsage {
        let times = self.accounting();
        let time = |units: i64| Duration::from_nanos(units.max(0).cast_unsigned() * 100);
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        let _ = self.query(JobObjectExtendedLimitInformation, &mut limits);
        JobUsage {
            user: time(times.TotalUserTime),
            kernel: time(times.TotalKernelTime),
            peak_process_bytes: limits.PeakProcessMemoryUsed as u64,
        }
    }

    fn accounting(&self) -> JOBOBJECT_BASIC_ACCOUNTING_INFORMATION {
        let mut found = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        let _ = self.query(JobObjectBasicAccountingInformation, &mut found);
        found
    }

    fn query<T>(&self, what: i32, found: &mut T) -> io::Result<()> {
        let bytes = size_of::<T>() as u32;
        let place = (&raw mut *found).cast();
        // SAFETY: the handle and the structure, of this size, live for the call.
        asked(unsafe {
            QueryInformationJobObject(self.0.as_raw_handle(), what, place, bytes, std::ptr::null_mut())
        })
    }

    /// The ids of the members that have not ended.
    pub fn members(&self) -> Vec<u32> {
        let mut room = 64;
        loop {
            let mut list = vec![0_usize; (LIST_HEAD + room * PID_BYTES).div_ceil(PID_BYTES)];
            let bytes = (list.len() * PID_BYTES) as u32;
            // SAFETY: the handle and the list, of this size, live for the call.
            let told = unsafe {
                QueryInformationJobObject(
                    self.0.as_raw_handle(),
                    JobObjectBasicProcessIdList,
                    list.as_mut_ptr().cast(),
                    bytes,
                    std::ptr::null_mut(),
                )
            };
            // SAFETY: a call without arguments; it tells of the call before.
            if told == 0 && unsafe { GetLastError() } == ERROR_MORE_DATA {
                room *= 2;
                continue;
            }
            if told == 0 {
                return Vec::new();
            }
            // The second number says how many are in the list. Each has the width of a pointer.
            let head = list.first().copied().unwrap_or(0).to_ne_bytes();
            let count = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) as usize;
            return list.iter().skip(LIST_HEAD / PID_BYTES).take(count).map(|pid| *pid as u32).collect();
        }
    }
}

fn asked(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
