//! The one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after another holder has panicked. Every state behind a lock is complete between two statements, so what such
/// a holder left is as good as before; a second panic would only spread the fault.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
