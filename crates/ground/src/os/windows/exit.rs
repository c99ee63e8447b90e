//! Waits for the exit of a process, without a thread for each.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Threading::{
    INFINITE, OpenProcess, PROCESS_SYNCHRONIZE, RegisterWaitForSingleObject, UnregisterWaitEx,
    WT_EXECUTEINWAITTHREAD, WT_EXECUTEONLYONCE, WaitForSingleObject,
};

/// Poll interval for an exit, when the system refuses to wait for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Resolves when the process has exited; at once when there is none. Call it within tokio, and hold a handle of the process, so that
/// its number is not used again.
pub fn wait_for_exit(pid: i32) -> JoinHandle<()> {
    // SAFETY: a call without pointers.
    let opened = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid.cast_unsigned()) };
    if opened.is_null() {
        return crate::task::spawn(async {});
    }
    // SAFETY: the system has just given us this handle, nobody else owns it.
    let process = unsafe { OwnedHandle::from_raw_handle(opened) };
    crate::task::spawn(async move {
        match Wait::new(process) {
            Ok((mut wait, ended)) => {
                let _ = ended.await;
                wait.unregister();
            }
            Err(process) => {
                while !has_ended(&process) {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                }
            }
        }
    })
}

fn has_ended(process: &OwnedHandle) -> bool {
    // SAFETY: the handle lives for the call, which does not wait.
    unsafe { WaitForSingleObject(process.as_raw_handle(), 0) != WAIT_TIMEOUT }
}

/// A wait that a thread of the system does.
struct Wait {
    registered: HANDLE,
    _process: OwnedHandle,
}

// SAFETY: a handle of the system, which every thread may use.
unsafe impl Send for Wait {}

impl Wait {
    /// The wait, and what resolves at its end. The process's handle comes back when the system refuses.
    fn new(process: OwnedHandle) -> Result<(Wait, oneshot::Receiver<()>), OwnedHandle> {
        let (tell, ended) = oneshot::channel::<()>();
        let context = Box::into_raw(Box::new(Some(tell)));
        let mut registered: HANDLE = std::ptr::null_mut();
        // SAFETY: `context` is freed by the callback, which runs once; or below, when nothing was registered.
        let accepted = unsafe {
            RegisterWaitForSingleObject(
                &mut registered,
                process.as_raw_handle(),
                Some(call),
                context.cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE,
            )
        };
        if accepted == 0 {
            // SAFETY: the callback was not registered, so this is the only owner.
            drop(unsafe { Box::from_raw(context) });
            return Err(process);
        }
        Ok((Wait { registered, _process: process }, ended))
    }

    fn unregister(&mut self) {
        let registered = std::mem::replace(&mut self.registered, std::ptr::null_mut());
        if !registered.is_null() {
            // SAFETY: registered by us, and not unregistered before. The call waits for a callback that runs.
            let _ = unsafe { UnregisterWaitEx(registered, INVALID_HANDLE_VALUE) };
        }
    }
}

/// A wait that is given up leaves the little that its callback would have freed: the callback may never come.
impl Drop for Wait {
    fn drop(&mut self) {
        self.unregister();
    }
}

unsafe extern "system" fn call(context: *mut c_void, _: bool) {
    // SAFETY: made by `Wait::new`, and given to this one call.
    let mut tell = unsafe { Box::from_raw(context.cast::<Option<oneshot::Sender<()>>>()) };
    if let Some(tell) = tell.take() {
        let _ = tell.send(());
    }
}
