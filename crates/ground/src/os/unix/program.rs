//! How programs and variables are named.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The search path of an environment that has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Whether the name of a program is a path, which is not searched for.
pub fn is_path(name: &str) -> bool {
    name.contains('/')
}

/// The files that may be meant by this path of a program, in the order in which they are tried.
pub fn program_files(program: PathBuf) -> Vec<PathBuf> {
    vec![program]
}

/// Whether both are the name of one variable.
pub fn is_same_variable(left: &OsStr, right: &str) -> bool {
    left == right
}
