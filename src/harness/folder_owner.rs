//! Whose a temporary folder is, by its name: `sheepdog-PLACE-PID-START-RANDOM`.
//!
//! PLACE stands for the machine since it was booted and for the namespace that process ids count in: of another place's ids
//! nothing can be said, so its folders are left alone. PID and START name one process for good, though ids are used again. Without
//! /proc there is no telling, and nothing is ever removed.

use crate::os::start_time;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::OnceLock;

/// Looked at in one sweep; what is left waits for the next host.
const MAX_SWEPT: usize = 64;
const PREFIX: &str = "sheepdog";

/// A name of this host's, `random` at its end.
pub(crate) fn name(random: &str) -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let pid = std::process::id();
        format!("{:06x}-{pid}-{}", place().unwrap_or(0), start_time(pid.cast_signed()).unwrap_or(0))
    });
    format!("{PREFIX}-{own}-{random}")
}

/// Removes the folders in `parent` whose host is gone.
pub(crate) fn sweep(parent: &Path) {
    let Some(place) = place() else { return };
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let left = entries.flatten().filter(|entry| {
        entry.file_name().to_str().and_then(Owner::parse).is_some_and(|owner| owner.is_gone(place))
    });
    for entry in left.take(MAX_SWEPT) {
        // Another host may be at it as well, and what belongs to another user stays.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

struct Owner {
    place: u32,
    pid: u32,
    start: u64,
}

impl Owner {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        if parts.next() != Some(PREFIX) {
            return None;
        }
        let place = u32::from_str_radix(parts.next()?, 16).ok()?;
        let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next()?;
        Some(Owner { place, pid, start })
    }

    fn is_gone(&self, place: u32) -> bool {
        // A process whose start can't be read, though it is there, is taken for the owner.
        self.place == place
            && match start_time(self.pid.cast_signed()) {
                Some(start) => start != self.start,
                None => !Path::new(&format!("/proc/{}", self.pid)).exists(),
            }
    }
}

/// `None` where it can't be told.
fn place() -> Option<u32> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let ids = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let mut hasher = DefaultHasher::new();
    (boot.trim(), ids).hash(&mut hasher);
    // Zero is for those who can't tell.
    Some((hasher.finish() as u32 & 0xff_ffff).max(1))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_hosts_that_are_gone_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("litter"), "x").unwrap();
            path
        };
        let place = place().unwrap();
        let (pid, start) = (std::process::id(), start_time(std::process::id().cast_signed()).unwrap());
        // Higher than any id that the system gives.
        let gone = make(format!("sheepdog-{place:06x}-4194999-{start}-aaaaaa"));
        let reused = make(format!("sheepdog-{place:06x}-{pid}-{}-bbbbbb", start + 1));
        let own = make(name("cccccc"));
        let elsewhere = make(format!("sheepdog-{:06x}-4194999-1-dddddd", place ^ 1));
        let strange = make("sheepdog-notes".to_owned());
        sweep(parent.path());
        assert!(!gone.exists() && !reused.exists());
        assert!(own.exists() && elsewhere.exists() && strange.exists());
    }
}
