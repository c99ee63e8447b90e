//! The machine, the namespace of process ids, and the user.

use super::proc_folder::{ProcFolder, file_of_process, proc_folder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// The machine's name; `None` where the system does not tell it. Blocks.
pub fn machine_name() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok()
}

/// The number of the user that this process acts as.
pub fn user_id() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The folder for this user's files of this boot, as systemd makes it.
pub fn runtime_folder() -> PathBuf {
    PathBuf::from(format!("/run/user/{}", user_id()))
}

/// A number for this boot of the machine and the namespace in which process ids count; `None` where they can't be determined.
pub(crate) fn place_of_processes() -> Option<u32> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // In another namespace's /proc no process is found by its number.
    if proc_folder() != ProcFolder::Own {
        return None;
    }
    let ids = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let mut hasher = DefaultHasher::new();
    (boot.trim(), ids).hash(&mut hasher);
    // Zero stands for an unknown place.
    Some((hasher.finish() as u32 & 0xff_ffff).max(1))
}

/// Whether a process without a known start time may be alive. A readable stat line that gives no living process belongs to a
/// zombie. A process with an unreadable line counts as alive.
pub(crate) fn may_be_alive(pid: u32) -> bool {
    let Some(stat) = file_of_process(pid.cast_signed(), "stat") else { return true };
    std::fs::read(stat).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound)
}

/// Asks the allocator to give unused memory back to the system.
pub(crate) fn give_back_memory() {
    // SAFETY: the call takes no pointer, and may be made by any thread at any time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
