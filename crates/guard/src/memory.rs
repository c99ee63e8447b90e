//! The memory functions that the compiler expects from a C library, which the guard does not have.

// The compiler may insert calls of these four functions into any code. `#![no_builtins]` keeps it from turning their loops into
// calls of themselves.

/// # Safety
/// As C's.
#[cfg_attr(guard_program, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    for offset in 0..length {
        // SAFETY: both ranges have `length` bytes by the contract of memcpy.
        unsafe { to.add(offset).write(from.add(offset).read()) };
    }
    to
}

/// # Safety
/// As C's.
#[cfg_attr(guard_program, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    for offset in 0..length {
        // SAFETY: the range has `length` bytes by the contract of memset.
        unsafe { to.add(offset).write(value as u8) };
    }
    to
}

/// # Safety
/// As C's.
#[cfg_attr(guard_program, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    for offset in 0..length {
        // SAFETY: both ranges have `length` bytes by the contract of memcmp.
        let (a, b) = unsafe { (left.add(offset).read(), right.add(offset).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As C's.
#[cfg_attr(guard_program, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(left, right, length) }
}
