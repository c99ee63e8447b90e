//! The words of other processes, by /proc. Empty where they may not be read.

use super::proc_folder::file_of_process;

/// A process's program and arguments, each ended by NUL; empty where they can't be read.
pub fn arguments_of(pid: i32) -> Vec<u8> {
    bytes_of(pid, "cmdline")
}

/// The short name of a process; empty where it can't be read.
pub fn short_name_of(pid: i32) -> String {
    String::from_utf8_lossy(&bytes_of(pid, "comm")).trim_end().to_owned()
}

/// A process's environment at its start; empty where it may not be read.
pub fn variables_of(pid: i32) -> Vec<u8> {
    bytes_of(pid, "environ")
}

fn bytes_of(pid: i32, name: &str) -> Vec<u8> {
    file_of_process(pid, name).and_then(|file| std::fs::read(file).ok()).unwrap_or_default()
}
