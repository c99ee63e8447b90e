//! A program that was just created, and its end.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Threading::GetExitCodeProcess;

#[link(name = "ntdll")]
unsafe extern "system" {
    /// Resumes all threads of a process. The handle of the first thread, which the documented way takes, is not told by std.
    fn NtResumeProcess(process: HANDLE) -> i32;
}

/// Lets a process run that was created suspended.
pub fn resume(process: HANDLE) -> io::Result<()> {
    // SAFETY: the handle lives for the call.
    let status = unsafe { NtResumeProcess(process) };
    if status < 0 {
        return Err(io::Error::other(format!("NtResumeProcess failed with status {status:#x}")));
    }
    Ok(())
}

/// The exit code of a process that has ended.
pub fn exit_code(process: &OwnedHandle) -> Option<i32> {
    let mut code = 0;
    // SAFETY: the handle and the number live for the call.
    let told = unsafe { GetExitCodeProcess(process.as_raw_handle(), &mut code) };
    (told != 0).then(|| code.cast_signed())
}

/// Sends Ctrl-Break to the programs of a console group. Programs without a console do not get it.
pub fn break_group(leader: u32) {
    // SAFETY: a call without pointers.
    let _ = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, leader) };
}
