//! How programs and variables are named.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The search path of an environment that has none.
pub const DEFAULT_PATH: &str = r"C:\Windows\System32;C:\Windows";

/// The separator between two folders of a search path.
pub const PATH_SEPARATOR: &str = ";";

/// The variables that name the folder for temporary files.
pub const TEMPORARY_VARIABLES: &[&str] = &["TEMP", "TMP"];

/// The shell, and the arguments before a command that it runs. It ignores the commands of the registry, and takes the quotes off that
/// the launch puts around the command.
pub const SHELL: (&str, &[&str]) = ("cmd.exe", &["/d", "/s", "/c"]);

/// The endings of names that can be started, where PATHEXT is not set.
const ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";

/// Whether the name of a program is a path, which is not searched for.
pub fn is_path(name: &str) -> bool {
    name.contains(['/', '\\', ':'])
}

/// The files that may be meant by this path of a program, in the order in which they are tried: a name without an ending that can be
/// started gets each of PATHEXT. So the shell scripts of npm, which have no ending, are passed over.
pub fn program_files(program: PathBuf) -> Vec<PathBuf> {
    let endings = std::env::var("PATHEXT").unwrap_or_else(|_| ENDINGS.to_owned());
    if ends_with_one(&program, &endings) {
        return vec![program];
    }
    let with = |ending: &str| {
        let mut name = program.clone().into_os_string();
        name.push(ending.to_lowercase());
        PathBuf::from(name)
    };
    endings.split(';').filter(|ending| !ending.is_empty()).map(with).collect()
}

/// Whether the file is a list of commands for the system's own shell, by its name.
pub fn is_batch_file(file: &Path) -> bool {
    ends_with_one(file, ".CMD;.BAT")
}

/// Whether the path is a file whose ending says that it can be started.
pub fn is_executable(file: &Path) -> bool {
    let endings = std::env::var("PATHEXT").unwrap_or_else(|_| ENDINGS.to_owned());
    ends_with_one(file, &endings) && file.is_file()
}

fn ends_with_one(file: &Path, endings: &str) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    endings.split(';').any(|ending| !ending.is_empty() && name.ends_with(&ending.to_lowercase()))
}

/// Whether both are the name of one variable: "Path" is PATH.
pub fn is_same_variable(left: &OsStr, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
}

/// The name that a variable of Unix has on this system.
pub fn native_variable(name: &str) -> &str {
    match name {
        "HOME" => "USERPROFILE",
        "TMPDIR" => "TEMP",
        _ => name,
    }
}
