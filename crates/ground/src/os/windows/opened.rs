//! A handle of another process.

use std::os::windows::io::{FromRawHandle, OwnedHandle};
use windows_sys::Win32::System::Threading::OpenProcess;

/// A handle with these rights, if this user may have it.
pub(super) fn opened(pid: i32, rights: u32) -> Option<OwnedHandle> {
    // SAFETY: a call without pointers.
    let process = unsafe { OpenProcess(rights, 0, pid.cast_unsigned()) };
    // SAFETY: the system has just given us this handle, nobody else owns it.
    (!process.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(process) })
}
