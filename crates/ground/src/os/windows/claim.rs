//! A name that one process of this user holds at a time. The kernel frees the name when that process is gone, however it ended, so
//! no file can be left behind.

use std::os::windows::io::{FromRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, GetLastError};
use windows_sys::Win32::System::Threading::CreateMutexW;

/// The longest name of an object, in units of UTF-16.
const MAX_NAME: usize = 200;

/// A name, until it is dropped. Processes of one session of the user share their names.
#[derive(Debug)]
pub struct Claim {
    _mutex: Option<OwnedHandle>,
}

/// Another holder has the name.
#[derive(Debug)]
pub struct Claimed;

impl Claim {
    /// Takes the name. If the system refuses it for another reason than a holder, nobody else is known to hold it.
    pub fn take(name: &str) -> Result<Claim, Claimed> {
        // A backslash would name a folder of objects.
        let name: Vec<u16> = name.replace('\\', "/").encode_utf16().collect();
        // The beginning and the end: identifiers that are long differ in their ends.
        let cut = name.len().saturating_sub(MAX_NAME);
        let (start, end) = if cut == 0 { (&name[..], &[][..]) } else { (&name[..32], &name[32 + cut..]) };
        let whole: Vec<u16> =
            "Local\\sheepdog/".encode_utf16().chain(start.iter().chain(end).copied()).chain([0]).collect();
        // SAFETY: the name ends with a NUL and outlives the call.
        let mutex = unsafe { CreateMutexW(std::ptr::null(), 0, whole.as_ptr()) };
        // SAFETY: a call without arguments; it tells of the call before.
        let exists = unsafe { GetLastError() } == ERROR_ALREADY_EXISTS;
        if mutex.is_null() {
            return Ok(Claim { _mutex: None });
        }
        // SAFETY: the system has just given us this handle, nobody else owns it.
        let mutex = unsafe { OwnedHandle::from_raw_handle(mutex) };
        if exists { Err(Claimed) } else { Ok(Claim { _mutex: Some(mutex) }) }
    }
}
