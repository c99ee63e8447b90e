//! Which processes have a session open, by the locks beside its log: `session-state/<id>/inuse.<pid>.lock`, and a `.hold` file
//! of the same name that newer runtimes keep beside it (seen with 1.0.102). A runtime removes its own at a clean end; one that
//! was killed leaves them, and some runtimes then refuse the session for ever.

use super::event_log::{is_plain_id, log_path};
use ground::os::{command_names, was_alive_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One lock. `is_stale`: its process is gone, or its number is that of a process which began after the lock was written and is
/// no Copilot CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionLock {
    pub pid: i32,
    pub is_stale: bool,
    path: PathBuf,
}

/// The locks of a session in this home; it blocks.
pub(super) fn locks_of(home: &Path, session_id: &str) -> Vec<SessionLock> {
    if !is_plain_id(session_id) {
        return Vec::new();
    }
    let log = log_path(home, session_id);
    let Some(entries) = log.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
    entries.flatten().filter_map(|entry| lock_at(entry.path())).collect()
}

fn lock_at(path: PathBuf) -> Option<SessionLock> {
    let name = path.file_name()?.to_str()?;
    let pid: i32 = name.strip_prefix("inuse.")?.strip_suffix(".lock")?.parse().ok()?;
    let facts = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let written = facts.modified().ok()?;
    let age = SystemTime::now().duration_since(written).unwrap_or(Duration::ZERO);
    // A clock that was set after the lock was written makes its owner look younger than the lock.
    let is_owned = || was_alive_for(pid, age) || command_names(pid, "copilot");
    (pid > 0).then(|| SessionLock { pid, is_stale: !is_owned(), path })
}

/// Removes the locks if all of them are stale, each looked at once more right before. Says whose they were; `None` when a
/// process lives, when there is no lock, or when one can't be removed.
pub(super) fn take_over(home: &Path, session_id: &str) -> Option<Vec<i32>> {
    let locks = locks_of(home, session_id);
    if locks.is_empty() || locks.iter().any(|lock| !lock.is_stale) {
        return None;
    }
    for lock in &locks {
        fs::remove_file(&lock.path).ok()?;
        // Older runtimes have no such file.
        let _ = fs::remove_file(lock.path.with_extension("hold"));
    }
    Some(locks.into_iter().map(|lock| lock.pid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home_with(locks: &[i32]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("session-state").join("s");
        fs::create_dir_all(&folder).unwrap();
        for pid in locks {
            fs::write(folder.join(format!("inuse.{pid}.lock")), pid.to_string()).unwrap();
            fs::write(folder.join(format!("inuse.{pid}.hold")), "").unwrap();
        }
        fs::write(folder.join("events.jsonl"), "").unwrap();
        home
    }

    /// The number of a process that is gone.
    fn gone() -> i32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id().cast_signed()
    }

    #[test]
    fn the_lock_of_a_dead_process_is_stale_and_can_be_taken_over() {
        let dead = gone();
        let home = home_with(&[dead]);
        let locks = locks_of(home.path(), "s");
        assert_eq!(locks.iter().map(|lock| (lock.pid, lock.is_stale)).collect::<Vec<_>>(), [(dead, true)]);
        assert_eq!(take_over(home.path(), "s"), Some(vec![dead]));
        let left = fs::read_dir(home.path().join("session-state/s")).unwrap().count();
        assert_eq!(left, 1, "only the log is left");
    }

    #[test]
    fn the_lock_of_a_live_process_is_left_alone_and_so_are_those_beside_it() {
        let own = std::process::id().cast_signed();
        let home = home_with(&[own, gone()]);
        assert!(locks_of(home.path(), "s").iter().any(|lock| lock.pid == own && !lock.is_stale));
        assert_eq!(take_over(home.path(), "s"), None);
        assert_eq!(locks_of(home.path(), "s").len(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_began_after_the_lock_was_written_is_its_owner_only_as_a_copilot() {
        use std::os::unix::process::CommandExt;
        for (name, is_stale) in [("sleep", true), ("copilot", false)] {
            let mut child = std::process::Command::new("sleep").arg0(name).arg("60").spawn().unwrap();
            let pid = child.id().cast_signed();
            // A process that has just begun another program has no command line for a moment.
            while fs::read(format!("/proc/{pid}/cmdline")).unwrap().is_empty() {
                std::thread::yield_now();
            }
            let home = home_with(&[pid]);
            let lock = home.path().join("session-state/s").join(format!("inuse.{pid}.lock"));
            let old = SystemTime::now() - Duration::from_secs(7 * 24 * 3600);
            fs::File::options().write(true).open(lock).unwrap().set_modified(old).unwrap();
            let locks = locks_of(home.path(), "s");
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(locks[0].is_stale, is_stale, "{name}");
        }
    }

    #[test]
    fn ids_that_name_another_folder_have_no_locks() {
        let home = home_with(&[gone()]);
        assert!(locks_of(home.path(), "../session-state/s").is_empty());
        assert!(locks_of(home.path(), "other").is_empty());
    }
}
