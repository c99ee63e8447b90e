//! Work to do when this process ends by a return from main or by `exit`.

use nix::libc;

/// Registers a function for that moment. It is not called when the system refuses the registration, or when a signal ends the
/// process.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function of this library, which is not unloaded (napi keeps addons loaded), and takes and returns nothing.
    let _ = unsafe { libc::atexit(call) };
}
