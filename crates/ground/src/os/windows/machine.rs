//! The machine, and the user.

use std::path::PathBuf;
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_ACCESS_DENIED, GetLastError};
use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION};

/// Process ids count in one place: the machine.
const PLACE: u32 = 1;

/// The machine's name; `None` where the system does not tell it.
pub fn machine_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// Users have no numbers.
pub fn user_id() -> u32 {
    0
}

/// The folder for this user's files of this machine.
pub fn runtime_folder() -> PathBuf {
    std::env::var_os("LOCALAPPDATA").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// Start times count from one point for all boots, so no boot needs a number.
pub(crate) fn place_of_processes() -> Option<u32> {
    Some(PLACE)
}

/// Whether a process without a known start time may be alive: it is another user's.
pub(crate) fn may_be_alive(pid: u32) -> bool {
    // SAFETY: a call without pointers.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if process.is_null() {
        // SAFETY: as above; it tells of the call before.
        return unsafe { GetLastError() } == ERROR_ACCESS_DENIED;
    }
    // SAFETY: opened above, and closed once.
    unsafe { CloseHandle(process) };
    false
}

/// The allocator gives unused memory back by itself.
pub(crate) fn give_back_memory() {}
