//! How programs and variables are named.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The search path of an environment that has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The separator between two folders of a search path.
pub const PATH_SEPARATOR: &str = ":";

/// The variables that name the folder for temporary files.
pub const TEMPORARY_VARIABLES: &[&str] = &["TMPDIR"];

/// The shell, and the arguments before a command that it runs.
pub const SHELL: (&str, &[&str]) = ("/bin/sh", &["-c"]);

/// Whether the name of a program is a path, which is not searched for.
pub fn is_path(name: &str) -> bool {
    name.contains('/')
}

/// The files that may be meant by this path of a program, in the order in which they are tried.
pub fn program_files(program: PathBuf) -> Vec<PathBuf> {
    vec![program]
}

/// Whether the file is a list of commands for the system's own shell, by its name: there are no such names.
pub fn is_batch_file(_: &Path) -> bool {
    false
}

/// Whether the path is a file that somebody may execute.
pub fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Whether both are the name of one variable.
pub fn is_same_variable(left: &OsStr, right: &str) -> bool {
    left == right
}

/// The name that a variable of Unix has on this system.
pub fn native_variable(name: &str) -> &str {
    name
}
