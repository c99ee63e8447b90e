//! The words of other processes, by /proc. Empty where they may not be read.

/// A process's program and arguments, each ended by NUL; empty where they can't be read.
pub fn arguments_of(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The short name of a process; empty where it can't be read.
pub fn short_name_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// A process's environment at its start; empty where it may not be read.
pub fn variables_of(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}
