//! What is still to be done when this process ends, by a return from main or `exit`.

use nix::libc;

/// Has it called then; what the system refuses to remember is not. A signal's end calls nobody.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function of this library, which is not unloaded (napi keeps addons loaded), and takes and returns nothing.
    let _ = unsafe { libc::atexit(call) };
}
