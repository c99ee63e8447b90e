//! The limits and errors of the system when a program is started.

use super::super::refusal::Refusal;
use windows_sys::Win32::Foundation as codes;

/// The whole command line has 32,767 units of UTF-16 at most. A single argument can't be longer either.
pub const LONGEST_ARGUMENT: Option<usize> = Some(32_766);

/// The longest path of a working directory: MAX_PATH, with a backslash and a NUL. The prefix of long paths does not help.
pub const LONGEST_CWD: Option<usize> = Some(258);

/// The system's number for a folder where a file is expected.
pub const IS_A_DIRECTORY: i32 = codes::ERROR_DIRECTORY_NOT_SUPPORTED.cast_signed();

/// The first line of a script is read this far.
pub const SCRIPT_START_BYTES: u64 = 256;

/// The meaning of the system's number for a refused start.
pub fn refusal_of(errno: i32) -> Refusal {
    match errno.cast_unsigned() {
        codes::ERROR_FILE_NOT_FOUND | codes::ERROR_PATH_NOT_FOUND => Refusal::Missing,
        codes::ERROR_ACCESS_DENIED | codes::ERROR_BAD_EXE_FORMAT => Refusal::NotExecutable,
        codes::ERROR_FILENAME_EXCED_RANGE => Refusal::TooLong,
        codes::ERROR_TOO_MANY_OPEN_FILES => Refusal::NoDescriptors,
        codes::ERROR_NOT_ENOUGH_MEMORY | codes::ERROR_COMMITMENT_LIMIT => Refusal::NoMemory,
        _ => Refusal::Other,
    }
}
