//! Work to do when this process ends by a return from main or by `exit`.

unsafe extern "C" {
    /// The C library's. For a DLL it runs when the library is unloaded.
    fn atexit(call: extern "C" fn()) -> i32;
}

/// Registers a function for that moment. It is not called when the system refuses the registration, or when the process is
/// terminated.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function of this library, which takes and returns nothing.
    let _ = unsafe { atexit(call) };
}
