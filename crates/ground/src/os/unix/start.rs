//! The limits and errors of the system when a program is started.

use super::super::refusal::Refusal;
use nix::libc;

/// The longest single argument or variable that Linux takes, its NUL not counted (MAX_ARG_STRLEN is 32 pages of 4 KiB). `None`:
/// only the sum is limited.
pub const LONGEST_ARGUMENT: Option<usize> = if cfg!(target_os = "linux") { Some(131_071) } else { None };

/// The longest path of a working directory, in bytes: whatever a path may have.
pub const LONGEST_CWD: Option<usize> = None;

/// The system's number for a folder where a file is expected.
pub const IS_A_DIRECTORY: i32 = libc::EISDIR;

/// The first line of a script is read this far.
pub const SCRIPT_START_BYTES: u64 = 256;

/// The meaning of the system's number for a refused start.
pub fn refusal_of(errno: i32) -> Refusal {
    match errno {
        libc::ENOENT | libc::ENOTDIR => Refusal::Missing,
        libc::ENOEXEC => Refusal::NoProgram,
        libc::EACCES | libc::EISDIR => Refusal::NotExecutable,
        libc::E2BIG => Refusal::TooLong,
        libc::EMFILE | libc::ENFILE => Refusal::NoDescriptors,
        libc::EAGAIN => Refusal::NoProcesses,
        libc::ENOMEM => Refusal::NoMemory,
        _ => Refusal::Other,
    }
}
