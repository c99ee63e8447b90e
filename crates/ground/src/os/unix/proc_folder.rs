//! The folder /proc, as far as its numbers are those of this process's own namespace.
//!
//! A container that may not mount a /proc of its own keeps the outer one. Its numbers then belong to other processes, or to none, and a
//! signal by one of them would hit somebody else. So a process is looked up here alone, and in a foreign /proc only this one itself.

use std::fs::ReadDir;
use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;

/// Whose numbers are in /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcFolder {
    Own,
    /// Another namespace's. This process has the number `listed` there.
    Foreign {
        listed: u32,
    },
    /// There is none, or this process is not in it.
    Absent,
}

/// Whose numbers are in /proc; asked once.
pub fn proc_folder() -> ProcFolder {
    static ANSWER: OnceLock<ProcFolder> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let link = std::fs::read_link("/proc/self").ok();
        let listed = link.and_then(|link| link.to_str()?.parse().ok());
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        judge(process::id(), listed, &status)
    })
}

/// PURE. `listed`: the number behind /proc/self. `status`: /proc/self/status, whose line `NSpid` has a number for each namespace from that
/// of the mount down to the process's own.
fn judge(own: u32, listed: Option<u32>, status: &[u8]) -> ProcFolder {
    let Some(listed) = listed else { return ProcFolder::Absent };
    let mut lines = status.split(|&byte| byte == b'\n');
    let numbers = lines.find_map(|line| line.strip_prefix(b"NSpid:"));
    let depth =
        numbers.map(|numbers| numbers.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count());
    // Kernels without that line (before 4.1) have the number alone.
    if listed == own && depth.unwrap_or(1) == 1 { ProcFolder::Own } else { ProcFolder::Foreign { listed } }
}

/// The folder of a process. `None`: it can't be found by its number.
pub fn folder_of_process(pid: i32) -> Option<PathBuf> {
    match proc_folder() {
        ProcFolder::Own => Some(format!("/proc/{pid}").into()),
        ProcFolder::Foreign { .. } if pid.cast_unsigned() == process::id() => Some("/proc/self".into()),
        ProcFolder::Foreign { .. } | ProcFolder::Absent => None,
    }
}

/// A file of a process.
pub fn file_of_process(pid: i32, name: &str) -> Option<PathBuf> {
    folder_of_process(pid).map(|folder| folder.join(name))
}

/// All that is in /proc, if its numbers are this namespace's.
pub(super) fn processes() -> Option<ReadDir> {
    (proc_folder() == ProcFolder::Own).then(|| std::fs::read_dir("/proc").ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proc_of_the_own_namespace_counts() {
        let status = |pids: &str| format!("Name:\tx\nNStgid:\t9\nNSpid:\t{pids}\nNSpgid:\t0\n").into_bytes();
        for (listed, pids, expected) in [
            (Some(7), "7", ProcFolder::Own),
            (Some(900), "900\t7", ProcFolder::Foreign { listed: 900 }),
            // By chance it has the same number outside.
            (Some(7), "7\t7", ProcFolder::Foreign { listed: 7 }),
            (Some(900), "900\t30\t7", ProcFolder::Foreign { listed: 900 }),
            (None, "", ProcFolder::Absent),
        ] {
            assert_eq!(judge(7, listed, &status(pids)), expected, "{pids}");
        }
        assert_eq!(judge(7, Some(7), b"Name:\tx\n"), ProcFolder::Own, "a kernel without that line");
        assert_eq!(judge(7, Some(8), b""), ProcFolder::Foreign { listed: 8 });
    }
}
